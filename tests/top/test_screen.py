"""The page as it is drawn: at a clock that stands, on terminals of several sizes."""

from datetime import timedelta
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from dpp.platform.observability import limits
from dpp_cli.top.model import Snapshot
from dpp_cli.top.screen import draw
from dpp_cli.top.view import DEPLOYMENT, Memory, View
from tests.top.pages import NOON, WELL, but, tenant

WELL_AT_80 = """\
dpp top  stage prod  2026-11-28 12:00:00+0000  every 2 s, q ends
No problems in rows, ledger and queues; see CloudWatch for functions and servers

RUNS        waiting 12, oldest for 4 s · running 3 · ending 1
            ended 14.2 per minute · last 5 min: 69 COMPLETED, 2 FAILED
QUEUES      runs 12, in flight 3 · dead letters of runs 0 · of events 0
MONEY       drift 0 µUSD · disputed ledgers 0 · runs 0 · stuck claims 0
THROTTLED   acme
TICKETS     open 1 for 31 s · in progress 0 · stale 0 · cycle COMPLETED 34 s ago
EVENTS      to publish 0 · queued 0 · to retry 0 · dead 0
WORKSPACES  RUNNING 12 · STANDBY 3 · in error 0 · not in desired state 0
FLOW        events 0 · tasks 2 for 2 min · questions 1 · messages 0
SILENT FOR  sentinel 12 s, king 12 s, general 12 s, envoy 12 s, chamberlain 12 s
DATA        last cleanup 3 h 3 min ago · tripped 0 · failed 0 · to delete 0

TENANTS     smallest balance, of 3           USD left     reserved
            acme                               0.0120       0.2500 throttled
            beta-works                         1.2000       0.0000
            zeta                              25.0000       0.5000"""

MUCH = but(
    runs={"stuck_claims": 3, "oldest_seconds": 432, "disabled": ("ocr",), "parked": 4, "failed": 100},
    money={"drift_usd_micros": 250_000, "rebuilt": 1},
    tickets={"stopped_seconds": 60.0, "stopped_by": "kim", "breaker_trips": True},
    data={"tripped": ("runs",)},
)
MUCH_AT_80 = """\
dpp top  stage prod  2026-11-28 12:00:00+0000  every 2 s, q ends
5 PROBLEMS  what to do: docs/runbook.md
!! Balances differ from the books: 250,000 µUSD                    #ledger-drift
!! Claims remain unfinished: 3                                     #stuck-claims
!! Runs wait for more than five minutes: 7 min                        #queue-age
   and 4 more: --once shows all"""
MUCH_AT_150 = """\
dpp top  stage prod  2026-11-28 12:00:00+0000  every 2 s, q ends
5 PROBLEMS  what to do: docs/runbook.md
!! Balances differ from the books: 250,000 µUSD                                                                                          #ledger-drift
!! Claims remain unfinished: 3                                                                                                           #stuck-claims
!! Runs wait for more than five minutes: 7 min                                                                                              #queue-age
!! Too many tickets are stale, so the reaper ends none                                                                          #ticket-reaper-breaker
!! Far more data than usual is due for deletion (runs): 1                                                                             #cleanup-breaker
 ! Execution disabled, runs parked (ocr): 4                                                                           operations.md#execution-disabled
 ! The emergency stop is set (kim): 60 s                                                                                               #emergency-stop

RUNS        waiting 12, 4 parked, oldest for 7 min · running 3 · ending 1             TENANTS smallest balance, of 3     USD left     reserved
            ended 33.8 per minute · last 5 min: 69 COMPLETED, 100 FAILED              acme                               0.0120       0.2500 throttled
QUEUES      runs 12, in flight 3 · dead letters of runs 0 · of events 0               beta-works                         1.2000       0.0000
MONEY       drift 250,000 µUSD · disputed ledgers 0 · runs 0 · stuck claims 3         zeta                              25.0000       0.5000
            balances rebuilt in the last 5 min 1"""  # noqa: E501


def shown(snapshot: Snapshot, columns: int, lines: int | None = None) -> str:
    """Return the page without trailing blanks at its lines' ends."""
    page = draw(View("stage prod", snapshot, 2.0), columns, lines)
    return "\n".join(line.rstrip() for line in page.plain.split("\n"))


def test_where_all_is_well_it_says_so_and_fits_a_small_terminal() -> None:
    assert shown(WELL, 80, 24) == WELL_AT_80
    assert shown(WELL, 80) == WELL_AT_80


def test_what_is_wrong_stands_first_and_with_its_entry() -> None:
    page = shown(MUCH, 80, 24)
    assert page.startswith(MUCH_AT_80)
    assert "acme" in page  # who is nearest to an empty budget is still there
    assert shown(MUCH, 150, 40).startswith(MUCH_AT_150)


