"""What a hint says to type: a whole command line, or options to add to the one that was typed."""

import re
import shlex


def typed(args, text):
    """The arguments that the last hint of a message says to type, exactly as it is printed; None if it says nothing."""
    hints = re.findall(r"^ *Hint: (.*)$", text, re.MULTILINE)
    if not hints:
        return None
    if whole := re.search(r"(?:^|: |^try )revseq (.+)$", hints[-1]):
        return shlex.split(whole[1])
    added = re.search(r"(?:^|: )add (-.+)$", hints[-1])
    return [*map(str, args), *shlex.split(added[1])] if added else None
