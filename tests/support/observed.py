"""A function that is called with how much more is done, as a command's progress bar is."""

import contextlib

from revseq_cli.core import signals


def observed(function, stage=""):
    """Passes inside this context call `function` with how many more bytes are done, in that stage or in any."""
    return signals.show_stages_by(
        lambda name, *_: contextlib.nullcontext(function if stage in ("", name) else lambda _: None)
    )
