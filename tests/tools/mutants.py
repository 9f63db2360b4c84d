"""Breaks the package on purpose, one place at a time, and says which breakages the generated jobs do not notice.

    python tests/tools/mutants.py [--jobs 600] [--seed 29] [--only tiling]

Each breakage makes some outputs wrong, too late, too large or not at all. It is put into a copy of the package, and
`tests/tools/generated_jobs.py` runs against that until a job fails. Where a line has changed, change it here, too.

What only these change is not broken here: `Arrangement.direct` and `_least_of_long_runs` reach no more than a number in
the hint for a full disk. `Plan.cuts_lines` alone chooses between two ways to the same output, of which one decodes
chunks again. Which places of chunks are `unclear` matters for damaged files. The memory that counts for workers of other
processes is not measured, but only that of threads.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LONGEST = 1800  # seconds
# The scenes of generated jobs in which each area is at work.
SCENES = {
    "planner": ("any", "cut", "recoded", "misfits", "measured"), "tiling": ("tiles",), "chunks": ("recoded", "others", "misfits"), "keep-others": ("others",),
    "lengths": ("any", "tiles"),
}  # fmt: skip
# Module, what stands there once, and what takes its place.
BREAKAGES = {
    "planner": [
        ("pipeline/plan.py", "min(starts[i] + starts.step, size)", "min(starts[i] + starts.step - (i > 3), size)"),
        ("pipeline/plan.py", "number, i = divmod(number, len(starts))", "number, i = divmod(number, max(1, len(starts) - (len(starts) > 5)))"),
        ("pipeline/plan.py", "for number in range(self.block_count)", "for number in range(self.block_count - (self.block_count > 7))"),
        ("pipeline/arrangement.py", "(plan.cuts_lines or plan.block_elements > most)", "(plan.cuts_lines or plan.block_elements > 2 * most)"),
        ("pipeline/plan.py", "extents[d] = min(extents[d], max(1, steps) * cut_alignment[d])", "extents[d] = min(extents[d], max(1, steps + 1) * cut_alignment[d])"),
        ("pipeline/plan.py", "extents = [max(1, size) for size in sizes]", "extents = [max(2, size) for size in sizes]"),
        ("formats/raw.py", "cut, run = cut - 1, strides[cut - 1] * sizes[cut - 1]", "cut, run = cut - 1, strides[cut - 1] * (sizes[cut - 1] - 1)"),
        ("formats/raw.py", "if parts[cut] != slice(0, sizes[cut])", "if parts[cut].start != 0"),
        ("formats/raw.py", "for part, stride in zip(parts[cut:], strides[cut:], strict=True)", "for part, stride in zip(parts[cut + 1 :], strides[cut + 1 :], strict=True)"),
        ("formats/raw.py", "places += (part.start + index) * stride", "places += index * stride"),
        ("formats/raw.py", "return values.T if self.order == \"F\" else values\n\n    def write", "return values\n\n    def write"),
        ("formats/raw.py", "for place, data in sorted(self._edges)", "for place, data in sorted(self._edges)[1:]"),
        ("pipeline/arrangement.py", "return 4 + encoded + 2 * travels + waits", "return 2"),
        ("pipeline/arrangement.py", "need = max(cost.held(plan.block_elements), of_chunks, values.least_bytes, job.lengths.least_bytes)", "need = cost.held(plan.block_elements)"),
        ("pipeline/arrangement.py", "return max(1, share * self.elements // self.size)", "return max(1, 2 * share * self.elements // self.size)"),
        ("pipeline/arrangement.py", "need = plan.block_elements * cost + max(0, largest - plan.block_elements) * whole", "need = plan.block_elements"),
        ("pipeline/arrangement.py", "return tuple(map(lcm, cut_alignment, other.chunks)) if source.chunks else _rounded_up(cut_alignment, other.chunks)", "return cut_alignment"),
        ("pipeline/arrangement.py", "[tuple(map(lcm, *chunks)), chunks[-1]] if chunks", "[chunks[0], chunks[0]] if chunks"),
        ("pipeline/reversal.py", "part.stop - part.start < job.values.sizes[job.axis]", "part.stop < job.values.sizes[job.axis]"),
        ("pipeline/reversal.py", "np.unique(clamped[clamped > part.start])", "np.unique(clamped[clamped > part.start + 1])"),
        ("pipeline/reversal.py", "lines = clamped == length", "lines = clamped <= length"),
        ("pipeline/reversal.py", "not (arrangement.spooled and sink.chunks)", "arrangement.spooled and sink.chunks"),
    ],
    "tiling": [
        ("pipeline/plan.py", "rows = min(max(1, most_elements // columns), panels.extents[axis])", "rows = min(max(1, 2 * most_elements // columns), panels.extents[axis])"),
        ("pipeline/plan.py", "rows if d == axis else extent for d", "rows if d == axis else extent + 1 for d"),
        ("pipeline/reversal.py", "count += before * part.start * behind", "count += part.start * behind"),
        ("pipeline/reversal.py", "values, axis = values.T, values.ndim - 1 - axis", "values, axis = values.T, axis"),
        ("pipeline/reversal.py", "return values.T if self.order == \"F\" else values", "return values"),
        ("pipeline/reversal.py", "clamped = clamped[order]", "pass"),
        ("pipeline/reversal.py", "for left in range(0, columns, width))", "for left in range(0, max(1, columns - 1), width))"),
        ("pipeline/reversal.py", "first, top = self.first(region), region[self.axis].start", "first, top = self.first(region), 0"),
        ("pipeline/reversal.py", "rows[:, columns] = self._stripe(fd, first + columns.start", "rows[:, columns] = self._stripe(fd, first"),
        ("pipeline/reversal.py", "back[order] = np.arange(len(order))", "back = np.arange(len(order))"),
        ("pipeline/reversal.py", "if shortest < part.stop:", "if shortest < part.stop - 1:"),
        ("pipeline/reversal.py", "if longest > part.start:", "if longest > part.stop:"),
        ("pipeline/reversal.py", "window = slice(max(0, shortest - part.stop), longest - part.start)", "window = slice(max(0, shortest - part.stop + 1), longest - part.start)"),
        ("pipeline/reversal.py", "(first * self.rows + row * columns)", "(first * self.rows + row * (columns - (columns > 30)))"),
        ("operator/kernel.py", "last = (lengths - 1 - first) * columns + np.arange(columns)", "last = (lengths - first) * columns + np.arange(columns)"),
        ("operator/kernel.py", "where=True if rows[-1, 0] < shortest else rows < lengths", "where=rows <= lengths"),
    ],
    "chunks": [
        ("formats/hdf5/encoding.py", "scratch.set_extent(part.shape)", "pass"),
        ("formats/hdf5/encoding.py", "if scratch.shape != part.shape:", "if scratch.shape == self.chunks != part.shape:"),
        ("formats/hdf5/encoding.py", "return mask, data", "return 0, data"),
        ("formats/hdf5/encoding.py", "if getattr(_scratches, \"image\", None) != image:", "if not hasattr(_scratches, \"image\"):"),
        ("formats/hdf5/sink.py", "write_direct_chunk(chunk.start, chunk.data, chunk.mask)", "write_direct_chunk(chunk.start, chunk.data)"),
        ("formats/hdf5/sink.py", "return self._encoder if self.encoded else Handing()", "return self._encoder if self.chunks else Handing()"),
        ("formats/hdf5/types.py", "space.select_hyperslab(tuple(part.start for part in region), sizes)", "space.select_hyperslab((region[0].start, *(part.start * (part.start < 40) for part in region[1:])), sizes)"),
        ("formats/contract.py", "part.start // chunk * chunk", "part.start"),
        ("formats/contract.py", "min(start + chunk, part.stop)", "start + chunk"),
    ],
    "keep-others": [
        ("formats/hdf5/sink.py", "file.fill_from(self.template.path, self.template.identity)", "pass"),
        ("formats/hdf5/sink.py", "            _clear_chunks(dataset)\n", "            pass\n"),
        ("formats/archives.py", "start = self._end + len(info.FileHeader(zip64=True))", "start = self._end + len(info.FileHeader())"),
        ("formats/archives.py", "info.header_offset += place - old", "info.header_offset += place - old - 1"),
        ("formats/npz.py", "self.archive.copied()", "self.archive.copied()[:1]"),
        ("formats/npz.py", "self.kept = kept.stored if kept and self._copies else 0", "self.kept = 0"),
        ("formats/safetensors.py", "(*starts, size), strict=True)]", "(*starts, size), strict=True)][:1]"),
        ("formats/safetensors.py", "self.tensor = replace(self._old.tensor, path=file.temporary, name=file.name)", "self.tensor = replace(self._old.tensor, path=file.temporary, name=file.name, offset=self._old.tensor.offset + 8)"),
        ("formats/zarr/sink.py", "is None for of, place_of in arrays):\n                    copy_file", "is not None for of, place_of in arrays):\n                    copy_file"),
        ("formats/zarr/sink.py", "self._folder.mkdir(parents=True, exist_ok=True)", "self._folder.mkdir(exist_ok=True)"),
    ],
    "lengths": [
        ("operator/kernel.py", "np.minimum(once, min(size, _largest(once.dtype))).astype(np.intp)", "np.minimum(once.astype(np.intp), size)"),
        ("operator/kernel.py", "return int(np.iinfo(dtype).max)", "return 127"),
        ("operator/kernel.py", "lengths = lengths[..., 0]", "lengths = lengths[..., -1][..., ::-1] if lengths.ndim > 3 else lengths[..., 0]"),
        ("operator/kernel.py", "(lengths == lengths[:1]).all()", "(lengths == lengths[:1]).any()"),
        ("pipeline/reversal.py", "slice(max(0, length - part.stop), length", "slice(max(0, length - part.stop - 1), length"),
        ("operator/kernel.py", "int(np.count_nonzero(once > np.uint64(size)))", "int(np.count_nonzero(once >= np.uint64(size)))"),
        ("pipeline/plan.py", "(*region[:axis], slice(0, 1), *region[axis + 1 :])", "(*region[:axis], slice(0, 1), *region[axis + 1 :])[: axis + 2] + region[axis + 2 :][::-1]"),
        ("pipeline/views.py", "slice(0, 1) if d is None else region[d] for d in self._places", "slice(0, 1) if d is None else slice(0, region[d].stop - region[d].start) for d in self._places"),
        ("pipeline/views.py", "narrow[d] = values.shape[i]", "narrow[-1 if sizes[-1] == sizes[d] else d] = values.shape[i]"),
        ("pipeline/views.py", "lengths[lines] += counts", "lengths[lines] = counts"),
        ("pipeline/views.py", "within &= (integers == wide) & ~((wide == 0) & np.signbit(wide))", "pass"),
        ("pipeline/reversal.py", "return counted // _readings(job, arrangement.plan) if counted else 0", "return counted"),
        ("pipeline/reversal.py", "lengths = MemorySource(lengths.name, lengths.read(), lengths.storage)", "lengths = MemorySource(lengths.name, lengths.read()[::-1], lengths.storage)"),
    ],
}  # fmt: skip


def break_there(folder, module, before, after):
    """Put the breakage into the copy."""
    path = Path(folder, "revseq_cli", module)
    text = path.read_text()
    assert text.count(before) == 1, f"{module} has {before!r} {text.count(before)} times"
    path.write_text(text.replace(before, after))


def is_noticed(folder, scenes, jobs, seed):
    """Whether one of so many generated jobs fails; a run of generated jobs that ends late is one that hangs."""
    command = [
        sys.executable,
        "tests/tools/generated_jobs.py",
        "--as-found",
        "--workers",
        "1",
        "--seed",
        seed,
        "--jobs",
        jobs,
    ]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": folder}
    try:
        done = subprocess.run(
            [*map(str, command), "--scenes", *scenes],
            cwd=folder, env=environment, capture_output=True, timeout=_LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.returncode == 1


def survives(breakage):
    """Whether no job notices the breakage, in a copy of its own; without a breakage, whether none fails."""
    module, before, after, scenes, jobs, seed = breakage
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "__pycache__", "build"))
        if module:
            break_there(folder, module, before, after)
        return not is_noticed(folder, scenes, jobs, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600, help="which take about a minute of a core")
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=BREAKAGES)
    wanted = parser.parse_args()
    areas = [wanted.only] if wanted.only else [*BREAKAGES]
    chosen = [
        (*place, SCENES[area], wanted.jobs, wanted.seed)
        for area in areas
        for place in [("", "", ""), *BREAKAGES[area]]
    ]  # fmt: skip
    count = survivors = 0
    with ThreadPool(wanted.workers) as pool:
        for (module, before, after, *_), survived in zip(chosen, pool.imap(survives, chosen), strict=True):
            assert module or survived, "a job fails as things stand"
            count += bool(module)
            if module and survived:
                survivors += 1
                print(f"{module}: {before!r} -> {after!r}", flush=True)
    print(f"{count - survivors} of {count} are noticed")


if __name__ == "__main__":
    main()
