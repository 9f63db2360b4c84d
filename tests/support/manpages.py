"""The man pages. Section 1 is made from the commands and man/commands.md, section 7 from the other Markdown files in man/.

`pytest --rewrite-samples` writes them to man/man1 and man/man7.
"""

import importlib
import re
import textwrap
from pathlib import Path

import click

from revseq_cli import __version__
from revseq_cli.commands.cli import COMMANDS, cli

RELEASED = "2026-11-21"
MAN = Path(__file__).parents[2] / "man"
TOPICS = ("examples", "porting", "formats", "engines", "text")
EXIT = {
    "run": {
        0: "done",
        2: "an error stopped the work; no file was changed, unless the message names it, or only the report could not be printed",
    },
    "check": {
        0: "every constraint holds or, with --feature-level all, one of DirectML's levels accepts the job",
        1: "a constraint does not hold or, with --feature-level all, every level of DirectML refuses the job",
        2: "an error stopped the work",
    },
    "diff": {0: "the tensors are equal", 1: "the tensors differ", 2: "an error stopped the work"},
    "batch": {
        0: "all jobs are done or, with --dry-run, can be done",
        1: "a job failed; the others are done; with --dry-run, a job or a disk refuses",
        2: "MANIFEST is wrong and no job was started, or the report could not be printed",
    },
    "show": {
        0: "done",
        1: "some of several TENSORs cannot be read; the others are shown",
        2: "an error stopped the work; nothing is shown",
    },
    "verify": {
        0: "everything is right; there may be notes",
        1: "an example or a table is wrong, or some of several pages cannot be read or have no example; the others are checked",
        2: "no page can be read or has an example",
    },
}
SIGNALS = "A process that SIGINT, SIGTERM or SIGHUP stops dies of that signal: a shell sees 130, 143 or 129."
ENVIRONMENT = {
    "REVSEQ_FEATURE_LEVEL": "The feature level, unless --feature-level is given.",
    "REVSEQ_LIKE": "The system that a job is like, unless --like is given.",
    "REVSEQ_COLOR": "When to use colour, unless --color is given: auto, always or never.",
    "REVSEQ_ENGINE": "The engine that does the work, unless --engine is given.",
    "REVSEQ_JOBS": "The largest number of cores to use, unless --jobs is given.",
    "REVSEQ_SCHEDULER": "The address of the dask scheduler, unless --scheduler or --scheduler-file is given.",
    "REVSEQ_MEMORY": "The limit of memory, unless --memory is given.",
    "REVSEQ_PROGRESS": "How to show progress, unless --progress is given: auto, plain or none.",
    "NO_COLOR": "If set, no colours; bold and underlined text stands out instead.",
    "SOURCE_DATE_EPOCH": "The time for the history of NetCDF outputs, in seconds since 1970, instead of the clock's time.",
    "TMPDIR": "The folder for temporary files if the command writes no output file.",
    "FORCE_COLOR": "If set, and NO_COLOR is not set, colours everywhere, even in a pipe.",
}
TENSORS = {
    "*.npy, *.h5, *.hdf5, *.nc, *.npz, *.safetensors, *.pb, *.json, *.txt, *.md, *.csv, *.tsv; pages as *.html, *.rst and *.ipynb; *.npy.gz, *.txt.zst, *.json.xz, *.csv.bz2": "Tensors. The first bytes and then the suffix tell the format of an input; the suffix is the format of an output.",
    "*.zarr": "Stores, which are folders.",
}
MODELS = {"*.onnx": "Models of ONNX, as model.onnx::node; elements may be in files beside them."}
WRITTEN = {
    **TENSORS,
    ".revseq-*.tmp": "A killed run may leave this temporary file beside its output. You can delete it.",
}
FILES = {
    "check": TENSORS | MODELS,
    "show": TENSORS,
    "run": WRITTEN | MODELS | {"*.svg": "Pictures.", "*.html": "Web pages."},
    "convert": WRITTEN,
    "diff": TENSORS | MODELS | {"*.svg": "Pictures.", "*.jsonl, *.json, *.csv": "Manifests. The suffix is the format."},
    "verify": {
        "*.md, *.markdown, *.txt, *.text, *.rst, *.html, *.htm, *.xhtml, *.ipynb": "The pages of a folder.",
        ".revseq-*.tmp": "A killed run with --fix may leave this temporary file beside a page. Delete it.",
    },
    "batch": {
        "*.jsonl, *.json, *.csv": "Manifests. The suffix is the format.",
        "MANIFEST.revseq-journal": "The finished jobs, for --resume: two lines for each job, with checksums. A batch locks it while it works, and leaves it when all jobs are done. Delete it to start again.",
        "OUTPUT.revseq-journal": "The same with --each: a hidden file beside the outputs, such as out/.{stem}.npy-7bcdb61e.revseq-journal for -o 'out/{stem}.npy'. The digits are a digest of the pattern: batches over several patterns can run at once.",
        ".revseq-*.tmp": "A killed batch may leave these temporary files beside its outputs. Delete them.",
    },
    "export": {
        **TENSORS,
        **MODELS,
        "MODEL.InputTensor.npy, MODEL.SequenceLengthsTensor.npy": "Values that are not in MODEL.json itself. They must stay beside it.",
        "MODEL.OutputTensor.npy": "The result, which DxDispatch writes into the folder where it is started.",
        "MODEL.zip": "All of them, with --zip.",
    },
}


