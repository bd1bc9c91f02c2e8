"""Standard streams that are closed or full: one line, an exit code, and nothing lost without a word (RUN-1)."""

import json
import os
import subprocess
from collections.abc import Sequence

import pytest

from dpp_cli.main import OUTPUT_LOST
from tests.client.gateway import Gateway
from tests.local.typed import DPP, RUN_ID, SUBMIT, gateway, tenant

__all__ = ["gateway", "tenant"]  # fixtures


def shell(words: Sequence[str], redirections: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirections}', "bash", DPP, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
        timeout=120,
    )


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_a_submit_whose_output_is_lost_names_the_run_and_the_key(gateway: Gateway, redirection: str) -> None:
    """RUN-4: the run was accepted, so the user must be able to find it."""
    ended = shell([*SUBMIT, "--key", "order-2026-0001"], redirection)
    assert ended.returncode == OUTPUT_LOST
    lost = [line for line in ended.stderr.splitlines() if "can't be written" in line]
    assert len(lost) == 1
    assert "--key order-2026-0001" in lost[0]
    assert RUN_ID.search(lost[0])
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", [["--help"], ["run", "submit", "--help"], ["ledger", "check", "--help"]])
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_output_of_any_command_that_is_lost_is_one_line(words: list[str], redirection: str) -> None:
    ended = shell(words, redirection)
    assert ended.returncode == OUTPUT_LOST
    assert len(ended.stderr.splitlines()) == 1
    assert "can't be written" in ended.stderr


def test_with_both_streams_full_the_exit_code_remains() -> None:
    assert shell(["--help"], ">/dev/full 2>/dev/full").returncode == OUTPUT_LOST


def test_a_reader_that_goes_away_is_no_error_message() -> None:
    ended = shell(["run", "submit", "--help"], "| true")
    assert "Traceback" not in ended.stderr


def test_inputs_from_a_closed_standard_input_are_refused_in_one_line(gateway: Gateway) -> None:
    words = ["run", "submit", "decision", "--max-cost", "0.25", "-i", "-"]
    ended = shell(words, "<&-")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "standard input is closed" in ended.stderr
    assert gateway.requests == []


def test_with_all_streams_closed_no_connection_takes_their_place(gateway: Gateway) -> None:
    """The request goes to the API, and its socket is not what the receipt is printed to."""
    ended = shell([*SUBMIT, "--json"], "<&- >&- 2>&-")
    assert ended.returncode == OUTPUT_LOST
    fine = shell([*SUBMIT, "--json"], "<&-")
    assert fine.returncode == 0
    assert json.loads(fine.stdout)["run_id"]
