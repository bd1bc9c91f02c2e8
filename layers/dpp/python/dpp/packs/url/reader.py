"""Has pages read in another process (RUN-26); see `reading` for why."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Self

from dpp.packs import frames
from dpp.packs.url.network import time_left
from dpp.packs.url.reasons import Discard, DiscardedError
from dpp.packs.url.text import Text

_MAX_ANSWER_BYTES = 60_000
"""A pipe holds 65,536, so an answer is written whole or not at all."""


class CpuSeconds(NamedTuple):
    """Limits of the processor time for a page: until its first text, and in all."""

    first: int
    whole: int


_LIMIT = CpuSeconds(3, 5)


@dataclass(frozen=True, slots=True)
class Reading:
    """The text of a page. `cut`: only the page's beginning could be read within the limits."""

    text: Text
    cut: bool


class PageReader:
    """Reads one page after the other, for several threads. The process ends with the `with`."""

    def __init__(self, limit: CpuSeconds = _LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._closed = False

    def __enter__(self) -> Self:
        self._process = _Process(self._limit)  # now, so that it imports its libraries while pages are fetched
        return self

    def __exit__(self, *_error: object) -> None:
        self._closed = True
        if self._process is not None:
            self._process.kill()  # which ends the wait of a thread that has the lock
        with self._lock:
            self._end()

    def read(self, content_type: str, url: str, body: bytes, *, deadline: float) -> Reading | None:
        """The best text that is found within the limits and by `deadline`; None if there is none within the limits.

        Raises DiscardedError with TIMEOUT if there is none by `deadline` (`time.monotonic()`).
        """
        if not self._lock.acquire(timeout=time_left(deadline)):
            raise DiscardedError(Discard.TIMEOUT)
        try:
            if self._closed:
                raise DiscardedError(Discard.TIMEOUT)
            if self._process is None:
                self._process = _Process(self._limit)
            found = self._process.read(content_type, url, body, deadline=deadline)
            if not found.done:
                self._end()
        finally:
            self._lock.release()
        if found.reading is None:
            time_left(deadline)
        return found.reading

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The last reading, and whether the process is done with the page."""

    reading: Reading | None
    done: bool


class _Process:
    """The process with its two pipes."""

    def __init__(self, limit: CpuSeconds) -> None:
        their_request, self._request = os.pipe()
        self._answer, their_answer = os.pipe()
        theirs = (their_request, their_answer)
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - our interpreter, our module
                [sys.executable, "-P", "-s", "-m", "dpp.packs.url.reading", *map(str, (*theirs, *limit))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what a library prints may be a client's words (RUN-31)
                stderr=subprocess.DEVNULL,
                pass_fds=theirs,
                process_group=0,
            )
        finally:
            for fd in theirs:
                os.close(fd)

    def read(self, content_type: str, url: str, body: bytes, *, deadline: float) -> _Found:
        """Have a page read; returns what was found by the deadline."""
        reading = None
        received = bytearray()
        try:
            frames.write_blocking(self._request, b"\n".join((content_type.encode("latin-1"), url.encode(), body)))
            while (
                payload := frames.read_until(self._answer, received, deadline=deadline, max_bytes=_MAX_ANSWER_BYTES)
            ) is not None:
                if payload == b"":
                    return _Found(reading, done=True)
                fields = json.loads(payload)
                reading = Reading(cut=fields.pop("cut"), text=Text(**fields))
        except (OSError, ValueError, TypeError, KeyError, frames.BrokenFrameError):
            pass  # the process is late, gone or spoiled: the caller ends it
        return _Found(reading, done=False)

    def kill(self) -> None:
        """Kill the process and its child."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill both, wait, and close the pipes."""
        self.kill()
        self._popen.wait()
        os.close(self._request)
        os.close(self._answer)
