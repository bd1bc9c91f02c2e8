"""Shows the progress of a long command: steps running, steps done, and their durations. Steps may overlap."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.status import Status


class Steps:
    """Prints one line per finished step; on a terminal also a spinner with the running steps."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = Lock()
        self._under_way: list[str] = []
        self._status: Status | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the spinner while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status("starting") as status:
            self._status = status
            yield

    def run(self, title: str, step: Callable[[], str]) -> None:
        """Run one step; its result is a few words for the line. Its exception passes through."""
        begun = time.monotonic()
        self._change(lambda: self._under_way.append(title))
        try:
            note = step()
        except Exception:
            self._console.print(f"  [red]✗[/] {title:<11} failed", highlight=False)
            raise
        finally:
            self._change(lambda: self._under_way.remove(title))
        seconds = time.monotonic() - begun
        self._console.print(
            f"  [green]✓[/] {title:<11} {note} [dim]({seconds:.1f} s)[/]", highlight=False, soft_wrap=True
        )

    def _change(self, change: Callable[[], None]) -> None:
        with self._lock:
            change()
            if self._status is not None:
                self._status.update(", ".join(self._under_way) or "…")
