"""How runs are printed: data to stdout, and on a terminal a line on stderr while one is waited for."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from dpp_cli.operator.output import as_json, plain, plain_lines, print_values, say
from dpp_cli.operator.tenants import console
from dpp_client import DppError, Receipt, Result, Run, ValidationFailed


def print_receipt(receipt: Receipt, *, as_document: bool) -> None:
    """The id alone, for a shell to take up; or the receipt as the API gave it."""
    if as_document:
        typer.echo(as_json(receipt.model_dump(mode="json")))
    else:
        typer.echo(receipt.run_id)


def print_run(run: Run, result: Result | None = None, *, as_document: bool) -> None:
    """A run, and the verified result where it was fetched: as text, or as what the API answers with its `envelope`."""
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
            "stands at": f"{run.status}, {run.money_state}",
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


def told(error: DppError) -> str:
    """An error in a sentence, and a line for each place that it names."""
    lines = [str(error)]
    if isinstance(error, ValidationFailed):
        lines += [f"  {fault.pointer or '/'}: {fault.detail}" for fault in error.fields]
    return plain_lines("\n".join(lines)).plain


def say_retry(error: DppError, pause_seconds: float) -> None:
    """That something went wrong, and goes on."""
    say(f"{told(error)} Trying again in {pause_seconds:.1f} s.")


@contextmanager
def waiting_for(run_id: str) -> Iterator[Callable[[Run], None]]:
    """What each look is shown to: a line that changes on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    begun = time.monotonic()
    with Console(stderr=True).status(f"run {run_id}", spinner="line") as status:
        yield lambda run: status.update(
            plain(f"run {run_id}  {run.status}, {time.monotonic() - begun:.0f} s")
        )
