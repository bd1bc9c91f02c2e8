"""Standard streams that are closed, or that nothing more can be written to.

A command whose output is lost must not look as if it succeeded, and must say what happened without a traceback.
"""

import io
import os
import sys

_STDOUT, _STDERR = 1, 2


class OutputLostError(Exception):
    """Standard output can't be written to; the message is the system's reason."""


_hints: list[str] = []


def if_output_is_lost(hint: str) -> None:
    """Set what the user needs to know if the output of this command is lost: what happened, and how to go on."""
    _hints[:] = [hint]


def hint() -> str:
    """Return what `if_output_is_lost` set last, or nothing."""
    return "".join(_hints)


class _Output(io.FileIO):
    """Standard output; a failed write is an OutputLostError, except for a pipe that its reader closed."""

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLostError(error.strerror or type(error).__name__) from None


def guard() -> None:
    """Give closed streams a descriptor, so that no file or socket takes its place, and watch standard output.

    A closed standard input stays None for `sys.stdin`. Output to a closed standard output is lost output. If something
    else took the place of standard output, as in tests, nothing is done.
    """
    if sys.stdout is not sys.__stdout__:
        return
    null = os.open(os.devnull, os.O_RDWR)
    while null <= _STDERR:  # 0, 1 and 2 are the lowest, so each closed one is taken
        if null == _STDOUT:
            _open_read_only(null)
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    is_terminal = os.isatty(_STDOUT)
    raw = _Output(_STDOUT, "w", closefd=False)
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    errors = "strict" if sys.stdout is None else sys.stdout.errors
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=is_terminal)


def drop_output() -> None:
    """Send what is still buffered nowhere, since the interpreter flushes it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, _STDOUT)
    os.close(null)


def _open_read_only(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, descriptor)
    os.close(null)
