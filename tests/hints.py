"""Types the hints that the suite provokes: each kind once, in a copy of the folder, right after it was printed.

A hint that is a whole command, a name to try, options to add, to try or to leave out must not lead to what it was to
help with. What it makes is held against the meaning in tests/commands/test_hints.py.
"""

import re
import shlex
import shutil
from pathlib import Path

from revseq_cli.report import words

_HINT = re.compile(r"^ *Hint: (.*)$", re.MULTILINE)
# Behind the reason, if there is one: a whole command, or what to do with options or a name.
_WHOLE = re.compile(r"(?:^|: |^try )revseq (.+)$")
_STEPS = re.compile(r"(?:^|: )((?:add|use|try|leave out) .+)$")
_STEP = re.compile(r"(?:,? and )?(add|use|try|leave out) ((?:(?!,? and (?:add|use|try|leave out) ).)+)")
# A choice, a value that the user has to know, and a cluster.
_OPEN = re.compile(r"\||\.\.\.|--engine dask|--scheduler| and the type ")
# What is wrong with the test's job beside the error: its files are not there, or it is to write an input.
_OTHERS = re.compile("no such file|is an input of this job")
_MOST_FILES, _MOST_BYTES = 200, 1 << 23
_seen = set()


def last_hint(text):
    """The last hint of a message, on one line; "" if it has none. `check` breaks its lines, and sets them in."""
    return next(reversed(_HINT.findall(re.sub(r"\n {6,}(?!Hint:|wanted:)", " ", text))), "").strip()


def typed(args, text):
    """The arguments that the last hint of a message says to type instead of `args`; None if it says no such thing."""
    hint = last_hint(text)
    if whole := _WHOLE.search(hint):
        return shlex.split(whole[1])
    steps = _STEPS.search(hint)
    if not steps or args[:1] == ["batch"] or _OPEN.search(hint):
        return None
    for verb, rest in _STEP.findall(steps[1]):
        args = _retyped(args, verb, rest, text)
        if args is None:
            return None
    return args


def _retyped(args, verb, rest, text):
    """The arguments after one step; None where it is no option of the command line, and no name that stands there."""
    options = list(_options(rest))
    if verb == "leave out":
        return _without(args, {name for name, _ in options}) if options else None
    if options:
        end = args.index("--") if "--" in args else len(args)
        kept = _without(args[:end], {name for name, value in options if value})
        return [*kept, *(part for each in options for part in each if part), *args[end:]]
    try:
        [name] = shlex.split(rest)
    except ValueError:
        return None
    places = [i for i, each in enumerate(args) if verb == "try" and _file(each) == _file(name)]
    places = [i for i in places if f"Error: {args[i]}: " in text] or places
    return [*args[: places[0]], name, *args[places[0] + 1 :]] if len(places) == 1 else None


def _file(name):
    return Path(name.partition("::")[0])


def _options(text):
    """Each option at the beginning of a text, with its value or None."""
    parts = iter(re.findall(r"'[^']*'|\S+", text))
    for part in parts:
        option = part.rstrip(",:")
        if not re.fullmatch(r"--?[a-z][\w-]*", option):
            return
        value = next(parts, None) if option in words.VALUED and option == part else None
        yield option, value and shlex.split(value.rstrip(","))[0]
        if part != option or (value or "").endswith(","):
            return


def _without(args, names):
    """The arguments without these options and their values."""
    kept, left = [], iter(args)
    for each in left:
        name, is_joined, _ = each.partition("=")
        if name not in names:
            kept.append(each)
        elif name in words.VALUED and not is_joined:
            next(left, None)
    return kept


def _kind(args, text):
    return args[0], re.sub(r"\S*[\d/\\.\[:]\S*", "", last_hint(text))


def _is_small(folder):
    size = 0
    for i, path in enumerate(folder.rglob("*")):
        if i >= _MOST_FILES or not (path.is_dir() or path.is_file()) or path.is_symlink():
            return False
        size += path.stat().st_size
    return size <= _MOST_BYTES


def follow(args, done, folder, copy, run):
    """Type what the result of a run in the folder hints at, in a copy of that.

    AssertionError for the same error or, where no error was printed, for the same hint. `run` carries out arguments in
    a folder, and gives a result.
    """
    folder, text = Path(folder), done.err if done.status == 2 else done.out + done.err
    if (
        not args
        or done.status not in (1, 2)
        or "Hint: " not in text
        or _kind(args, text) in _seen
        or not _is_small(folder)
    ):
        return
    again = typed(args, text)
    _seen.add(_kind(args, text))
    if again is None:
        return
    shutil.copytree(folder, copy)
    try:
        then = run([each.replace(str(folder), str(copy)) for each in again], copy)
    finally:
        shutil.rmtree(copy)
    if _OTHERS.search(then.err):
        _seen.discard(_kind(args, text))
        return
    told = f"{args} hints at {again}, which ends with {then.status} {then.out[-2000:]}\n{then.err}"
    if done.status == 1:
        assert then.status != 2, told
        assert last_hint(then.out + then.err) != last_hint(text), told
        return
    before, after = (each.err.split("\n")[0].replace(str(copy), str(folder)) for each in (done, then))
    assert then.status != 2 or after != before, told
    if _WHOLE.search(last_hint(text)) and "did you mean" not in text:  # what was mistyped may lack more
        assert then.status != 2, told
    if " --memory " in last_hint(text):
        assert then.status != 2, told
