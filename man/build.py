"""What a wheel has besides the package: the manual pages, and the README for PyPI.

A manual page is made for each command, from its help, and for each Markdown file next to this one.
pyproject.toml names this file as two hooks of hatchling. The wheel installs the pages, in roff,
where `man` looks.
"""

import importlib
import inspect
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import click
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

MAN = Path(__file__).parent
WIDTH = 71  # columns for code on a terminal of 80
WRAP: dict[str, Any] = {
    "subsequent_indent": "    ",
    "break_long_words": False,
    "break_on_hyphens": False,
}
BACKSLASH = "\\"
COMMANDS: dict[str, str] = {}  # each with its line of help, once the package is imported
EXIT_STATUS = """.SH EXIT STATUS
.TP
.B 0
Success: done, valid, equal or right.
.TP
.B 1
The answer is no, or some jobs or pages failed.
.TP
.B 2
An error stopped the command."""
FILES = """.SH FILES
.TP
.B .revseq\\-*.tmp
An output that is not complete yet. Only a kill leaves such a file; it can be deleted."""
# In code, roff would print these as typographic quotes and accents.
LITERAL = {"'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def escaped(text: str) -> str:
    """Text in which roff sees no escapes, no hyphens that it may break, and no requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def verbatim(text: str) -> str:
    """Text that is printed as it is typed; a long command goes on in the next line."""
    lines = [line for long in text.split("\n") for line in continued(long)]
    return re.sub("['`^~]", lambda sign: LITERAL[sign[0]], escaped("\n".join(lines)))


def continued(line: str) -> list[str]:
    """A line; a command too long for 80 columns is cut at blanks outside quotes."""
    if len(line) <= WIDTH or not line.lstrip().startswith(("$ ", "revseq ")):
        return [line]
    joined = re.sub(r"\"[^\"]*\"|'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), line)
    parts = [part.replace("\0", " ") for part in textwrap.wrap(joined, WIDTH - 2, **WRAP)]
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


def prose(text: str) -> str:
    """Markdown in a paragraph: code and **strong** words are bold, and links are their words."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", escaped(" ".join(text.split())))
    text = re.sub(r"`([^`]+)`", lambda code: rf"\fB{code[1]}\fP", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fP", text)


def table(text: str) -> str:
    """A table of Markdown as a list: the first cell of a row is the term, the others explain it."""
    header, _, *rows = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines()
    ]
    items = []
    for term, *cells in rows:
        named = zip(header[1:], cells, strict=True)
        meaning = cells[0]
        if len(cells) > 1:
            meaning = "; ".join(f"{name}: {cell}" for name, cell in named if cell)
        items.append(f".TP\n{prose(term)}\n{prose(meaning)}")
    return "\n".join(items)


def block(code: str, text: str) -> str:
    """One block of Markdown, code or text, as roff."""
    if code:
        return f".PP\n.RS 2\n.nf\n{verbatim(code.rstrip())}\n.fi\n.RE"
    if text.startswith("## "):
        return f".SH {escaped(text[3:].strip().upper())}"
    if text.startswith("|"):
        return table(text.rstrip())
    if text.startswith("- "):
        return "\n".join(f".IP \\(bu 2\n{prose(item)}" for item in text[2:].split("\n- "))
    return f".PP\n{prose(text)}"


def page(name: str, section: int, summary: str, body: str, version: str) -> str:
    """A whole page; no word is hyphenated or spread, since it may be a name or an option."""
    title = f'.TH {name.upper()} {section} "" "revseq {version}"\n.nh\n.ad l\n'
    return f"{title}.SH NAME\n{escaped(name)} \\- {escaped(summary)}\n{body}\n"


