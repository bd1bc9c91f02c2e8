"""Helpers that set the execution switch in a test."""

from datetime import UTC, datetime
from uuid import uuid4

from dpp.packs.contract import PackType
from dpp.platform.db.postgres import Database
from dpp.runs.operations.switch import decide


def switch(database: Database, scope: PackType | None = None, *, enabled: bool, at: datetime | None = None) -> None:
    """Take a decision, now or at `at`."""
    database.using(
        decide,
        scope=scope,
        enabled=enabled,
        decision_id=uuid4(),
        actor="ops_one",
        reason="for a test",
        decided_at=at or datetime.now(UTC),
    )


def disable(database: Database, scope: PackType | None = None) -> None:
    switch(database, scope, enabled=False)


def enable(database: Database, scope: PackType | None = None) -> None:
    switch(database, scope, enabled=True)
