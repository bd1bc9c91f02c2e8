"""`dpp run`: what a tenant does, through the HTTP API and with an API key, as any client of it (RUN-1).

Exit codes: 0 done, 1 refused or another error, 2 usage, 3 the run FAILED, 4 it was not over in time, 5 the platform
was not reached or can't answer now, 6 the result is not the one that the API told of, 130 Ctrl-C.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from dpp.packs.contract import PackType
from dpp_cli.errors import StackError
from dpp_cli.local.state import running_state
from dpp_cli.operator.output import say
from dpp_cli.runs.inputs import read_inputs
from dpp_cli.runs.output import print_receipt, print_run, say_retry, told, waiting_for
from dpp_client import (
    Client,
    DppError,
    Receipt,
    ResultMismatch,
    ResultUnavailable,
    Run,
    WaitTimedOut,
    usd_text,
)

run_app = typer.Typer(no_args_is_help=True, help="Submit runs, look at them, wait for them, with an API key.")

FAILED, TIMED_OUT, UNAVAILABLE, MISMATCH, INTERRUPTED = 3, 4, 5, 6, 130
_API_URL, _API_KEY = "DPP_API_URL", "DPP_API_KEY"

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="As `submit` prints it.")]
Api = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        envvar=_API_URL,
        help="Where the API is; the running local stack if nobody says.",
        show_default=False,
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help=f"A file with the API key and nothing else; {_API_KEY} if not given.",
        show_default=False,
    ),
]
Retry = Annotated[
    float,
    typer.Option("--retry", metavar="SECONDS", min=0, help="How long what gets no answer is tried again."),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]


class RunError(StackError):
    """What ends a command of runs, with its exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class _Where:
    """The API as the options name it."""

    api: str | None
    key_file: Path | None
    retry: float

    def client(self) -> Client:
        """A client of it. Raises StackError where there is no API or no key."""
        url, key = self.api or _local_api(), _api_key(self.key_file)
        try:
            return Client(url, key, retry_seconds=self.retry, on_retry=say_retry)
        except ValueError as error:
            raise StackError(str(error)) from None

    def again(self, *words: str) -> str:
        """The same command line's beginning, `dpp run …`, for what is to be typed next."""
        options = [] if self.api in {None, os.environ.get(_API_URL)} else ["--api", str(self.api)]
        options += [] if self.key_file is None else ["--key-file", str(self.key_file)]
        return f"`{shlex.join(['dpp', 'run', *words, *options])}`"


def _checked_amount(amount: str | None) -> str | None:
    try:
        return None if amount is None else usd_text(amount)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@run_app.command()
def submit(
    pack: Annotated[PackType, typer.Argument(metavar="PACK", help="What is to run: docs/packs.md.")],
    *,
    max_cost: Annotated[
        str,
        typer.Option(metavar="USD", callback=_checked_amount, help="What it may cost: 0.2500, say."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE|-|NAME=VALUE",
            help="The inputs: a file with a JSON object (- reads stdin), name=text, name=@FILE with the text of a file,"
            " name:=JSON. May be repeated; a name stands above a file.",
            show_default=False,
        ),
    ] = None,
    timebox: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", min=1, max=90, help="How long it may run.", show_default=False),
    ] = None,
    min_reliability: Annotated[
        float | None,
        typer.Option(metavar="SCORE", min=0, max=1, help="Below it, it failed.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "--idempotency-key",
            help="Of 8 to 64 characters: the same key is the same run. A random one if not given.",
            show_default=False,
        ),
    ] = None,
    wait_for_it: Annotated[bool, typer.Option("--wait", help="Go on as `wait` does.")] = False,
    timeout: Timeout = 300,
    api: Api = None,
    key_file: KeyFile = None,
    retry: Retry = 30,
    as_json: AsJson = False,
) -> None:
    """Submit a run and print its id."""
    inputs, where = read_inputs(words or []), _Where(api, key_file, retry)
    idempotency_key = key or str(uuid4())
    repeat = f"Repeat it with --key {shlex.quote(idempotency_key)}: it is one run at most."
    with where.client() as client:
        with _ending(f"It may have been accepted. {repeat}", repeat):
            receipt = client.submit(
                pack.value,
                inputs,
                max_cost,
                timebox_sec=timebox,
                min_reliability_score=min_reliability,
                idempotency_key=idempotency_key,
            )
        if wait_for_it:
            _wait(client, receipt, timeout, where, as_json=as_json)
            return
    print_receipt(receipt, as_document=as_json)
    was = "was accepted before, by this key" if receipt.replayed else receipt.status
    say(
        f"{was}; {receipt.reservation.max_cost_usd} USD reserved; {where.again('wait', receipt.run_id)} waits for it"
    )


