"""The man pages, made from the commands themselves; `pytest --rewrite-samples` writes them to man/."""

import importlib
import re
import textwrap

import click

from revseq_cli import __version__
from revseq_cli.commands.cli import COMMANDS, cli

RELEASED = "2026-11-21"
EXIT = {
    "run": {
        0: "done",
        2: "anything that stopped the work; no file was changed, unless the message says which, or only the report could not be printed",
    },
    "check": {0: "every constraint holds", 1: "one does not", 2: "anything that stopped the work"},
    "diff": {0: "the tensors are equal", 1: "they differ", 2: "anything that stopped the work"},
    "batch": {
        0: "every job is done",
        1: "a job failed; the others are done",
        2: "MANIFEST is wrong, and no job was begun; or the report could not be printed",
    },
    "verify": {0: "every example is right", 1: "one is wrong", 2: "a page cannot be read or has no example"},
}
SIGNALS = "Ended by SIGINT, SIGTERM or SIGHUP, the process dies of that signal: a shell sees 130, 143 or 129."
ENVIRONMENT = {
    "REVSEQ_FEATURE_LEVEL": "The feature level where --feature-level is not given.",
    "REVSEQ_JOBS": "The number of cores where --jobs is not given.",
    "REVSEQ_SCHEDULER": "The dask scheduler's address where neither --scheduler nor --scheduler-file is given.",
    "REVSEQ_MEMORY": "The bound for memory where --memory is not given.",
    "NO_COLOR": "If it is set, no colours; what stands out is bold and underlined.",
    "TMPDIR": "The folder for large compressed inputs while they are read, where no output is written beside which to put them.",
    "FORCE_COLOR": "If it is set, and NO_COLOR is not, colours everywhere.",
}
TENSORS = {
    "*.npy, *.h5, *.hdf5, *.nc, *.npz, *.safetensors, *.json, *.txt, *.md": "Tensors. The suffix decides on the format.",
    "*.zarr": "Stores, which are folders.",
}
WRITTEN = {**TENSORS, ".revseq-*.tmp": "A killed run may leave one beside its output; it can be deleted."}
FILES = {
    "check": TENSORS,
    "show": TENSORS,
    "run": WRITTEN,
    "convert": WRITTEN,
    "diff": TENSORS,
    "batch": {
        "*.jsonl, *.json, *.csv": "Manifests. The suffix decides on the format.",
        ".revseq-*.tmp": "A killed batch may leave one beside each output; it can be deleted.",
    },
    "export": {
        **TENSORS,
        "MODEL.InputTensor.npy, MODEL.SequenceLengthsTensor.npy": "Values that are not in MODEL.json itself, beside it.",
    },
}


# What Click's arguments have no help for.
TENSOR = (
    "A tensor: x.npy; x.h5, x.npz, x.safetensors or x.zarr, whose only tensor it is, or one of several by its name, as "
    "x.h5::/group/name or x.npz::name; x.json, x.txt, x.md in JSON or in the bracket notation; page.md::2, the second example of a page; - for standard input; or the tensor itself, as text that begins "
    "with a bracket."
)
ONE = TENSOR.replace("page.md::2, the second example of a page", "x.txt::InputTensor, one of several in a text")
ARGUMENTS = {
    "INPUT": TENSOR,
    "[LENGTHS]": "The lengths, named in the same way. A docs-style text that is a whole job, or a model of DxDispatch, needs none.",
    "TENSOR...": TENSOR,
    "PAGE...": "Markdown, HTML or plain text; page.md::2 for one example; - for standard input.",
    "SRC": ONE,
    "DST": "A new file, whose suffix decides on the format; x.h5::/group/name or x.npz::name gives the tensor a name; - for "
    "standard output.",
    "A": ONE,
    "B": "The other tensor, named in the same way.",
    "[LEVEL]": "A feature level, as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0.",
}


