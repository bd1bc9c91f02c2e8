"""`dpp run` as it is typed (RUN-1): what stands on stdout and what on stderr, and how it ends."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpp.packs.contract import PackFailure, PackReason
from dpp_cli.local.state import StateStore
from dpp_cli.paths import ROOT
from dpp_cli.runs import commands
from tests.client.gateway import Gateway, lost_reply, not_reached, page, problem
from tests.http.state import work
from tests.local.typed import DPP, NOWHERE, RUN_ID, SUBMIT, Typed, gateway, tenant, typed
from tests.support.world import Tenant, World

__all__ = ["gateway", "tenant", "typed"]  # fixtures


def _failed(gateway: Gateway, world: World) -> None:
    """The next GET finds the run ended with a failure."""

    def fault(request: httpx.Request, answers: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
        work(world, PackFailure(reason_code=PackReason.PACK_FAILED, detail="It broke."))
        return answers(request)

    gateway.faults.extend([None, fault])


def test_submit_prints_the_id_and_says_how_to_go_on(typed: Typed, gateway: Gateway) -> None:
    """RUN-1: stdout is what a shell takes up: `id=$(dpp run submit …)`."""
    ended = typed(*SUBMIT)
    assert (ended.exit_code, RUN_ID.fullmatch(ended.out.strip()) is not None) == (0, True)
    assert ended.err == f"QUEUED; 0.2500 USD reserved; to wait for it: `dpp run wait {ended.out.strip()}`\n"
    [request] = gateway.requests
    assert json.loads(request.content) == {
        "pack_type": "decision",
        "inputs": {"question": "What is the answer?"},
        "reservation": {"max_cost_usd": "0.25"},
    }


def test_a_receipt_as_json_is_the_api_s_with_the_key(typed: Typed) -> None:
    """RUN-2, RUN-4: typed again with the same key it is the same run, and says so."""
    first = typed(*SUBMIT, "--key", "order-0001", "--timebox", "20", "--min-reliability", "0.5", "--json")
    receipt = first.document
    assert receipt["reservation"] == {"max_cost_usd": "0.2500", "timebox_sec": 20, "min_reliability_score": 0.5}
    assert (receipt["idempotency_key"], receipt["replayed"]) == ("order-0001", False)
    again = typed(*SUBMIT, "--key", "order-0001", "--timebox", "20", "--min-reliability", "0.5", "--json")
    assert again.document == receipt | {"replayed": True}
    assert again.err.startswith("already accepted earlier with this key; ")


def test_submit_and_wait_print_the_verified_answer(typed: Typed) -> None:
    """RUN-1, RUN-10: as text."""
    ended = typed(*SUBMIT, "--wait")
    assert (ended.exit_code, ended.err) == (0, "")
    first, *lines = ended.out.splitlines()
    assert RUN_ID.fullmatch(first.removeprefix("run "))
    assert [line.strip() for line in lines[:4]] == [
        "pack     decision",
        "status   COMPLETED, SETTLED",
        "used     0.0500 of 0.2500 USD; 9.9500 left",
        "tokens   7",
    ]
    assert re.fullmatch(r"  result   SHA-256 [0-9a-f]{64}, verified", lines[4])
    assert json.loads("\n".join(lines[5:])) == {"answer_text": "42", "confidence": 0.9}


def test_get_and_wait_as_json_are_one_document(typed: Typed) -> None:
    """RUN-10: what the API answers, and with `wait` the envelope."""
    run_id = typed(*SUBMIT).out.strip()
    waited, got = typed("run", "wait", run_id, "--json"), typed("run", "get", run_id, "--json")
    assert (waited.exit_code, got.exit_code, waited.err, got.err) == (0, 0, "", "")
    envelope = waited.document["envelope"]
    assert (envelope["run_id"], envelope["data"]["answer_text"]) == (run_id, "42")
    assert got.document["cost"] == waited.document["cost"]
    assert got.document["cost"]["used_usd"] == "0.0500"
    assert got.document["result"]["sha256"] == waited.document["result"]["sha256"]
    assert "envelope" not in got.document
    assert "problem" not in got.document
    text = typed("run", "get", run_id)
    assert "COMPLETED, SETTLED" in text.out
    assert "http" not in text.out


def test_a_failed_run_is_exit_code_3_and_get_is_not(typed: Typed, gateway: Gateway, world: World) -> None:
    """RUN-17: its data stands on stdout all the same."""
    _failed(gateway, world)
    ended = typed(*SUBMIT, "--wait", "--json")
    assert (ended.exit_code, ended.err) == (3, "the run is FAILED: PACK_FAILED\n")
    assert ended.document["problem"] == {"reason_code": "PACK_FAILED", "detail": "It broke."}
    run_id = ended.document["run_id"]
    text = typed("run", "wait", run_id)
    assert text.exit_code == 3
    assert "problem  PACK_FAILED: It broke." in text.out
    assert typed("run", "get", run_id).exit_code == 0


def test_a_wait_that_takes_too_long_is_exit_code_4_and_says_how_to_go_on(typed: Typed, gateway: Gateway) -> None:
    gateway.works = False
    run_id = typed(*SUBMIT).out.strip()
    ended = typed("run", "wait", run_id, "--timeout", "0")
    assert (ended.exit_code, ended.out) == (4, "")
    assert "The run is QUEUED, and the time to wait is up." in ended.err
    assert f"To wait further: `dpp run wait {run_id}`" in ended.err


@pytest.mark.parametrize("fault", [page(502), not_reached, problem(429, "RATE_LIMITED")])
def test_a_platform_that_does_not_answer_is_exit_code_5_with_the_key_to_repeat_with(
    typed: Typed, gateway: Gateway, fault: Any
) -> None:
    """RUN-4, RUN-9: exit codes say what is worth a repetition."""
    if fault is not_reached:
        ended = typed(*SUBMIT, "--key", "order-0002", "--retry", "0", "--api", NOWHERE)
        assert "No answer from 127.0.0.1" in ended.err
    else:
        gateway.faults.append(fault)
        ended = typed(*SUBMIT, "--key", "order-0002", "--retry", "0")
    assert (ended.exit_code, ended.out) == (5, "")
    assert "\nRepeat it with --key order-0002; it will not create a second run.\n" in ended.err


def test_a_lost_reply_is_reported_tried_again_and_one_run(
    typed: Typed, gateway: Gateway, world: World, tenant: Tenant
) -> None:
    """RUN-4: the reply is lost on its way to a proxy, which says 502."""

    def lost(request: httpx.Request, answers: Any) -> httpx.Response:
        with pytest.raises(httpx.ReadTimeout):
            lost_reply(request, answers)
        return httpx.Response(502)

    gateway.faults.append(lost)
    ended = typed(*SUBMIT)
    assert ended.exit_code == 0
    assert re.match(r"502: The platform can't answer right now\. Trying again in 0\.\d s\.\n", ended.err)
    assert world.position(tenant).open_reservations_usd_micros == 250_000


def test_a_result_that_was_changed_is_exit_code_6_and_is_not_printed(typed: Typed, gateway: Gateway) -> None:
    """RUN-10, RUN-18."""
    run_id = typed(*SUBMIT).out.strip()
    changed = httpx.Response(200, json={"data": {"answer_text": "43"}})
    gateway.faults.extend([None, lambda request, answers: changed])
    ended = typed("run", "wait", run_id)
    assert (ended.exit_code, ended.out) == (6, "")
    assert "SHA-256" in ended.err


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ((*SUBMIT, "--key", "short"), 2, "idempotency key is 8 to 64"),
        ((*SUBMIT[:4], "0.00001", *SUBMIT[5:]), 2, "at most 4 places"),
        ((*SUBMIT[:4], "1e2", *SUBMIT[5:]), 2, "plain decimal number"),
        ((*SUBMIT[:2], "dicision", *SUBMIT[3:]), 2, "decision"),
        (SUBMIT[:3], 2, "--max-cost"),
        ((*SUBMIT, "-i", "question=again"), 2, "question was given twice"),
        ((*SUBMIT, "-i", "no-such.json"), 2, "can't read no-such.json"),
        ((*SUBMIT, "-i", 'context:={"a": 1, "a": 2}'), 2, "has a name twice"),
        ((*SUBMIT, "-i", "context:=NaN"), 2, "not a JSON number"),
        (("run", "get", "a/../b"), 2, "no run's id"),
        (("run", "get", "00000000-0000-4000-8000-000000000000"), 1, "404 NOT_FOUND: No such run"),
        ((*SUBMIT[:4], "100", *SUBMIT[5:]), 1, "402 BUDGET_DRAINED"),
        ((*SUBMIT, "-i", "mode=loud"), 1, "/inputs/mode: Input should be 'brief' or 'full'"),
        ((*SUBMIT, "--api", "api.example.com"), 1, "begins with https://"),
        ((*SUBMIT, "--key-file", "no-such-file"), 1, "can't read no-such-file: No such file"),
    ],
)
def test_a_refusal_is_a_sentence_on_stderr_and_nothing_on_stdout(
    typed: Typed, words: tuple[str, ...], code: int, printed: str
) -> None:
    ended = typed(*words)
    assert (ended.exit_code, ended.out) == (code, "")
    assert printed in re.sub(r"[\s│]+", " ", ended.err)
    assert "Traceback" not in ended.err


def test_inputs_come_from_files_stdin_and_words(
    typed: Typed, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name stands above a file, wherever it stands; text stays text, and JSON is said by `:=`."""
    (tmp_path / "in.json").write_text('{"question": "From the file?", "mode": "brief"}')
    (tmp_path / "lease.txt").write_text("﻿두 달치 월세 = 이사 비용\n", encoding="utf-8")
    words = ["-i", "mode=full", "-i", str(tmp_path / "in.json"), "-i", f"context=@{tmp_path / 'lease.txt'}"]
    typed("run", "submit", "decision", "--max-cost", "0.25", *words)
    assert json.loads(gateway.requests[-1].content)["inputs"] == {
        "question": "From the file?",
        "mode": "full",
        "context": "두 달치 월세 = 이사 비용\n",
    }
    piped = subprocess.run(
        [DPP, "run", "submit", "url", "--max-cost", "0.05", "-i", "-", "-i", "max_urls:=1", "-i", "allow_http:=true"],
        input=b'{"urls": ["https://example.com/"]}',
        capture_output=True,
        check=False,
    )
    assert (piped.returncode, b"QUEUED" in piped.stderr) == (0, True)
    assert json.loads(gateway.requests[-1].content)["inputs"] == {
        "urls": ["https://example.com/"],
        "max_urls": 1,
        "allow_http": True,
    }


