"""A function that is called with how much more is done, as a command's progress bar is."""

import contextlib

from revseq_cli.ground import stages


def observed(function):
    """Passes inside this context call `function` with how many more bytes are done, in any stage."""
    return stages.watched(lambda *_: contextlib.nullcontext(function))
