"""Measures the current and the projected size of each class (LIFE-13)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg

from dpp.lifecycle.retention.model import ClassUse
from dpp.lifecycle.retention.periods import Retention
from dpp.lifecycle.retention.registry import days_of
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import RetentionClass
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable

_LOG = logging.getLogger("dpp.lifecycle.retention.usage")


@dataclass(slots=True)
class Usage:
    """The measured classes, and the names of those whose measurement failed, for example by a timeout."""

    classes: list[ClassUse] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)


def measure(
    database: Database, classes: Sequence[RetentionClass], retention: Retention, now: datetime | None = None
) -> Usage:
    """Measure every class; sizes of large tables are the planner's estimates. Raises PostgresNotReached."""
    usage = Usage()
    for one in classes:
        try:
            with database.connection() as connection:
                usage.classes.append(_use(connection, one, days_of(one, retention), now))
        except PostgresNotReached:
            raise
        except (PostgresUnavailable, psycopg.Error) as error:
            _LOG.warning("a class could not be measured", extra={"class": one.name, "error": type(error).__name__})
            usage.unmeasured.append(one.name)
    return usage


def _use(connection: Connection, one: RetentionClass, days: int, now: datetime | None) -> ClassUse:
    use = one.use(connection, now)
    return ClassUse(
        name=one.name,
        days=days,
        rows=use.rows,
        bytes=use.bytes,
        rows_a_day=use.rows_a_day,
        bytes_a_day=use.bytes_a_day,
        projected_bytes=round(use.bytes_a_day * days),
        oldest_at=use.oldest_at,
    )