# The members of what --json prints; a test holds them to the commands.
_SCHEMA = {"schema": "1; another number would mean other members"}
_DESC = {
    "InputTensor": "its DataType and Sizes",
    "SequenceLengthsTensor": "its DataType and Sizes",
    "Axis": "the dimension that is reversed",
}
_WRITTEN = {
    "output": "the file's name",
    "bytes": "those of all elements",
    "verified": "whether it was read back",
    "notes": "a list of what could not be carried over, and with --verify of what is not stored of the inputs",
    "sha256": "the digest of the file, with --sha256",
}
JSON = {
    "run": _SCHEMA | _DESC | _WRITTEN | {
        "plan": "with --dry-run, instead of what was written: blocks, block_bytes, read_bytes, write_bytes, engine, "
        "workers (null for those of a scheduler), memory in bytes, spooled, which says whether temporary files are needed, and "
        "with a scheduler of dask its address, scheduler",
    },
    "check": _SCHEMA | {
        "level": "the feature level",
        "valid": "whether every constraint holds",
    } | _DESC | {
        "BatchAxis": "the dimension of --batch-axis, or null",
        "constraints": "a list of tensor, property, found, wanted, rule, ok and hint",
        "lowest_level": "the lowest feature level that accepts the tensors, or null",
        "notes": "a list of what is not stored of the tensors and read as something else",
        "lengths": "how many there are: total, clamped and unchanged; or null where no level accepts the tensors",
    },
    "verify": _SCHEMA | {
        "level": "the feature level",
        "pages": "a list of page, error (a text or null), skipped (examples of other operators) and examples, a list of "
        "number, line, right, problems, clamped and difference (null, or index, line, found, expected, count and total)",
    },
    "show": _SCHEMA | {
        "tensors": "a list of name, DataType, Sizes, bytes, format, storage (words that depend on the format), notes and, with "
        "--stats, statistics: min, max, mean and NaN, where what is not finite is a string",
    },
    "levels": _SCHEMA | {
        "levels": "a list of level, dimension_counts (the least and the most), InputTensor and SequenceLengthsTensor (lists "
        "of data types) and most_elements; null where there is no such limit, or no operator yet",
    },
    "convert": _SCHEMA | {"input": "its name, DataType and Sizes"} | _WRITTEN,
    "diff": _SCHEMA | {
        "equal": "whether nothing differs",
        "A": "its name, DataType and Sizes",
        "B": "its name, DataType and Sizes",
        "different": "how many elements differ; null where DataType or Sizes do",
        "first": "a list of index, A and B of the first of them",
        "largest_absolute": "the largest |A - B|, or null",
        "largest_relative": "the largest |A - B| / |B|, or null",
    },
    "export": _SCHEMA | _DESC | {"output": "the model's name", "files": "a list of the .npy files that it names"},
    "batch": _SCHEMA | {
        "line": "the job's line in the manifest; each job prints an object, in a line of its own",
        "ok": "whether it is done",
        "error": "the message, or null",
    } | _WRITTEN,
}  # fmt: skip


def escaped(text):
    """Text as roff takes it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def filled(text):
    """The same in short lines."""
    return escaped(textwrap.fill(text, 72, break_long_words=False, break_on_hyphens=False))


def paragraphs(text):
    """Click's help as paragraphs."""
    return "\n.PP\n".join(filled(" ".join(part.split())) for part in textwrap.dedent(text).strip().split("\n\n"))


def tagged(pairs):
    """A list of terms and what they mean."""
    return "".join(f".TP\n.B {escaped(term)}\n{filled(words)}\n" for term, words in pairs)


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
    )
    parts = [
        f'.TH {title.upper()} 1 "{RELEASED}" "revseq {__version__}" "User Commands"',
        f".SH NAME\n{escaped(title)} \\- {escaped(summary.rstrip('.'))}",
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
    status = EXIT.get(name, {0: "done", 2: "anything that stopped the work"})
    parts.append(
        ".SH EXIT STATUS\n" + tagged((str(key), words.capitalize() + ".") for key, words in status.items()).rstrip()
    )
    parts.append(f".PP\n{filled(SIGNALS)}")
    if name in JSON:
        parts.append(
            ".SH JSON\nWith\n.B \\-\\-json\nstandard output has these members:\n" + tagged(JSON[name].items()).rstrip()
        )
    if name in FILES:
        parts.append(".SH FILES\n" + tagged(FILES[name].items()).rstrip())
    example = command.epilog.removeprefix("Example: ")
    parts.append(f".SH EXAMPLES\n.nf\n{escaped(example)}\n.fi")
    others = [f"revseq-{key}" for key in COMMANDS if key != name]
    see = ["revseq", *others] if name else others
    parts.append(".SH SEE ALSO\n" + ",\n".join(f".BR {escaped(each)} (1)" for each in see))
    return f"{title}.1", "\n".join(parts) + "\n"


def pages():
    """Every page, by its file's name."""
    return dict(page(name) for name in (None, *COMMANDS))


def write(folder):
    """Write every page."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