def topic_page(path: Path, version: str) -> tuple[str, str]:
    """The file's name and the text of the page that a Markdown file is."""
    first, _, body = path.read_text(encoding="utf-8").partition("\n")
    name, _, summary = first.removeprefix("# ").partition(" - ")
    blocks = re.findall(r"^```\w*\n(.*?)^```$|^((?:[^\n]+\n)+)", body, re.DOTALL | re.MULTILINE)
    return f"{name}.7", page(
        name, 7, summary, "\n".join(block(*parts) for parts in blocks), version
    )


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text, each on one line; what Click keeps as it is stays so."""
    blocks = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            blocks.append(f".PP\n.nf\n{verbatim(paragraph[2:])}\n.fi")
        else:
            blocks.append(f".PP\n{escaped(' '.join(paragraph.split()))}")
    return blocks


def option_item(option: click.Option, context: click.Context) -> str:
    """An option with its help, as an item of a list."""
    names, words = option.get_help_record(context) or ("", "")
    bold = re.sub(r"(--?[\w-]+)", r"\\fB\1\\fP", names)
    return f".TP\n{bold.replace('-', BACKSLASH + '-')}\n{escaped(' '.join(words.split()))}"


def option_groups(command: click.Command, context: click.Context) -> list[str]:
    """The options of a command, in the groups of its help."""
    groups: dict[str, list[str]] = {}
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            group = getattr(option, "group", None)
            title = group.value if group else "Help"
            groups.setdefault(title, []).append(option_item(option, context))
    return [f".SS {escaped(title)}\n" + "\n".join(items) for title, items in groups.items()]


def environment(command: click.Command) -> str:
    """The variables that a command reads, as a list."""
    items = []
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.envvar, str):
            name = max(option.opts, key=len)
            items.append((option.envvar, f"The default of {name}."))
    if not items:
        return ""
    items += [
        (
            "NO_COLOR, FORCE_COLOR",
            "Never, or always, print in colour, unless --color says otherwise.",
        ),
        ("TMPDIR", "The folder for temporary files that cannot be placed next to an output."),
    ]
    rows = [f".TP\n.B {escaped(name)}\n{escaped(words)}" for name, words in items]
    return ".SH ENVIRONMENT\n" + "\n".join(rows)


def command_page(command: click.Command, words: str, version: str) -> tuple[str, str]:
    """The file's name and the text of the page of a command, from its help."""
    context = click.Context(command, info_name=words, help_option_names=["-h", "--help"])
    usage = escaped(" ".join(command.collect_usage_pieces(context)))
    parts = [f".SH SYNOPSIS\n.B {escaped(words)}\n{usage}", ".SH DESCRIPTION"]
    parts += paragraphs(command.help or "")
    if isinstance(command, click.Group):
        rows = COMMANDS.items()
        parts.append(".SH COMMANDS")
        parts += [f".TP\n.B {escaped(name)}\n{escaped(text)}" for name, text in rows]
    parts.append(".SH OPTIONS")
    parts += option_groups(command, context)
    if command.epilog:
        examples = verbatim(command.epilog.removeprefix("Example: "))
        parts.append(f".SH EXAMPLES\n.nf\n{examples}\n.fi")
    parts.append(EXIT_STATUS)
    parts += [section for section in (environment(command), FILES) if section]
    others = ["revseq(1)", "revseq-formats(7)", "revseq-porting(7)", "revseq-json(7)"]
    if isinstance(command, click.Group):
        others = [f"revseq-{name}(1)" for name in COMMANDS] + others[1:]
    parts.append(f".SH SEE ALSO\n{escaped(', '.join(others))}")
    name = words.replace(" ", "-")
    summary = "reverse the sequences of tensors in files"
    if words != "revseq":
        sentence = COMMANDS[words.removeprefix("revseq ")].rstrip(".")
        summary = sentence[0].lower() + sentence[1:]
    return f"{name}.1", page(name, 1, summary, "\n".join(parts), version)


def pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    if (root := str(MAN.parent)) not in sys.path:
        sys.path.insert(0, root)
    package = importlib.import_module("revseq_cli")
    group = importlib.import_module("revseq_cli.commands.cli").cli
    COMMANDS.update(importlib.import_module("revseq_cli.commands.groups").COMMANDS)
    context = click.Context(group)
    names = group.list_commands(context)
    commands = [
        (group, "revseq"),
        *((group.get_command(context, name), f"revseq {name}") for name in names),
    ]
    made = [command_page(command, words, package.__version__) for command, words in commands]
    return dict(
        [*made, *(topic_page(path, package.__version__) for path in sorted(MAN.glob("*.md")))]
    )


class ManualPages(BuildHookInterface):
    """Adds the pages to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and say where they are installed; an editable install has none."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        for name, text in pages().items():
            path = Path(self.folder.name) / name
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man{name[-1]}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what `initialize` wrote."""
        if version != "editable":
            self.folder.cleanup()


class PackageReadme(MetadataHookInterface):
    """README as PyPI shows it: without pictures and links to files of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the field `readme`."""
        text = (MAN.parent / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"^!\[[^]]*\]\((?!https?:).*\)\n\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
