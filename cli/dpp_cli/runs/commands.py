"""`dpp run`: submit, show and await runs through the HTTP API with an API key, as any client does (RUN-1).

Exit codes: 0 success, 1 rejected or another error, 2 usage, 3 the run FAILED, 4 the run did not end in time, 5 the
platform could not be reached or is unavailable, 6 the result does not match the API's SHA-256, 130 Ctrl-C.
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
from dpp_cli.operator.output import print_note
from dpp_cli.runs.inputs import read_inputs
from dpp_cli.runs.output import message_of, noting_ctrl_c, print_receipt, print_retry, print_run, waiting_for
from dpp_cli.streams import if_output_is_lost
from dpp_client import Client, DppError, Receipt, ResultMismatch, ResultUnavailable, Run, WaitTimedOut, usd_text

run_app = typer.Typer(no_args_is_help=True, help="Submit runs, show them and wait for their results, with an API key.")

FAILED, TIMED_OUT, UNAVAILABLE, MISMATCH, INTERRUPTED = 3, 4, 5, 6, 130
_API_URL, _API_KEY = "DPP_API_URL", "DPP_API_KEY"

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The id that `submit` printed.")]
Api = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        envvar=_API_URL,
        help="The API's URL; default: the running local stack.",
        show_default=False,
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help=f"A file that contains only the API key; default: the variable {_API_KEY}.",
        show_default=False,
    ),
]
Retry = Annotated[
    float, typer.Option("--retry", metavar="SECONDS", min=0, help="How long to retry requests that get no answer.")
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]


class RunError(StackError):
    """Ends a `dpp run` command with an exit code of its own."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class _Where:
    """The API named by the options."""

    api: str | None
    key_file: Path | None
    retry: float

    def client(self) -> Client:
        """Create a client. Raises StackError if there is no API or no key."""
        url, key = self.api or _local_api(), _api_key(self.key_file)
        try:
            return Client(url, key, retry_seconds=self.retry, on_retry=print_retry)
        except ValueError as error:
            raise StackError(str(error)) from None

    def again(self, *words: str) -> str:
        """Format a `dpp run …` command with the same API options, as a suggestion for the user."""
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
    pack: Annotated[PackType, typer.Argument(metavar="PACK", help="The pack to run: docs/packs.md.")],
    *,
    max_cost: Annotated[
        str, typer.Option(metavar="USD", callback=_checked_amount, help="The maximum price, e.g. 0.2500.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE|-|NAME=VALUE",
            help="The inputs: a file with a JSON object (- reads stdin), name=text, name=@FILE with the text of a file,"
            " name:=JSON. May be repeated; named values override those of files.",
            show_default=False,
        ),
    ] = None,
    timebox: Annotated[
        int | None, typer.Option(metavar="SECONDS", min=1, max=90, help="The run's time limit.", show_default=False)
    ] = None,
    min_reliability: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE", min=0, max=1, help="Fail the run if its reliability is lower.", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "--idempotency-key",
            help="8 to 64 characters; submits with the same key return the same run. Default: random.",
            show_default=False,
        ),
    ] = None,
    wait_for_it: Annotated[bool, typer.Option("--wait", help="Wait for the result, as `wait` does.")] = False,
    timeout: Timeout = 300,
    api: Api = None,
    key_file: KeyFile = None,
    retry: Retry = 30,
    as_json: AsJson = False,
) -> None:
    """Submit a run and print its id."""
    inputs, where = read_inputs(words or []), _Where(api, key_file, retry)
    idempotency_key = key or str(uuid4())
    repeat = f"Repeat it with --key {shlex.quote(idempotency_key)}; it will not create a second run."
    with where.client() as client:
        with _ending(f"The run may have been accepted. {repeat}", repeat):
            receipt = client.submit(
                pack.value,
                inputs,
                max_cost,
                timebox_sec=timebox,
                min_reliability_score=min_reliability,
                idempotency_key=idempotency_key,
            )
        if_output_is_lost(f"Run {receipt.run_id} was accepted. {repeat}")
        if wait_for_it:
            _wait(client, receipt, timeout, where, as_json=as_json)
            return
    print_receipt(receipt, as_document=as_json)
    status = "already accepted earlier with this key" if receipt.replayed else receipt.status
    wait_command = where.again("wait", receipt.run_id)
    print_note(f"{status}; {receipt.reservation.max_cost_usd} USD reserved; to wait for it: {wait_command}")


@run_app.command()
def get(
    run_id: RunId, *, api: Api = None, key_file: KeyFile = None, retry: Retry = 30, as_json: AsJson = False
) -> None:
    """Show a run. Exit code 0 whatever its status."""
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
    """Wait until a run ends, then fetch and verify its result.

    Exit code 3 if it FAILED; its result is then what the pack found nevertheless."""
    where = _Where(api, key_file, retry)
    with where.client() as client:
        _wait(client, run_id, timeout, where, as_json=as_json)


def _wait(client: Client, run: Receipt | str, timeout: float, where: _Where, *, as_json: bool) -> None:
    run_id = run if isinstance(run, str) else run.run_id
    again = where.again("wait", run_id)
    with _ending(f"The run continues; to wait for it: {again}", f"To wait further: {again}"):
        with noting_ctrl_c() as check_ctrl_c, waiting_for(run_id) as show_progress:

            def on_look(run: Run) -> None:
                check_ctrl_c()
                show_progress(run)

            ended = client.wait(run, timeout=timeout, on_look=on_look)
        result = client.result(ended, failed=True) if ended.result is not None else None
    print_run(ended, result, as_document=as_json)
    _exit_if_failed(ended)


def _exit_if_failed(run: Run) -> None:
    if run.status != "COMPLETED":
        why = f": {run.problem.reason_code}" if run.problem else ""
        print_note(f"the run is {run.status}{why}")
        raise typer.Exit(FAILED)


@contextmanager
def _ending(interrupted: str = "Interrupted.", go_on: str | None = None) -> Iterator[None]:
    """Turn errors inside the block, and Ctrl-C, into a message and an exit code.

    `go_on`: what the user can do next if the error is temporary.
    """
    try:
        yield
    except ValueError as error:  # rejected before it was sent
        raise typer.BadParameter(str(error)) from None
    except WaitTimedOut as error:
        cause = error.__cause__
        last = f" The last attempt failed: {message_of(cause)}." if isinstance(cause, DppError) else ""
        exit_code = TIMED_OUT if error.run is not None else UNAVAILABLE
        raise RunError(f"{message_of(error)}{last}\n{go_on}", exit_code) from None
    except ResultMismatch as error:
        raise RunError(message_of(error), MISMATCH) from None
    except DppError as error:
        passing = error.temporary or isinstance(error, ResultUnavailable)
        also = f"\n{go_on}" if passing and go_on else ""
        raise RunError(f"{message_of(error)}{also}", UNAVAILABLE if passing else 1) from None
    except KeyboardInterrupt:
        print_note(f"\n{interrupted}")
        raise typer.Exit(INTERRUPTED) from None


def _local_api() -> str:
    try:
        return running_state().api_base_url
    except StackError as error:
        raise StackError(f"no API: give --api, set {_API_URL}, or start the local stack ({error})") from None


def _api_key(key_file: Path | None) -> str:
    """Read the key from a file or the environment, so that no process list shows it. Raises StackError."""
    if key_file is not None:
        try:
            return key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise StackError(f"can't read {key_file}: {reason}") from None
    key = os.environ.get(_API_KEY, "").strip()
    if not key:
        raise StackError(f"no API key: set {_API_KEY} or add --key-file (create a key with `dpp key create TENANT`)")
    return key
