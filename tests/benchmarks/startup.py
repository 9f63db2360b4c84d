"""Start-up: `revseq --help` against `python -c pass`, and a small run against `import numpy`, in turn in one run."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COMMAND = Path(sys.executable).with_name("revseq")
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "revseq --help": [COMMAND, "--help"],
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "revseq run example1.txt": [COMMAND, "run", ROOT / "samples/example1.txt"],
    "revseq run example1.npy": [
        COMMAND, "run", ROOT / "samples/example1.npy", ROOT / "samples/example1-lengths.npy", "--axis", "3",
    ],
}  # fmt: skip


def main():
    times = {name: [] for name in CASES}
    for _ in range(21):
        for name, command in CASES.items():
            began = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - began)
    median = {name: statistics.median(each) for name, each in times.items()}
    for name, seconds in median.items():
        print(f"{name:26} {seconds * 1000:7.1f} ms")
    print(f"help against pass:   {median['revseq --help'] / median['python -c pass']:.2f} (bar: 5)")
    numpy = median["python -c 'import numpy'"]
    for name in ("revseq run example1.txt", "revseq run example1.npy"):
        print(f"{name[7:]} against numpy: {median[name] / numpy:.2f} (bar: 2)")


if __name__ == "__main__":
    main()
