"""What a hint says to type: a command line, options to add to the one that was typed, or another name.

The words to type are the last of a hint, after a comma or a colon; several are on lines of their own.
"""

import re
import shlex

_VERBS = re.compile(r"^(?:add|type|use|try) ")


def words_to_type(text):
    """The words that the last hint of a message proposes, as printed; several where it has several lines."""
    _, is_there, hint = text.rpartition("Hint: ")
    if not is_there:
        return []
    first, *lines = hint.rstrip("\n").split("\n")
    lines = [line for line in lines if line.startswith(("  ", "revseq "))]
    return [_VERBS.sub("", _last_part(line)) for line in lines or [first]]


def _last_part(line):
    """What follows the reason: the whole line where it has none."""
    line = line.strip()
    command = re.search(r"(?:^|[:,] |type )(revseq .*)$", line)
    if command:
        return command[1]
    options = re.search(r"(?:^|[:,] (?:add |type )?)(-.*)$", line)
    if options:
        return options[1]
    return re.split(r"(?<=[a-z]): |, (?=add |type |use )", line)[-1]


def complete(args, words, text):
    """The command line with the proposed words: instead of it, added to it, or for the wrong name.

    The wrong name is the argument that begins with what the message is about.
    """
    if words.startswith("revseq "):
        return words
    typed = [str(arg) for arg in args]
    if words.startswith("-"):
        return f"revseq {shlex.join(typed)} {words}"
    where = text.removeprefix("Error: ").partition(": ")[0]
    candidates = [name for name in typed[1:] if name.startswith(where)]
    if not candidates:  # the message names the tensor by its complete path
        candidates = [name for name in typed[1:] if where.startswith(name.partition("::")[0])]
    i = typed.index(candidates[0], 1)
    return " ".join(
        ["revseq", *map(shlex.quote, typed[:i]), words, *map(shlex.quote, typed[i + 1 :])]
    )


def typed(args, text):
    """The arguments that the last hint of a message says to type, exactly as it is printed; None if it says nothing."""
    hints = re.findall(r"^ *Hint: (.*)$", text, re.MULTILINE)
    if not hints:
        return None
    if whole := re.search(r"(?:^|: |^try )revseq (.+)$", hints[-1]):
        return shlex.split(whole[1])
    added = re.search(r"(?:^|: )add (-.+)$", hints[-1])
    return [*map(str, args), *shlex.split(added[1])] if added else None
