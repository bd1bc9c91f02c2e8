"""Reads a file's pages in a process of their own, so that one that crashes or hangs takes no other with it (RUN-27).

Parsers and Tesseract are C: a bomb ends their process, and some pages keep them busy beyond any deadline that is looked
at between words. The pages come over a pipe one by one; what has come is safe.
"""

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NoReturn

from dpp.packs import frames
from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.outcome import OUTCOME, LostPages, Outcome


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that is open, with how many pages are to come as far as it says, and the outcomes."""

    count: int
    outcomes: Iterator[Outcome]


type ReadFrom = Callable[[int], Opened]
"""Opens a file to read its pages from a number on (the first is 1). Raises ImageFaultError."""

LEAST_PAGE_SECONDS, MOST_PAGE_SECONDS = 8.0, 25.0
_SHARE_OF_REST = 0.6
"""One page may take this share of the time that is left: the pages after it need some, too."""
_MAX_RESTARTS = 5
"""Of a file; a file that ends its reader more often is given up."""
_OPENED, _FINISHED = b"opened", b"finished"
_MAX_OUTCOME_BYTES = 8_000_000


class _GoneError(Exception):
    """The reader ended without having finished."""


class _OverdueError(Exception):
    """The reader took too long for a page."""


def read_apart(read: ReadFrom, deadline: float, *, is_last: bool) -> Iterator[Outcome]:
    """The outcomes of a file's pages until `deadline` (`time.monotonic()`).

    `is_last`: no other file needs time after this one. A page that ends its reader is DAMAGED, one that takes too long
    TOO_SLOW, and at the deadline TIMEBOX. Raises ImageFaultError where nothing of the file can be read.
    """
    number = 1
    for restarts_left in reversed(range(_MAX_RESTARTS + 1)):
        fault = ImageFault.DAMAGED
        with closing(_Reader(read, number)) as reader:
            try:
                reader.expect_opened(share_of(deadline, is_alone=False))
                while (outcome := reader.next(share_of(deadline, is_alone=is_last and reader.left < 2))) is not None:
                    pages = outcome.pages if isinstance(outcome, LostPages) else 1
                    number = outcome.number + pages
                    reader.left -= pages
                    yield outcome
            except _GoneError:
                pass
            except _OverdueError:
                fault = ImageFault.TIMEBOX if time.monotonic() >= deadline else ImageFault.TOO_SLOW
            else:
                return
            if number == 1 and not reader.is_open:
                raise ImageFaultError(fault)
        if fault is ImageFault.TIMEBOX or restarts_left == 0:
            yield LostPages(number=number, fault=fault, pages=max(1, reader.left))
            return
        yield LostPages(number=number, fault=fault)
        number += 1


def share_of(deadline: float, *, is_alone: bool) -> float:
    """Return the deadline of a page, or of loading a file. One that is alone may take all the time that is left."""
    if is_alone:
        return deadline
    now = time.monotonic()
    return min(deadline, now + min(MOST_PAGE_SECONDS, max(LEAST_PAGE_SECONDS, _SHARE_OF_REST * (deadline - now))))


class _Reader:
    """The process that reads, and the pipe that its outcomes come over."""

    def __init__(self, read: ReadFrom, number: int) -> None:
        self._fd, theirs = os.pipe()
        with warnings.catch_warnings():
            # Python warns of a fork among threads; a pack's process has one, and its child starts none.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._fd)
            _report(read, number, theirs)
        os.close(theirs)
        os.set_blocking(self._fd, False)
        self._received = bytearray()
        self.is_open = False
        self.left = 0
        """Pages that are still to come."""

    def expect_opened(self, deadline: float) -> None:
        """Wait until the file is open. Raises ImageFaultError if it can't be, _GoneError and _OverdueError."""
        frame = self._frame(deadline)
        if not frame.startswith(_OPENED):
            raise ImageFaultError(ImageFault(frame.decode()))
        self.left = int(frame.removeprefix(_OPENED))
        self.is_open = True

    def next(self, deadline: float) -> Outcome | None:
        """The next outcome; None after the last. Raises _GoneError and _OverdueError."""
        frame = self._frame(deadline)
        return None if frame == _FINISHED else OUTCOME.validate_json(frame)

    def close(self) -> None:
        """End the process."""
        os.close(self._fd)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _frame(self, deadline: float) -> bytes:
        try:
            frame = frames.read_until(self._fd, self._received, deadline=deadline, max_bytes=_MAX_OUTCOME_BYTES)
        except TimeoutError:
            raise _OverdueError from None
        if frame is None:
            raise _GoneError
        return frame


def _report(read: ReadFrom, number: int, fd: int) -> NoReturn:
    """Write the outcomes; whatever else happens ends the process, and its parent sees that."""
    try:
        try:
            opened = read(number)
        except ImageFaultError as error:
            frames.write_blocking(fd, error.fault.value.encode())
            os._exit(0)
        frames.write_blocking(fd, _OPENED + str(opened.count).encode())
        for outcome in opened.outcomes:
            payload = OUTCOME.dump_json(outcome)
            if len(payload) > _MAX_OUTCOME_BYTES:
                payload = OUTCOME.dump_json(LostPages(number=outcome.number, fault=ImageFault.OUTPUT_LIMIT))
            frames.write_blocking(fd, payload)
        frames.write_blocking(fd, _FINISHED)
    finally:
        # Not sys.exit: nothing of the parent's, no exit handler and no open file, may run twice.
        os._exit(1)
