"""`dpp tickets`, as an operator types it, on real servers (TIX-1 … TIX-5, TIX-7)."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from dpp.platform.db import exclusive
from dpp.platform.errors import PostgresUnavailable
from dpp.tickets import stop, store
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import REAPER, RequestType, Ticket
from dpp.tickets.store import NewTicket
from tests.local.shell import OperatorShell
from tests.support.stored import existing
from tests.support.world import World

DAY = 86_400
AN_ID = "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"


def taken(world: World, count: int = 1, *, seconds_ago: float = DAY + 60) -> list[Ticket]:
    """Tickets that a processor took so long ago and never ended."""
    then = world.now() - timedelta(seconds=seconds_ago)
    found = []
    for _ in range(count):
        new = NewTicket(uuid4(), RequestType.EXECUTION_ENABLE, {}, "why", "kim")
        world.using(store.file_ticket, new, then)
        found.append(existing(world.using(store.take_open, "OPS_CYCLE/gone", then)))
    return found


def status_of(world: World, ticket: Ticket) -> TicketStatus:
    found = existing(world.using(store.find, ticket.request_id))
    return found.current_status


def test_a_ticket_is_filed_once_for_its_id(shell: OperatorShell) -> None:
    """TIX-1: the same words with the same id find it filed, other words are refused."""
    words = ("tickets", "file", "BUDGET_CREDIT", "--param", "tenant_id=acme", "--param", "amount_usd=25.0000")
    asked = (*words, "--reason", " for May ", "--id", AN_ID)
    assert shell.out(*asked) == f"ticket {AN_ID} filed: BUDGET_CREDIT, OPEN\n"
    assert shell.out(*asked, "--as", "lee") == f"ticket {AN_ID} already filed by kim: BUDGET_CREDIT, OPEN\n"
    other = (*words[:-1], "amount_usd=26", "--reason", "for May", "--id", AN_ID)
    assert "belongs to a different request" in shell.refused(*other)
    printed = shell.data("tickets", "show", AN_ID)
    assert (printed["params"], printed["reason"]) == ({"tenant_id": "acme", "amount_usd": "25.0000"}, "for May")
    assert (printed["requested_by"], printed["current_status"], printed["attempts"]) == ("kim", "OPEN", 0)
    assert [(one.get("from_status"), one["to_status"], one["actor"]) for one in printed["transitions"]] == [
        (None, "OPEN", "kim")
    ]
    assert printed["created_at"].endswith("+09:00")


@pytest.mark.parametrize(
    ("kind", "params", "kept"),
    [
        ("EXECUTION_DISABLE", (), {}),
        ("EXECUTION_ENABLE", ("pack_type=ocr",), {"pack_type": "ocr"}),
        ("DLQ_REDRIVE", (), {"limit": 100}),
        (
            "DLQ_REDRIVE",
            (f"run_ids={AN_ID}", "limit=5", f"run_ids={AN_ID[:-1]}2,{AN_ID[:-1]}3"),
            {"run_ids": [AN_ID, f"{AN_ID[:-1]}2", f"{AN_ID[:-1]}3"], "limit": 5},
        ),
    ],
)
def test_params_are_read_as_their_type_has_them(
    shell: OperatorShell, kind: str, params: tuple[str, ...], kept: dict[str, Any]
) -> None:
    given = [word for param in params for word in ("--param", param)]
    printed = shell.data("tickets", "file", kind, *given, "--reason", "why", "--as", "lee@ops")
    assert (printed["request_type"], printed["params"], printed["requested_by"]) == (kind, kept, "lee@ops")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("EXECUTION_ENABLE", "--param", "pack"), "must be NAME=VALUE"),
        (("EXECUTION_ENABLE", "--param", "pack=ocr"), "has no parameter pack; it takes pack_type"),
        (("EXECUTION_ENABLE", "--param", "pack_type=pdf"), "--param pack_type: Input should be 'ocr'"),
        (("EXECUTION_ENABLE", "--param", "pack_type=ocr", "--param", "pack_type=url"), "was given twice"),
        (("BUDGET_CREDIT",), "--param tenant_id: Field required; --param amount_usd: Field required"),
        (("BUDGET_CREDIT", "--param", "tenant_id=a", "--param", "amount_usd=0"), "must be above zero"),
        (("BUDGET_CREDIT", "--param", "tenant_id=a", "--param", "amount_usd=1e3"), "decimal string"),
        (("BUDGET_CREDIT", "--param", "tenant_id=a b", "--param", "amount_usd=1"), "tenant_id: String should"),
        (("DLQ_REDRIVE", "--param", "limit=many"), "--param limit: Input should be a valid integer"),
        (("DLQ_REDRIVE", "--param", "limit=101"), "--param limit: Input should be less than"),
        (("DLQ_REDRIVE", "--param", "run_ids=x"), "--param run_ids.0: must be a UUID"),
        (("DLQ_REDRIVE", "--reason", "  "), "--reason: String should have at least 1"),
        (("DLQ_REDRIVE", "--as", "no body"), "an operator's name must have"),
        (("DLQ_REDRIVE", "--as", REAPER), "reserved for the platform's own records"),
    ],
)
def test_a_filing_that_can_not_be_is_refused_in_a_sentence(
    shell: OperatorShell, words: tuple[str, ...], message: str
) -> None:
    """TIX-1: by the same models as over HTTP; nothing is filed."""
    assert message in shell.refused("tickets", "file", "--reason", "why", *words)
    assert shell.data("tickets", "list") == []


@pytest.mark.parametrize("words", [("EXECUTION",), ("DLQ_REDRIVE", "--id", "1"), ("DLQ_REDRIVE",)])
def test_a_wrong_type_a_wrong_id_and_no_reason_are_reported_as_usage(
    shell: OperatorShell, words: tuple[str, ...]
) -> None:
    reason = () if words == ("DLQ_REDRIVE",) else ("--reason", "why")
    assert shell.run("tickets", "file", *words, *reason).exit_code == 2


def test_where_nobody_is_logged_in_the_name_must_be_given(
    shell: OperatorShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGNAME")
    monkeypatch.delenv("USER", raising=False)
    filing = ("tickets", "file", "DLQ_REDRIVE", "--reason", "why")
    assert shell.refused(*filing) == "no user name: add --as NAME"
    monkeypatch.setenv("USER", "park")
    assert shell.data(*filing)["requested_by"] == "park"


def test_a_filing_whose_outcome_is_unknown_says_how_to_repeat_it(
    shell: OperatorShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise PostgresUnavailable

    monkeypatch.setattr("dpp_cli.tickets.commands.file", lost)
    printed = shell.refused("tickets", "file", "DLQ_REDRIVE", "--reason", "why", "--id", AN_ID)
    assert printed.endswith(f"the ticket may have been filed; repeat the command with --id {AN_ID}")
    monkeypatch.undo()


def test_a_list_is_narrowed_and_says_where_it_was_cut(shell: OperatorShell, world: World) -> None:
    assert shell.out("tickets", "list") == "no tickets found\n"
    [old] = taken(world)
    shell.out("tickets", "file", "DLQ_REDRIVE", "--reason", "\x1b[2J[red] why", "--id", AN_ID)
    assert [one["request_id"] for one in shell.data("tickets", "list")] == [AN_ID, str(old.request_id)]
    table = shell.out("tickets", "list")
    assert f"{AN_ID}  DLQ_REDRIVE" in table
    assert "\x1b" not in table
    assert "[red]" in table
    [only] = shell.data("tickets", "list", "--status", "IN_PROGRESS")
    assert only["request_id"] == str(old.request_id)
    [only] = shell.data("tickets", "list", "--type", "DLQ_REDRIVE")
    assert only["request_id"] == AN_ID
    cut = shell.run("tickets", "list", "--limit", "1")
    assert (cut.exit_code, cut.stderr) == (0, "there are more; raise --limit\n")
    for wrong in (("--status", "STALE"), ("--type", "x"), ("--limit", "0")):
        assert shell.run("tickets", "list", *wrong).exit_code == 2


def test_a_ticket_is_shown_with_its_end_and_history(shell: OperatorShell, world: World) -> None:
    """TIX-2: what an auditor reads."""
    [old] = taken(world)
    shell.out("tickets", "reap")
    shown = shell.out("tickets", "show", str(old.request_id))
    assert f"ticket {old.request_id}" in shown
    assert f"exceeded {DAY}s threshold" in shown
    assert "OPS_CYCLE/gone" in shown
    printed = shell.data("tickets", "show", str(old.request_id))
    assert printed["result"] | {"processed_at": ""} == {
        "request_id": str(old.request_id),
        "processor_id": REAPER,
        "status": "FAILED",
        "processed_at": "",
        "message": f"AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded {DAY}s threshold",
    }
    assert [(one["to_status"], one["actor"]) for one in printed["transitions"]] == [
        ("OPEN", "kim"),
        ("IN_PROGRESS", "OPS_CYCLE/gone"),
        ("FAILED", REAPER),
    ]


def test_an_unknown_ticket_and_an_id_that_is_none(shell: OperatorShell) -> None:
    assert shell.refused("tickets", "show", AN_ID) == f"ticket {AN_ID} does not exist; `dpp tickets list` shows all"
    assert shell.run("tickets", "show", "1").exit_code == 2


def test_what_is_stale_is_shown_before_it_is_ended(shell: OperatorShell, world: World) -> None:
    """TIX-1."""
    none = shell.run("tickets", "stale")
    assert (none.exit_code, none.stdout) == (0, "")
    assert none.stderr == f"0 of 0 tickets in progress are stale (not processed for {DAY} s)\n"
    older, old = taken(world, seconds_ago=2 * DAY) + taken(world)
    taken(world, seconds_ago=600)
    shown = shell.run("tickets", "stale")
    assert shown.stderr == f"2 of 3 tickets in progress are stale (not processed for {DAY} s)\n"
    assert shown.stdout.index(str(older.request_id)) < shown.stdout.index(str(old.request_id))
    assert [one["request_id"] for one in shell.data("tickets", "stale", "--limit", "1")] == [str(older.request_id)]
    assert len(shell.data("tickets", "stale", "--threshold-seconds", "300")) == 3
    assert shell.run("tickets", "stale", "--threshold-seconds", "299").exit_code == 2


def test_the_reaper_ends_what_is_stale_and_leaves_its_report(shell: OperatorShell, world: World) -> None:
    """TIX-2, TIX-3, TIX-4: the row and both copies in S3 say the same."""
    assert "has not run yet" in shell.refused("tickets", "report")
    first, second = taken(world, 2)
    report = shell.data("tickets", "reap", "--max-clean", "1")
    assert (report["schema"], report["decision"]) == ("TICKET_REAPER_REPORT_V1", "CLEANED")
    assert (report["stale_count"], report["cleaned_count"]) == (2, 1)
    [item], [evidence] = report["cleaned_items"], report["evidence_refs"]
    assert item["request_id"] == min(str(first.request_id), str(second.request_id))
    assert shell.data("tickets", "report") == report
    assert shell.data("tickets", "report", "--snapshot", evidence.rpartition("/")[2]) == report
    assert world.s3.get_object(Bucket=world.bucket, Key=evidence)
    assert shell.refused("tickets", "report", "--snapshot", "x.json") == "snapshot x.json does not exist"

    again = shell.out("tickets", "reap", "--as", "lee")
    assert "decision   CLEANED" in again
    assert "cleaned    1" in again
    assert shell.out("tickets", "report") == again
    assert {status_of(world, one) for one in (first, second)} == {TicketStatus.FAILED}
    assert shell.data("tickets", "reap")["decision"] == "NONE"
    rows = world.sql("SELECT actor FROM ticket_reaper_reports ORDER BY report_id")
    assert rows == [("kim",), ("lee",), ("kim",)]


def test_a_dry_run_tells_and_changes_nothing(shell: OperatorShell, world: World) -> None:
    [old] = taken(world)
    printed = shell.run("tickets", "reap", "--dry-run")
    assert (printed.exit_code, printed.stderr) == (0, "dry run: would end 1; nothing was changed\n")
    assert "stale      1" in printed.stdout
    assert status_of(world, old) is TicketStatus.IN_PROGRESS
    assert "has not run yet" in shell.refused("tickets", "report")


def test_too_many_at_once_are_left_until_they_are_confirmed(
    shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 6: exit code 1, and a sentence with the command that follows."""
    monkeypatch.setenv("DPP_TICKET_REAPER_BREAKER_COUNT", "2")
    olds = taken(world, 3)
    assert "too many: the reaper ends none without --confirm" in shell.run("tickets", "stale").stderr
    dry = shell.run("tickets", "reap", "--dry-run")
    assert (dry.exit_code, "a run would end none" in dry.stderr) == (1, True)
    tripped = shell.run("tickets", "reap", "--threshold-seconds", "300", "--json")
    assert tripped.exit_code == 1
    assert '"decision":"NONE"' in tripped.stdout
    assert tripped.stderr == (
        "3 of 3 tickets in progress are stale; that is too many, so none was ended. Find the cause with"
        " `dpp tickets stale --threshold-seconds 300`; to end them anyway:"
        " `dpp tickets reap --threshold-seconds 300 --confirm 3`\n"
    )
    assert status_of(world, olds[0]) is TicketStatus.IN_PROGRESS
    assert shell.run("tickets", "reap", "--confirm", "2").exit_code == 1
    assert shell.data("tickets", "reap", "--confirm", "3")["cleaned_count"] == 3