@pytest.mark.parametrize("columns", [1, 20, 40, 79, 80, 100, 145, 146, 147, 200, 400])
@pytest.mark.parametrize("lines", [1, 5, 24, 60, None])
@pytest.mark.parametrize("snapshot", [WELL, MUCH, Snapshot(asof=NOON)], ids=["well", "much", "nothing"])
def test_no_line_is_wider_than_the_terminal_and_no_page_higher(
    snapshot: Snapshot, columns: int, lines: int | None
) -> None:
    page = draw(View("stage prod", snapshot, 2.0), columns, lines).plain.split("\n")
    assert all(cell_len(line) <= columns for line in page)
    assert lines is None or len(page) <= lines


def test_a_look_that_takes_long_is_reported() -> None:
    for seconds, printed in ((4.9, False), (7.2, True)):
        page = draw(View("here", WELL, 2.0, pending_seconds=seconds), 80, 24).plain
        assert ("refreshing for 7 s" in page.partition("\n")[0]) is printed


def test_without_a_bound_everything_that_is_wrong_is_shown() -> None:
    page = shown(MUCH, 80)
    assert page.count("\n!! ") == 5
    assert "more:" not in page


def test_what_others_named_reaches_no_terminal_raw() -> None:
    """A tenant's id is letters and digits by the schema's word; the page does not depend on it."""
    evil = "a\x1b[2Jb\x07\u202ec\x9b\n"
    snapshot = but(
        tenants={"nearest": (tenant(evil, 5, 0, 0),), "throttled": (evil,)},
        tickets={"stopped_seconds": 5.0, "stopped_by": evil, "last_cycle_outcome": evil},
        workspaces={"by_phase": {evil: 1}},
        runs={"disabled": (evil,)},
        flow={"heartbeat_ages": {"KING": 700.0, evil: 700.0}, "sources": {evil: 4}},
        data={"tripped": (evil,)},
    ).model_copy(update={"away": {evil: evil}, "slow": (evil,)})
    for columns in (80, 160):
        screen = StringIO()
        console = Console(file=screen, width=columns, force_terminal=True, color_system=None, no_color=True)
        console.print(draw(View(evil, snapshot), columns), highlight=False)
        text = screen.getvalue()
        assert "a\N{REPLACEMENT CHARACTER}[2Jb" in text
        for styled in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):  # the page's own: bold, dim, and neither
            text = text.replace(styled, "")
        assert all(char.isprintable() or char == "\n" for char in text)
        assert "\u202e" not in text


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_are_left_out_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    """https://no-color.org; problems are also marked by words and symbols."""
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    screen = StringIO()
    Console(file=screen, width=80, force_terminal=True, color_system="standard").print(
        draw(View("here", MUCH), 80), highlight=False
    )
    assert ("\x1b[1;31m" in screen.getvalue()) is not no_color
    assert "5 PROBLEMS" in screen.getvalue()


def test_what_could_not_be_asked_is_shown_as_it_last_stood_with_since_when() -> None:
    memory = Memory("here", 2.0)
    memory.update(MUCH)
    away = Snapshot(asof=NOON + timedelta(seconds=4), data=WELL.data, away={"postgres": "refused"})
    later = away.model_copy(update={"asof": NOON + timedelta(seconds=9)})
    memory.update(away)
    view = memory.update(later)
    page = draw(view, 100).plain.split("\n")
    assert page[1] == "?? postgres does not answer since 12:00:04: refused"
    assert page[2].startswith("   outdated, as of 12:00:00: runs, queues, money, tenants,")
    assert "data" not in page[2]
    assert any("Claims remain unfinished: 3" in line for line in page)  # as it last stood
    assert not any("Far more data" in line for line in page)  # asked, and over

    back = memory.update(WELL.model_copy(update={"asof": NOON + timedelta(seconds=12)}))
    assert (back.since, back.outdated, back.snapshot.conditions) == ({}, {}, ())


def test_a_function_that_does_not_answer_is_reported_with_its_time_and_the_page_stays() -> None:
    memory = Memory("stage prod", 10.0)
    assert memory.unanswered("throttled", NOON) is None
    memory.update(WELL)
    memory.unanswered("throttled", NOON + timedelta(seconds=10))
    view = memory.unanswered("throttled", NOON + timedelta(seconds=20))
    assert view is not None
    page = draw(view, 80, 24).plain.split("\n")
    assert page[1] == f"?? {DEPLOYMENT} does not answer since 12:00:10: throttled"
    assert page[2].startswith("   outdated, as of 12:00:00")
    assert "INCOMPLETE" in page[3]


def test_where_nothing_could_be_asked_nothing_is_called_well() -> None:
    page = shown(Snapshot(asof=NOON, away={"postgres": "refused", "redis": "refused"}), 80, 24)
    assert "No problems" not in page
    assert "INCOMPLETE" in page
    assert limits.LEDGER_DRIFT.says not in page