# Click's arguments have no help of their own.
TENSOR = (
    "A tensor: x.npy; x.pb; x.h5, x.npz, x.safetensors or x.zarr if it contains one tensor, or else x.h5::/group/name, x.npz::name; "
    "x.json, x.txt or x.md in JSON or bracket notation; x.csv or x.tsv; page.md::2, the second example of a page, and "
    "page.md::2::OutputTensor, one tensor of it; - for standard input, or another pipe; or the tensor itself, as text that begins with a bracket. See revseq-formats(7)."
)
ONE = TENSOR.replace(
    "page.md::2, the second example of a page, and ", "x.txt::InputTensor, one of several in a text, and "
)
ARGUMENTS = {
    "INPUT": TENSOR,
    "[LENGTHS]": "The lengths, named like INPUT. A text that is a complete job, a DxDispatch model, or a node of an ONNX model, needs none.",
    "TENSOR...": TENSOR,
    "PAGE...": "Markdown, HTML, reStructuredText, plain text or a notebook; page.md::2 for one example; - for standard input; a "
    "folder of pages; or one of ONNX's tests. See revseq-text(7) and revseq-formats(7).",
    "SRC": ONE,
    "DST": "A new file; its suffix is the format. x.h5::/group/name or x.npz::name gives the tensor a name; - is standard "
    "output.",
    "A B": f"Two tensors; with --job, A, INPUT and LENGTHS; with --on, INPUT and LENGTHS. {ONE} With --as-printed, A is a log, or log.txt::NAME for one of "
    "several buffers.",
    "[LEVEL]": "A feature level, such as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0; or all.",
    "[COMMAND]": "The name of a command; without it, the help of revseq itself.",
}


