"""What a hint says to type: a whole command, a name to try, options to add, to try or to leave out."""

import ast
import re
import shlex
from pathlib import Path

from revseq_cli.report import words

_HINT = re.compile(r"^ *Hint: (.*)$", re.MULTILINE)
# Behind the reason, if there is one: a whole command, or what to do with options or a name.
_WHOLE = re.compile(r"(?:^|: |^try )revseq (.+)$", re.DOTALL)
_STEPS = re.compile(r"(?:^|: )((?:add|use|try|leave out) .+)$", re.DOTALL)
_STEP = re.compile(r"(?:,? and )?(add|use|try|leave out) ((?:(?!,? and (?:add|use|try|leave out) ).)+)", re.DOTALL)
# A choice, a value that the user has to know, and a cluster.
_OPEN = re.compile(r"\||\.\.\.|--engine dask|--scheduler| and the type ")


def last_hint(text):
    """The last hint of a message, on one line; "" if it has none. `check` breaks its lines, and sets them in."""
    return next(reversed(_HINT.findall(re.sub(r"\n {6,}(?!Hint:|wanted:)", " ", text))), "").strip()


def is_whole(hint):
    """Whether a hint is a whole command."""
    return bool(_WHOLE.search(hint))


def typed(args, text):
    """The arguments that the last hint of a message says to type instead of `args`; None if it says no such thing."""
    hint = _in_plain_quotes(last_hint(text))
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


def _in_plain_quotes(hint):
    """The hint with words that have line breaks and the like as shlex reads them."""

    def plain(word):
        return shlex.quote(ast.literal_eval(f"b'{word[1]}'").decode())

    return re.sub(r"\$'((?:[^'\\]|\\.)*)'", plain, hint)


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