def test_the_key_may_stand_in_a_file_and_what_comes_next_names_it(
    typed: Typed, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of processes shows its name, and never the key."""
    url = os.environ["DPP_API_URL"]
    monkeypatch.delenv("DPP_API_KEY")
    monkeypatch.delenv("DPP_API_URL")
    assert "no API key: set DPP_API_KEY" in typed(*SUBMIT, "--api", url).err
    (tmp_path / "my key").write_text(f"{tenant.token}\n")
    ended = typed(*SUBMIT, "--api", url, "--key-file", str(tmp_path / "my key"))
    assert ended.exit_code == 0
    assert f"to wait for it: `dpp run wait {ended.out.strip()} --api {url} --key-file '{tmp_path}/my key'`" in ended.err
    assert (
        "start the local stack (the local stack is not running"
        in typed(*SUBMIT, "--key-file", str(tmp_path / "my key")).err
    )


def test_the_local_stack_is_found_where_nobody_names_an_api(
    typed: Typed, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its state, as every other command finds it."""
    url = httpx.URL(os.environ["DPP_API_URL"])
    monkeypatch.delenv("DPP_API_URL")
    (tmp_path / "stack").mkdir()
    StateStore(tmp_path / "stack").set(
        aws_endpoint_url=f"http://127.0.0.1:{url.port}", outputs={"ApiId": "abc", "Stage": "dev"}
    )
    monkeypatch.setenv("DPP_LOCAL_STATE", str(tmp_path / "stack"))
    ended = typed("run", "get", "00000000-0000-4000-8000-000000000000", "--retry", "0")
    [request] = gateway.requests
    assert request.url.path.startswith("/_aws/execute-api/abc/dev/v1/runs/")
    assert ended.exit_code == 1


def test_ctrl_c_while_it_submits_says_with_which_key_it_is_the_same_run(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-4: nobody knows whether it arrived."""

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpp_client.Client.submit", pressed)
    ended = typed(*SUBMIT, "--key", "order-0003")
    assert (ended.exit_code, ended.out) == (130, "")
    assert (
        "The run may have been accepted. Repeat it with --key order-0003; it will not create a second run." in ended.err
    )


@pytest.mark.parametrize("page_name", ["README.md", "docs/client.md", "docs/cli.md"])
def test_every_command_of_runs_that_is_shown_works(gateway: Gateway, tmp_path: Path, page_name: str) -> None:
    """Each block of a shell by itself, from an empty folder with what it reads."""
    (tmp_path / "lease.txt").write_text("Moving costs two monthly rents.")
    (tmp_path / "inputs.json").write_text('{"question": "What does moving cost?"}')
    blocks = _shell_blocks((ROOT / page_name).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        script = re.sub(r"\bdpp run\b", f"{DPP} run", block)
        ended = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, (block, ended)


def _shell_blocks(page_text: str) -> list[str]:
    """Those that have a `dpp run` in them; whose API and whose key it is, the environment says here."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page_text, re.MULTILINE | re.DOTALL)
    return [
        "\n".join(line for line in block.splitlines() if not line.startswith("export DPP_API_"))
        for block in blocks
        if "dpp run" in block
    ]


def test_the_exit_codes_are_documented() -> None:
    """docs/cli.md names each, and no other."""
    page_text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\| ([0-9]+) \| ", page_text, re.MULTILINE)
    ours = (commands.FAILED, commands.TIMED_OUT, commands.UNAVAILABLE, commands.MISMATCH, commands.INTERRUPTED)
    assert printed == [str(code) for code in (0, 1, 2, *ours)]