# The members of what --json prints; a test holds them to the commands.
_SCHEMA = {"schema": "1; it changes when the members change"}
_DESC = {
    "InputTensor": "its DataType and Sizes; what check infers of an ONNX model may have names for sizes that are not known",
    "SequenceLengthsTensor": "its DataType and Sizes",
    "Axis": "the dimension that is reversed",
}
_NOTES = "a list of what is unusual about the files, such as padding that is left out"
_WRITTEN = {
    "output": "the file's name",
    "bytes": "the size of all elements in bytes",
    "verified": "whether the output was read back and compared",
    "notes": "a list of what could not be kept, of lengths that were clamped, of padding that is left out and, with --verify, "
    "of chunks that the inputs do not store",
    "sha256": "the digest of the file in hexadecimal, with --sha256",
}
_REVERSED = _WRITTEN | {"clamped": "the number of lengths above the axis size, which are clamped to it"}
_JSON_ERROR = (
    "After an error that ends the command, these are exit_status, and errors: a list of file and key (or null), found, "
    "wanted, hint, where, and context (lines of a text). revseq help json prints a JSON Schema of all that --json prints."
)
JSON = {
    "run": _SCHEMA | _DESC | _REVERSED | {
        "tensors": "where INPUT names several tensors, a list of name and the members above but those about the file; beside it, "
        "InputTensor and what belongs to it are those of the first, and bytes is the sum",
        "plan": "with --dry-run, instead of the members about the output: blocks, block_bytes, read_bytes, write_bytes, "
        "engine, workers (null with a dask scheduler), memory (bytes), spooled (whether temporary files are needed) and, "
        "with a dask scheduler, its address as scheduler; where the tensor passes through a temporary file of its own size, since "
        "lines are short runs of bytes, also run_bytes (of the runs that are then read and written) and direct_memory (the memory "
        "in bytes with which there is none)",
    },
    "check": _SCHEMA | {
        "level": "the feature level, or all",
        "valid": "whether every constraint holds; of all levels, whether one of DirectML's accepts the job",
    } | _DESC | {
        "BatchAxis": "the dimension of --batch-axis, or null",
        "constraints": "a list of label (no two are the same), tensor, property, found, wanted, rule, ok and hint, which is "
        "empty where ok",
        "levels": "with --feature-level all, instead of constraints: a list of level, valid and constraints",
        "choices": "where the job is refused, a list of options that make one, and their meaning; the best first",
        "lowest_level": "the lowest feature level that accepts the tensors, or null",
        "notes": "a list of padding that is left out, and of chunks that the inputs do not store and that are read as fill "
        "value",
        "lengths": "counts: total, clamped and unchanged; null if no level accepts the tensors",
        "answer": "with --on, name, outcome (right, wrong or refused), told (how, or why) and levels (those of DirectML that "
        "agree)",
        "exit_status": "that of the command, beside nodes alone",
        "nodes": "of a model of ONNX with several nodes, with exit_status and nothing else: a list of name, ok, verdict (or "
        "null), lowest_level and errors",
    },
    "verify": _SCHEMA | {
        "exit_status": "that of the command",
        "level": "the feature level",
        "pages": "a list of page, error (a text or null), errors (its parts), skipped (examples of other operators), tables and sentences (how many are "
        "about feature levels), unfixed (why --fix left the page as it is, or null), diff (the lines of --dry-run), findings, a "
        "list of line, column, rule (example, feature-levels, statement or page), level (error or note) and message, and examples, a list of "
        "number, line, data_set (the name of its folder; line or data_set is null), right, problems, hints (feature levels that "
        "lift problems), clamped, fixed (elements that were wrong) and difference (null, or index, line, found, expected, count "
        "and total)",
        "skipped": "the number of pages without an example",
    },
    "show": _SCHEMA | {
        "exit_status": "that of the command",
        "tensors": "a list of name, DataType, Sizes, dimensions (their names, null for one without), attributes (their number, or "
        "null), attribute_values (an object; of a tensor that is open), bytes, format, storage (words that depend on the format), notes and, with --stats, statistics: min, max, mean, NaN, infinite and missing; a value that is not finite is a string",
        "files": "a list of the files and groups whose contents are listed: name, format and attributes",
        "groups": "a list of the groups in them: name and attributes",
        "others": "a list of what else is in them, and is no tensor: name, what (in words), Sizes and attributes",
        "errors": "a list of name, error (the message) and its parts, for each TENSOR that cannot be read",
    },
    "levels": _SCHEMA | {
        "levels": "a list of level, dimension_counts (least and most), InputTensor and SequenceLengthsTensor (lists of data "
        "types) and most_elements; null where there is no limit, or no operator yet",
    },
    "convert": _SCHEMA | {"input": "its name, DataType and Sizes"} | _WRITTEN,
    "diff": _SCHEMA | {
        "equal": "whether the tensors are equal",
        "A": "its name, role (A), DataType and Sizes",
        "B": "its name, role (B, or right), DataType and Sizes; with --job those of the right output, and the name of INPUT",
        "total": "the number of elements of A; null if DataType or Sizes differ",
        "Axis": "the dimension that is reversed, with --job or --on, or null",
        "different": "the number of elements that differ; null if DataType or Sizes differ",
        "both_nan": "the number of these that are NaN in both A and B",
        "lines": "with --job, the number of lines with differences",
        "inside": "with --job, the number of differences inside the reversed part",
        "behind": "with --job, the number of differences behind the reversed part",
        "wrong_lines": "with --job, the number of wrong lines (count) and of all lines (of), and the rule that separates the wrong "
        "lines from the right ones, with its id; both are empty if there is none",
        "mistakes": "with --job, a list of what explains A: id, text, and how many of the wrong lines it explains; revseq-porting(7) "
        "lists the ids",
        "hint": "what to add, or an empty text",
        "first": "a list of the first differences: index, A and B",
        "largest_absolute": "the largest |A - B|, or null",
        "largest_relative": "the largest |A - B| / |B|, or null",
        "notes": _NOTES,
        "line": "with --manifest, the line of the job, which prints one object in one line; it has equal, total, different, lines, wrong_lines, mistakes, hint and notes of those above",
        "a": "with --manifest, the name of A",
        "ok": "with --manifest, whether the job could be checked",
        "error": "with --manifest, the message of a job that could not be checked, or null",
        "errors": "with --manifest, its parts as objects",
        "version": "with --on alone, that of ONNX Runtime, and no member above but schema",
        "providers": "with --on alone, a list of name and data_types",
        "devices": "with --on alone, a list of provider, kind and vendor; empty before ONNX Runtime 1.22",
    },
    "export": _SCHEMA | _DESC | {
        "output": "the name of the model, or of the archive with --zip",
        "files": "a list of the files to copy to Windows: path, bytes, and written (whether this command wrote it)",
        "members": "a list of the names in the archive, the model first; empty without --zip",
        "result": "the file that DxDispatch writes",
        "command": "what to type on Windows, in the folder of the model",
        "comparison": "what to type here, when the result is beside the model",
        "notes": _NOTES,
    },
    "batch": _SCHEMA | {
        "line": "the line of the job in the manifest, or with --each its number; each job prints one object in one line",
        "ok": "whether the job is done",
        "error": "the message, or null",
        "errors": "its parts as objects, as those of an error that ends the command",
        "skipped": "whether it was done before, with --resume",
        "plan": "read_bytes and write_bytes of its tensors, with --dry-run",
        "file_systems": "a list, in the last line with --dry-run: path, needed_bytes and free_bytes",
    } | _REVERSED,
}  # fmt: skip


