"""What a wheel has besides the package: the manual pages, and the README for PyPI.

A manual page is made for each command, from its help, and for each Markdown file beside this one. pyproject.toml names
this file as two hooks of hatchling. The wheel installs the pages, in roff, where `man` looks.
"""

import importlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

MAN = Path(__file__).parent
COLUMNS = 76  # of a page on a terminal of 80
# In code, roff would print these as typographic quotes and accents.
LITERAL = {"'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def escaped(text: str) -> str:
    """Text in which roff sees no escapes, no hyphens that it may break, and no requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def verbatim(text: str) -> str:
    """Text that is printed as it is typed, line by line."""
    return re.sub("['`^~]", lambda sign: LITERAL[sign[0]], escaped(text))


def prose(text: str) -> str:
    """Markdown in a paragraph: code and **strong** words are bold, and links are their words."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", escaped(" ".join(text.split())))
    text = re.sub(r"`([^`]+)`", lambda code: rf"\fB{code[1]}\fP", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fP", text)


def table(text: str) -> str:
    """A table of Markdown as a list: the first cell of a row is the term, the others say what it means."""
    header, _, *rows = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines()
    ]
    items = []
    for term, *cells in rows:
        named = [f"{name}: {cell}" for name, cell in zip(header[1:], cells, strict=True)]
        items.append(
            f".TP\n{prose(term)}\n{prose(cells[0] if len(cells) == 1 else '; '.join(named))}"
        )
    return "\n".join(items)


def block(code: str, text: str) -> str:
    """One block of Markdown, code or text, as roff."""
    if code:
        return f".PP\n.RS 4\n.nf\n{verbatim(code.rstrip())}\n.fi\n.RE"
    if text.startswith("## "):
        return f".SH {escaped(text[3:].strip().upper())}"
    if text.startswith("|"):
        return table(text.rstrip())
    if text.startswith("- "):
        return "\n".join(f".IP \\(bu 2\n{prose(item)}" for item in text[2:].split("\n- "))
    return f".PP\n{prose(text)}"


def page(name: str, section: int, summary: str, body: str, version: str) -> str:
    """A whole page; nothing is hyphenated or spread to the margin, since names and options would be."""
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


def command_page(command: click.Command, words: str, version: str) -> tuple[str, str]:
    """The file's name and the text of the page of a command: its help, with a heading for each part."""
    context = click.Context(command, info_name=words, terminal_width=COLUMNS)
    usage, *lines = command.get_help(context).splitlines()
    parts = [f".SH SYNOPSIS\n{escaped(usage.removeprefix('Usage: '))}", ".SH DESCRIPTION\n.nf"]
    for line in lines:
        heading = re.fullmatch(r"(\S.*):", line)
        parts.append(f".fi\n.SH {escaped(heading[1].upper())}\n.nf" if heading else verbatim(line))
    name = words.replace(" ", "-")
    return f"{name}.1", page(
        name,
        1,
        command.get_short_help_str(limit=90).rstrip("."),
        "\n".join([*parts, ".fi"]),
        version,
    )


def pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    if (root := str(MAN.parent)) not in sys.path:
        sys.path.insert(0, root)
    package = importlib.import_module("revseq_cli")
    group = importlib.import_module("revseq_cli.commands.cli").cli
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
    """README as PyPI shows it, where the repository's files are not: without its picture, and with words for links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the field `readme`."""
        text = (MAN.parent / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"^!\[[^]]*\]\((?!https?:).*\)\n\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
