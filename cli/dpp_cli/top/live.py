"""The live page of `dpp top`, on the terminal's alternate screen, redrawn with each snapshot until q or Ctrl-C.

A thread takes the snapshots, so that keys and redraws work while a dependency does not answer. The terminal is restored
however the page ends.
"""

import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dpp_cli.errors import StackError
from dpp_cli.top.model import Snapshot
from dpp_cli.top.screen import draw
from dpp_cli.top.view import Memory, View

_ENDS = frozenset({"q", "Q", "\x03", "\x04"})
_AGAIN = frozenset({" ", "r"})
_REDRAW_SECONDS = 1.0
_JOIN_SECONDS = 0.5


def can_follow(console: Console) -> bool:
    """Return whether input and output are an interactive terminal."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty() and sys.stdout.isatty()


def follow(take: Callable[[], Snapshot], memory: Memory, every_seconds: float, console: Console) -> int:
    """Show snapshots until the user ends it; return the exit code. Raises StackError if the first snapshot fails."""
    with ExitStack() as ending:
        wake_read, wake_write = os.pipe()
        ending.callback(os.close, wake_read)
        os.set_blocking(wake_write, False)

        def woken() -> None:
            with suppress(OSError):  # full: already awake; closed: already ended
                os.write(wake_write, b".")

        poller = _Poller(take, memory, every_seconds, woken)
        ending.callback(os.close, wake_write)
        ending.callback(poller.stop)
        caught = ending.enter_context(_signals(woken))
        ending.enter_context(_keys_one_by_one(sys.stdin.fileno()))
        live = ending.enter_context(Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop"))
        poller.start()
        while not caught:
            poller.raise_first_failure()
            live.update(_page(poller, console), refresh=True)
            if _ends(wake_read, poller):
                return 0
        return 0 if caught[0] == signal.SIGINT else 128 + caught[0]


def _page(poller: "_Poller", console: Console) -> Text:
    columns, lines = console.size
    if poller.view is None:
        return Text("loading …", style="dim")
    return draw(replace(poller.view, pending_seconds=poller.pending_seconds), columns, lines)


def _ends(wake: int, poller: "_Poller") -> bool:
    """Wait up to a second for a key, a snapshot or a new window size; return whether the user ends the page."""
    stdin = sys.stdin.fileno()
    ready, _, _ = select.select([stdin, wake], [], [], _REDRAW_SECONDS)
    if wake in ready:
        os.read(wake, 1_024)
    if stdin not in ready:
        return False
    try:
        keys = os.read(stdin, 64).decode(errors="replace")
    except OSError:  # the terminal is gone
        return True
    if _AGAIN & set(keys):
        poller.refresh()
    return not keys or bool(_ENDS & set(keys))


class _Poller:
    """Takes snapshots at an interval, in a daemon thread."""

    def __init__(
        self, take: Callable[[], Snapshot], memory: Memory, every_seconds: float, notify: Callable[[], None]
    ) -> None:
        self._take = take
        self._memory = memory
        self._every_seconds = every_seconds
        self._notify = notify
        self._refresh = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="snapshots", daemon=True)
        self._begun: float | None = None
        self.view: View | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def pending_seconds(self) -> float:
        """Age of the snapshot being taken; 0 between two."""
        begun = self._begun
        return 0.0 if begun is None else time.monotonic() - begun

    def refresh(self) -> None:
        """Take a snapshot at once."""
        self._refresh.set()

    def stop(self) -> None:
        """Stop; a snapshot in progress gets a moment to end and is then abandoned, since it only reads."""
        self._over.set()
        self._refresh.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def raise_first_failure(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while not self._over.is_set():
            begun = self._begun = time.monotonic()
            self._refresh.clear()
            try:
                self.view = self._memory.update(self._take())
            except StackError as error:
                self.view = self._memory.unanswered(str(error), datetime.now(UTC).astimezone())
                if self.view is None:
                    self._failure = error
            except BaseException as error:  # noqa: BLE001 - raised in the thread that draws, which ends with it
                self._failure = error
            self._begun = None
            self._notify()
            if self._failure is not None:
                return
            self._refresh.wait(max(0.0, begun + self._every_seconds - time.monotonic()))


@contextmanager
def _signals(woken: Callable[[], None]) -> Iterator[list[int]]:
    """Record signals that end the page; the loop then ends cleanly instead of in the middle of drawing."""
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        woken()

    def resized(_number: int, _frame: FrameType | None) -> None:
        woken()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, resized)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _keys_one_by_one(stdin: int) -> Iterator[None]:
    """Read single keys without echo. Ctrl-C and Ctrl-Z arrive as keys; Ctrl-Z would leave the alternate screen on."""
    before = termios.tcgetattr(stdin)
    raw = termios.tcgetattr(stdin)
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    termios.tcsetattr(stdin, termios.TCSADRAIN, raw)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(stdin, termios.TCSAFLUSH, before)