def escaped(text):
    """Text as roff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def filled(text):
    """The same in short lines."""
    return in_lines(escaped(text))


def in_lines(roff):
    """Roff in lines of at most 72 bytes, of which none looks like a request; mandoc warns of lines above 80."""
    lines = textwrap.fill(roff, 72, break_long_words=False, break_on_hyphens=False)
    return re.sub(r"^([.'])", r"\\&\1", lines, flags=re.MULTILINE)


def paragraphs(text):
    """Click's help as paragraphs."""
    return "\n.PP\n".join(filled(" ".join(part.split())) for part in textwrap.dedent(text).strip().split("\n\n"))


def tagged(pairs, body=filled):
    """A list of terms and what they mean; `body` turns the meaning into roff."""
    return "".join(f".TP\n.B {escaped(term)}\n{body(words)}\n" for term, words in pairs)


def heading(title, section, manual):
    """The start of a page; nothing is hyphenated or spread to the margin, since names and options would be."""
    return f'.TH {title.upper()} {section} "{RELEASED}" "revseq {__version__}" "{manual}"\n.nh\n.ad l'


def see_also(own):
    """References to every page but this one."""
    commands = [("revseq", 1), *((f"revseq-{each}", 1) for each in COMMANDS)]
    pages = [*commands, *((f"revseq-{each}", 7) for each in TOPICS)]
    return ".SH SEE ALSO\n" + ",\n".join(f".BR {escaped(name)} ({n})" for name, n in pages if name != own)


def options_of(command, context):
    """Every option with its metavar and help, as --help has them."""
    options = (each for each in command.get_params(context) if isinstance(each, click.Option))
    return [record for each in options if (record := each.get_help_record(context))]


def page(name):
    """The page of a command, or of the group for None; its file's name and its text."""
    command = importlib.import_module(f"revseq_cli.commands.{name}").command if name else cli
    full = f"revseq {name}" if name else "revseq"
    context = click.Context(command, info_name=full, help_option_names=cli.context_settings["help_option_names"])
    title = full.replace(" ", "-")
    usage = " ".join(command.collect_usage_pieces(context))
    summary = COMMANDS[name] if name else "DirectML's operator DML_REVERSE_SUBSEQUENCES on tensor files"
    environment = sorted(
        {e for each in command.params if (e := getattr(each, "envvar", None))}
        | {"NO_COLOR", "FORCE_COLOR"}
        | ({"TMPDIR"} if "*.zarr" in FILES.get(name, {}) else set())
        | ({"SOURCE_DATE_EPOCH"} if any("--history" in each.opts for each in command.params) else set())
        | (set() if name else set(ENVIRONMENT))
    )
    parts = [
        heading(title, 1, "User Commands"),
        f".SH NAME\n{filled(f'{title} - {summary}'.rstrip('.'))}",
        f".SH SYNOPSIS\n.B {escaped(full)}\n{escaped(usage)}",
        f".SH DESCRIPTION\n{paragraphs(command.help)}",
    ]
    if not name:
        parts.append(".SH COMMANDS\n" + tagged((f"revseq {key}", words) for key, words in COMMANDS.items()).rstrip())
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    if known := [(each, ARGUMENTS[each]) for each in arguments if each in ARGUMENTS]:
        parts.append(".SH ARGUMENTS\n" + tagged(known).rstrip())
    parts.append(".SH OPTIONS\n" + tagged(options_of(command, context)).rstrip())
    parts.append(".SH ENVIRONMENT\n" + tagged((key, ENVIRONMENT[key]) for key in environment).rstrip())
    status = EXIT.get(name, {0: "done", 2: "an error stopped the work"})
    parts.append(
        ".SH EXIT STATUS\n" + tagged((str(key), words.capitalize() + ".") for key, words in status.items()).rstrip()
    )
    parts.append(f".PP\n{filled(SIGNALS)}")
    if name in JSON:
        parts.append(
            ".SH JSON\nWith\n.B \\-\\-json\nstandard output has these members:\n" + tagged(JSON[name].items()).rstrip()
        )
        parts.append(f".PP\n{filled(_JSON_ERROR)}")
    if name in FILES:
        parts.append(".SH FILES\n" + tagged(FILES[name].items()).rstrip())
    examples = literal(escaped("\n".join(command.examples)))
    parts.append(f".SH EXAMPLES\n.nf\n{examples}\n.fi")
    if name:
        parts.append(roff(more_examples(name)).rstrip())
    parts.append(see_also(title))
    return f"man1/{title}.1", "\n".join(parts) + "\n"


