"""Prints runs: data to stdout; while waiting, a progress line to stderr if it is a terminal."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer
from rich.console import Console

from dpp_cli.operator.output import as_json, plain, plain_lines, print_note, print_values
from dpp_cli.operator.tenants import console
from dpp_client import DppError, Receipt, Result, Run, ValidationFailed


def print_receipt(receipt: Receipt, *, as_document: bool) -> None:
    """Print only the run id, for use in a shell, or the API's receipt as JSON."""
    if as_document:
        typer.echo(as_json(receipt.model_dump(mode="json")))
    else:
        typer.echo(receipt.run_id)


def print_run(run: Run, result: Result | None = None, *, as_document: bool) -> None:
    """Print a run and its verified result, if fetched, as text or as the API's JSON with the `envelope` added."""
    if as_document:
        document = run.model_dump(mode="json", exclude_none=True)
        typer.echo(as_json(document if result is None else document | {"envelope": result.envelope}))
        return
    cost, problem = run.cost, run.problem
    used = f"{cost.used_usd} of {cost.reserved_usd} USD; {cost.budget_remaining_usd} left"
    console.print(plain(f"run {run.run_id}"), soft_wrap=True)
    print_values(
        {
            "pack": run.pack_type,
            "status": f"{run.status}, {run.money_state}",
            "used": used,
            "tokens": str(run.tokens_consumed),
            "problem": f"{problem.reason_code}: {problem.detail}" if problem else None,
            "result": f"SHA-256 {run.result.sha256}{', verified' if result else ''}" if run.result else None,
        },
        indent="  ",
    )
    if result is not None:
        text = json.dumps(result.data, ensure_ascii=False, indent=2)
        console.print(plain_lines(text), soft_wrap=True)


def message_of(error: DppError) -> str:
    """Format an error, with one line for each invalid field."""
    lines = [str(error)]
    if isinstance(error, ValidationFailed):
        lines += [f"  {fault.pointer or '/'}: {fault.detail}" for fault in error.fields]
    return plain_lines("\n".join(lines)).plain


def print_retry(error: DppError, pause_seconds: float) -> None:
    """Report a failed attempt that will be retried."""
    print_note(f"{message_of(error)} Trying again in {pause_seconds:.1f} s.")


@contextmanager
def noting_ctrl_c() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt after a Ctrl-C whose own exception was lost.

    Python raises it between any two instructions. In a destructor or a callback it is reported and dropped.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def waiting_for(run_id: str) -> Iterator[Callable[[Run], None]]:
    """Yield a callback that shows each polled run: a changing line on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    begun = time.monotonic()
    with Console(stderr=True).status(f"run {run_id}", spinner="line") as status:
        yield lambda run: status.update(plain(f"run {run_id}  {run.status}, {time.monotonic() - begun:.0f} s"))
