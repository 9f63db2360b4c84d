"""What a hint says to type: a command line, options to add to the one that was typed, or another name.

The words to type are the last of a hint, after a comma or a colon; several are on lines of their own.
"""

import re
import shlex

_VERBS = re.compile(r"^(?:add|type|use|try) ")
# A program that changes a file: after it, what was typed is typed again, with the new file if there is one.
_PROGRAMS = ("mkdir ", "gunzip ", "unzip ", "cut ", "tr ", "grep ", "sed ")
_NAMES = ("the option for this is", "the nearest option is", "the nearest is")


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
    for name in _NAMES:
        if line.startswith(f"{name} "):
            return line.removeprefix(f"{name} ")
    command = re.search(r"(?:^|[:,] |type |is |as in )(revseq .*)$", line)
    if command:
        return command[1]
    program = re.search(rf"(?:^|[:,] )((?:{'|'.join(_PROGRAMS)}).*)$", line)
    if program:
        return program[1]
    less = re.search(r"(?:^|[:,] )((?:leave out|replace) .*)$", line)
    if less:
        return less[1]
    options = re.search(r"(?:^|[:,] (?:add |type |use )?)(-.*)$", line)
    if options:
        return options[1]
    return re.split(r"(?<=[a-z]): |, (?=add |type |use )", line)[-1]


def complete(args, words, text):
    """The command line with the proposed words: instead of it, added to it, or for the wrong name."""
    if words.startswith("revseq "):
        return words
    typed = [str(arg) for arg in args]
    if words.startswith(_PROGRAMS):
        return f"{words} && {_join(_after_program(typed, words))}"
    if words.startswith("leave out "):
        less, _, more = words.removeprefix("leave out ").partition(", and add ")
        for name in less.split(" and "):
            typed = _leave_out(typed, name)
        return f"{_join(typed)} {more}".rstrip()
    if words.startswith("replace "):
        old, _, new = words.removeprefix("replace ").partition(" with ")
        return _replace(typed, typed.index(old), new)
    unknown = re.match(r"Error: unknown option (\S+)", text)
    if unknown and words.startswith("-"):
        return _replace(typed, typed.index(unknown[1]), words)
    if words.startswith("--feed "):
        i = typed.index("--feed")
        return _replace([*typed[:i], *typed[i + 1 :]], i, words)
    choice = re.match(r"Error: [^:]+: '(.*)' is not a choice", text)
    if choice:
        return _replace(typed, typed.index(choice[1]), words)
    if words.startswith("--each ") and typed[-1] in words:
        return _replace(typed, len(typed) - 1, words)
    if words.startswith("-"):
        return f"{_join(typed)} {words}"
    return _replace(typed, _find_wrong_name(typed, text), words)


def _find_wrong_name(typed, text):
    """The index of the argument that begins with what the message is about."""
    where = text.removeprefix("Error: ").partition(": ")[0]
    names = [name for name in typed[1:] if name.startswith(where)]
    if not names and "-" in typed:  # the message is about a pipe
        return typed.index("-")
    if not names:  # the message names the tensor by its complete path
        names = [name for name in typed[1:] if where.startswith(name.partition("::")[0])]
    return typed.index(names[0], 1)


def _join(typed):
    return f"revseq {shlex.join(typed)}"


def _replace(typed, i, words):
    """The command line with these words, as they are printed, instead of the argument at i."""
    before = shlex.join(typed[:i])
    return f"revseq {before} {words} {shlex.join(typed[i + 1 :])}".rstrip()


def _leave_out(typed, words):
    """The arguments without these: options without a value, names, or the part of a name after ::."""
    if words.startswith("::"):
        return [arg.removesuffix(words) for arg in typed]
    less = list(typed)
    i = less.index(words)
    # An option with a value goes with it; a flag and a name have none.
    has_value = words in ("--sizes", "--dtype", "--lengths", "-o", "-f")
    del less[i : i + 1 + has_value]
    return less


def _after_program(typed, words):
    """The arguments, with the file that the program writes instead of the one that it reads."""
    done = shlex.split(words)
    if done[0] == "mkdir":
        return typed
    if done[0] == "gunzip":
        new = done[1].removesuffix(".gz")
        return [arg.replace(done[1], new) for arg in typed]
    source = done[done.index("<") + 1]
    return [done[-1] if arg == source else arg for arg in typed]


def typed(args, text):
    """The arguments that the last hint of a message says to type, exactly as it is printed; None if it says nothing."""
    hints = re.findall(r"^ *Hint: (.*)$", text, re.MULTILINE)
    if not hints:
        return None
    if whole := re.search(r"(?:^|: |^try )revseq (.+)$", hints[-1]):
        return shlex.split(whole[1])
    added = re.search(r"(?:^|: )add (-.+)$", hints[-1])
    return [*map(str, args), *shlex.split(added[1])] if added else None
