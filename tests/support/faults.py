"""Lets one call of the operating system fail: the n-th of os.FUNCTION, or of "write", which are those of Python files."""

import functools
import io
import os

_open, _write, _close = os.open, os.write, os.close


def failing(real, n, number, told):
    """The function, which fails once, and says so in a file."""
    calls = iter(range(1, 1 << 30))

    def function(*args, **options):
        if next(calls) == n:
            fd = _open(told, os.O_WRONLY)
            _write(fd, b"failed")
            _close(fd)
            if real is _close:  # after an error of it, too, a descriptor is closed
                real(*args)
            raise OSError(
                number, os.strerror(number), *args[:1] if isinstance(args[0], str) else ()
            )
        return real(*args, **options)

    return function


def refusing(number):
    """A function of the operating system that fails, whatever it is asked for."""

    def function(*_, **__):
        raise OSError(number, os.strerror(number))

    return function


def install(call, n, number, told):
    """Let the n-th such call fail; `told` is the file that says whether there were so many."""
    _close(_open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    if call != "write":
        setattr(os, call, failing(getattr(os, call), n, number, told))
        return
    opened, write = io.open, failing(lambda real, data: real(data), n, number, told)

    def open_file(*args, **options):
        file = opened(*args, **options)
        file.write = functools.partial(write, file.write)
        return file

    io.open = open_file