def more_examples(name):
    """The section of man/commands.md about a command."""
    text = (MAN / "commands.md").read_text(encoding="utf-8")
    return re.search(rf"^## revseq {name}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]


# In code, roff would print these four as typographic quotes and accents.
_WIDEST = 60  # characters of a line in a list
_LITERAL = {"'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def literal(code):
    """Escaped code, to be printed as it would be typed."""
    return re.sub("['`^~]", lambda found: _LITERAL[found[0]], code)


def unbroken(code):
    """Code that stays on one line, unless it is longer than one."""
    return code.replace(" ", "\N{NO-BREAK SPACE}") if len(code) < _WIDEST else code


def marked(text):
    """Markdown prose as roff: code and **bold** are bold, and a link to the web is followed by its address."""
    text = escaped(" ".join(text.split()))
    text = re.sub(r"\[([^]]+)\]\((https:[^)]+)\)", r"\1 (\2)", text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    text = re.sub(r"(\d) (s|KiB|MiB|GiB)\b", "\\1\N{NO-BREAK SPACE}\\2", text)
    text = re.sub(r"`([^`]+)`", lambda found: rf"\fB{unbroken(literal(found[1]))}\fP", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fP", text)
    return in_lines(text).replace("\N{NO-BREAK SPACE}", r"\ ")


def rows(table):
    """The rows of a Markdown table as terms and meanings; with more than two columns, each cell is named."""
    header, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    for term, *cells in body:
        named = "; ".join(f"{name}: {cell}" for name, cell in zip(header[1:], cells, strict=True) if cell)
        yield term.replace("`", ""), cells[0] if len(cells) == 1 else named


def block(code, text):
    """A block of Markdown, which is code or else text, as roff."""
    if code:
        return f".PP\n.RS 4\n.nf\n{literal(escaped(code)).rstrip()}\n.fi\n.RE\n"
    if text.startswith("### "):
        return f".SS {escaped(text[4:])}"
    if text.startswith("## "):
        return f".SH {escaped(text[3:].upper())}"
    if text.startswith("|"):
        return tagged(rows(text), marked)
    if text.startswith("- "):
        return "".join(f".IP \\(bu 2\n{marked(item)}\n" for item in text[2:].split("\n- "))
    return f".PP\n{marked(text)}\n"


def roff(body):
    """Markdown as roff."""
    found = re.findall(r"^```\w*\n(.*?)^```$|^((?:[^\n]+\n)+)", body, re.DOTALL | re.MULTILINE)
    text = "".join(block(*each) for each in found)
    return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.MULTILINE)  # a heading begins a paragraph itself


def topic(name):
    """The page of section 7 that is made from a Markdown file; its file's name and its text."""
    first, _, body = (MAN / f"{name}.md").read_text().partition("\n")
    title, _, summary = first.removeprefix("# ").partition(" - ")
    text = roff(body)
    head = f"{heading(title, 7, 'Miscellaneous Information')}\n.SH NAME\n{escaped(title)} \\- {escaped(summary)}"
    return f"man7/{title}.7", f"{head}\n{text}{see_also(title)}\n"


def pages():
    """Every page, by its path in man/."""
    return dict([*(page(name) for name in (None, *COMMANDS)), *map(topic, TOPICS)])


def write():
    """Write every page."""
    for name, text in pages().items():
        (MAN / name).parent.mkdir(exist_ok=True)
        (MAN / name).write_text(text)
