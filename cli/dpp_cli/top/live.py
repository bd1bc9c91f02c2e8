"""The page of `dpp top` that stays: on the terminal's other screen, drawn anew with each look, until q or Ctrl-C.

Looks are made by a thread of their own, so that keys are heard and the page is drawn while something does not answer.
However it ends, the terminal is as it was.
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
_PATIENCE_SECONDS = 0.5


def can_follow(console: Console) -> bool:
    """Whether somebody sits there who sees a page change, and can end it."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty() and sys.stdout.isatty()


def follow(look: Callable[[], Snapshot], memory: Memory, every_seconds: float, console: Console) -> int:
    """Show look after look until it is ended; the exit code. Raises StackError where not even the first is answered."""
    with ExitStack() as ending:
        wake_read, wake_write = os.pipe()
        ending.callback(os.close, wake_read)
        os.set_blocking(wake_write, False)

        def woken() -> None:
            with suppress(OSError):  # full: it is awake; closed: it is over
                os.write(wake_write, b".")

        looks = _Looks(look, memory, every_seconds, woken)
        ending.callback(os.close, wake_write)
        ending.callback(looks.stop)
        caught = ending.enter_context(_signals(woken))
        ending.enter_context(_keys_one_by_one(sys.stdin.fileno()))
        live = ending.enter_context(
            Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")
        )
        looks.start()
        while not caught:
            looks.raise_first_failure()
            live.update(_page(looks, console), refresh=True)
            if _ends(wake_read, looks):
                return 0
        return 0 if caught[0] == signal.SIGINT else 128 + caught[0]


def _page(looks: "_Looks", console: Console) -> Text:
    columns, lines = console.size
    if looks.view is None:
        return Text("asking …", style="dim")
    return draw(replace(looks.view, asking_seconds=looks.asking_seconds), columns, lines)


def _ends(wake: int, looks: "_Looks") -> bool:
    """Wait for a key, a look, another size of the window, or a second."""
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
        looks.hurry()
    return not keys or bool(_ENDS & set(keys))


class _Looks:
    """Looks, each so long after the one before, in a thread that nobody waits for."""

    def __init__(
        self, look: Callable[[], Snapshot], memory: Memory, every_seconds: float, seen: Callable[[], None]
    ) -> None:
        self._look = look
        self._memory = memory
        self._every_seconds = every_seconds
        self._seen = seen
        self._hurry = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="looks", daemon=True)
        self._begun: float | None = None
        self.view: View | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    @property
    def asking_seconds(self) -> float:
        """For how long a look has been under way; 0 between two."""
        begun = self._begun
        return 0.0 if begun is None else time.monotonic() - begun

    def hurry(self) -> None:
        """Look at once."""
        self._hurry.set()

    def stop(self) -> None:
        """No further look. One that is under way is given a moment, and left: it only reads."""
        self._over.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_SECONDS)

    def raise_first_failure(self) -> None:
        """Raises what ended the looks."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while not self._over.is_set():
            begun = self._begun = time.monotonic()
            self._hurry.clear()
            try:
                self.view = self._memory.seen(self._look())
            except StackError as error:
                self.view = self._memory.unanswered(str(error), datetime.now(UTC).astimezone())
                if self.view is None:
                    self._failure = error
            except BaseException as error:  # noqa: BLE001 - raised in the thread that draws, which ends with it
                self._failure = error
            self._begun = None
            self._seen()
            if self._failure is not None:
                return
            self._hurry.wait(max(0.0, begun + self._every_seconds - time.monotonic()))


@contextmanager
def _signals(woken: Callable[[], None]) -> Iterator[list[int]]:
    """What asks for an end is noted and ends the loop, so that nothing is left half drawn."""
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        woken()

    def resized(_number: int, _frame: FrameType | None) -> None:
        woken()

    before = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, resized)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _keys_one_by_one(stdin: int) -> Iterator[None]:
    """Keys come without Enter and are not shown; Ctrl-C is a key, and so is Ctrl-Z, which would leave the screen so."""
    before = termios.tcgetattr(stdin)
    raw = termios.tcgetattr(stdin)
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    termios.tcsetattr(stdin, termios.TCSADRAIN, raw)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(stdin, termios.TCSAFLUSH, before)