def test_the_stop_and_another_run_are_said_in_a_sentence(shell: OperatorShell, world: World) -> None:
    """TIX-6: nothing is ended under the stop, nor by two at once."""
    taken(world)
    with exclusive.held(world.new_database(), REAPER, "lee", ttl_seconds=60):
        assert shell.refused("tickets", "reap").startswith("The reaper is already running since ")
    world.using(stop.decide, stopped=True, actor="lee", reason="a fire")
    assert shell.refused("tickets", "reap") == "The emergency stop is set (by lee: a fire)."
    assert shell.data("tickets", "stale") != []
    assert shell.run("tickets", "reap", "--dry-run").exit_code == 0


def test_a_lease_that_ran_out_changed_nothing(
    shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*_: object) -> None:
        raise exclusive.LeaseOver(REAPER)

    [old] = taken(world)
    monkeypatch.setattr("dpp.tickets.reap.exclusive.keep", over)
    assert "took longer than its lease" in shell.refused("tickets", "reap")
    assert status_of(world, old) is TicketStatus.IN_PROGRESS


def test_s3_that_is_down_leaves_the_report_in_its_row(
    shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-4: the next run writes the copies."""
    taken(world)
    monkeypatch.setenv("DPP_REPORTS_BUCKET", "no-such-bucket")
    printed = shell.run("tickets", "reap")
    assert printed.exit_code == 0
    assert (
        printed.stderr == "S3 did not answer: the report is stored in Postgres; the next run writes its copies to S3\n"
    )
    assert shell.data("tickets", "report")["cleaned_count"] == 1


def test_only_a_run_of_the_reaper_asks_for_the_bucket(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPP_REPORTS_BUCKET")
    assert (
        shell.refused("tickets", "reap")
        == "the environment is incomplete: DATABASE_URL set; missing: DPP_REPORTS_BUCKET"
    )
    for words in (("list",), ("stale",), ("counters",)):
        assert shell.run("tickets", *words).exit_code == 0


@pytest.mark.parametrize("wrong", ["0", "-1", "299", "31536001", "1.5", "NaN"])
def test_a_threshold_out_of_bounds_is_reported_as_usage(shell: OperatorShell, wrong: str) -> None:
    assert shell.run("tickets", "reap", "--threshold-seconds", wrong).exit_code == 2


def test_a_wrong_setting_is_a_sentence(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPP_TICKET_REAPER_EXCLUDED_TYPES", "NOTHING")
    assert "DPP_TICKET_REAPER_EXCLUDED_TYPES must list types of EXECUTION_ENABLE" in shell.refused(
        "tickets", "counters"
    )


def test_counters_count_what_is_stale_apart(shell: OperatorShell, world: World) -> None:
    """TIX-7."""
    taken(world, 2)
    taken(world, seconds_ago=600)
    shell.out("tickets", "file", "DLQ_REDRIVE", "--reason", "why")
    printed = shell.data("tickets", "counters")
    total = printed["total"]
    assert (total["open"]["count"], total["in_progress"]["count"], total["stale"]["count"]) == (1, 1, 2)
    assert printed["by_type"]["EXECUTION_ENABLE"]["stale"]["count"] == 2
    shell.out("tickets", "reap")
    table = shell.out("tickets", "counters")
    assert shell.data("tickets", "counters")["total"]["failed"] == {"last_day": 2, "last_week": 2}
    last = table.splitlines()[-1].split()
    assert last == ["all", "1", "1", "0", "0", "0", "2", "2", "0", "min"]
