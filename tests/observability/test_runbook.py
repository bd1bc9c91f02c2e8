"""docs/runbook.md: a complete entry for every alarm, without broken links or commands."""

import re
from typing import Any

import psycopg
import pytest
import typer.main

from dpp.platform.observability.metrics import METRICS
from dpp_cdk.functions.spec import Part
from dpp_cdk.monitoring.alarm_spec import ResourceNames
from dpp_cdk.monitoring.alarms import alarms
from dpp_cdk.settings.sizes import SIZES
from dpp_cli.main import app
from dpp_cli.paths import FUNCTIONS, ROOT

DOCS = ROOT / "docs"
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", RUNBOOK, re.MULTILINE))
NAMES = ResourceNames(
    "test", "api", "runs", "dead", "events", "dead-events", "database", ("cache-001",), parts=frozenset(Part)
)
ANCHORS = sorted({alarm.anchor for size in SIZES.values() for alarm in alarms(NAMES, size)})
_SQL = re.compile(r"^```sql\n(.*?)^```|`(SELECT [^`…]+)`", re.MULTILINE | re.DOTALL)
SQL = [block or inline for block, inline in _SQL.findall(RUNBOOK)]


@pytest.mark.parametrize("anchor", ANCHORS)
def test_every_alarm_has_a_complete_entry(anchor: str) -> None:
    """Its meaning, how to look, what to do, and how to know that it is over."""
    for part in ("Means", "Look", "Do", "Over"):
        assert re.search(rf"\*\*(?:\w+, )?{part}\b", ENTRIES[anchor]), part


def test_every_entry_has_its_alarm() -> None:
    """No entry is obsolete or misspelled."""
    entries = {name for name, text in ENTRIES.items() if re.search(r"\*\*(?:\w+, )?Means\b", text)}
    assert entries == set(ANCHORS)


def test_every_alarm_of_a_metric_exists() -> None:
    """docs/metrics.md links them."""
    assert {alarm for metric in METRICS for alarm in metric.alarms} <= set(ANCHORS)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`dpp ([a-z-]+ [a-z]+)", RUNBOOK))))
def test_every_command_of_the_runbook_exists(command: str) -> None:
    group: Any = typer.main.get_command(app)
    for name in command.split():
        group = group.commands[name]


@pytest.mark.parametrize("sql", SQL)
def test_every_query_of_the_runbook_matches_the_schema(database_url: str, sql: str) -> None:
    """An operator should not have to correct column names during an incident."""
    with psycopg.connect(database_url) as connection:
        connection.execute(sql.encode())


def test_every_function_of_the_runbook_exists() -> None:
    named = set(
        re.findall(
            r"\b(runs?_[a-z]+|pack_[a-z]+|auth_errors_[a-z]+|workspaces_[a-z]+|lifecycle_[a-z]+)\b",
            re.sub(r"run_(?:id|inputs)|lifecycle_threads", "", RUNBOOK),
        )
    )
    assert named
    assert named <= {path.name for path in FUNCTIONS.iterdir() if path.is_dir()}
