"""Due times of daily cleanups (LIFE-8). Pure.

A day is a calendar day of the zone, and its cleanup is due from 03:00 on. If a clock change skips 03:00, it is due at
the end of the gap; if 03:00 occurs twice, at the first. Each day has one cleanup.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

CLEANUP_TIME = time(3)


def due_at(day: date, zone: ZoneInfo) -> datetime:
    """The time at which the day's cleanup is due, in UTC."""
    return datetime.combine(day, CLEANUP_TIME, zone).astimezone(UTC)


def due_day(now: datetime, zone: ZoneInfo) -> date:
    """The latest day whose cleanup is due."""
    today = now.astimezone(zone).date()
    return today if now >= due_at(today, zone) else today - timedelta(days=1)