@run_app.command()
def get(
    run_id: RunId, *, api: Api = None, key_file: KeyFile = None, retry: Retry = 30, as_json: AsJson = False
) -> None:
    """Show a run as it stands. Exit code 0 whatever became of it."""
    where = _Where(api, key_file, retry)
    with where.client() as client, _ending():
        run = client.get(run_id)
    print_run(run, as_document=as_json)


@run_app.command()
def wait(
    run_id: RunId,
    *,
    timeout: Timeout = 300,
    api: Api = None,
    key_file: KeyFile = None,
    retry: Retry = 30,
    as_json: AsJson = False,
) -> None:
    """Wait until a run is over, at once if it is; fetch its result and verify it. Exit code 3 if it FAILED."""
    where = _Where(api, key_file, retry)
    with where.client() as client:
        _wait(client, run_id, timeout, where, as_json=as_json)


def _wait(client: Client, run: Receipt | str, timeout: float, where: _Where, *, as_json: bool) -> None:
    run_id = run if isinstance(run, str) else run.run_id
    again = where.again("wait", run_id)
    with _ending(f"The run goes on; {again} waits for it.", f"{again} waits on."):
        with waiting_for(run_id) as look:
            over = client.wait(run, timeout=timeout, on_look=look)
        result = client.result(over) if over.result is not None else None
    print_run(over, result, as_document=as_json)
    _end_as(over)


def _end_as(run: Run) -> None:
    if run.status != "COMPLETED":
        why = f": {run.problem.reason_code}" if run.problem else ""
        say(f"the run is {run.status}{why}")
        raise typer.Exit(FAILED)


@contextmanager
def _ending(interrupted: str = "Interrupted.", go_on: str | None = None) -> Iterator[None]:
    """Turn what goes wrong inside into its sentence and exit code; Ctrl-C, too.

    `go_on`: what may be done about it if it is worth trying again.
    """
    try:
        yield
    except ValueError as error:  # what no API would take
        raise typer.BadParameter(str(error)) from None
    except WaitTimedOut as error:
        cause = error.__cause__
        last = f" The last try ended so: {told(cause)}." if isinstance(cause, DppError) else ""
        exit_code = TIMED_OUT if error.run is not None else UNAVAILABLE
        raise RunError(f"{told(error)}{last}\n{go_on}", exit_code) from None
    except ResultMismatch as error:
        raise RunError(told(error), MISMATCH) from None
    except DppError as error:
        passing = error.temporary or isinstance(error, ResultUnavailable)
        also = f"\n{go_on}" if passing and go_on else ""
        raise RunError(f"{told(error)}{also}", UNAVAILABLE if passing else 1) from None
    except KeyboardInterrupt:
        say(f"\n{interrupted}")
        raise typer.Exit(INTERRUPTED) from None


def _local_api() -> str:
    try:
        return running_state().api_base_url
    except StackError as error:
        raise StackError(
            f"where is the API? --api or {_API_URL} says so; there is no local one: {error}"
        ) from None


def _api_key(key_file: Path | None) -> str:
    """The key, from where the list of processes doesn't show it. Raises StackError."""
    if key_file is not None:
        try:
            return key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise StackError(f"can't read {key_file}: {reason}") from None
    key = os.environ.get(_API_KEY, "").strip()
    if not key:
        raise StackError(
            f"no API key: set {_API_KEY} or add --key-file (`dpp key create TENANT` makes one, on the local stack too)"
        )
    return key
