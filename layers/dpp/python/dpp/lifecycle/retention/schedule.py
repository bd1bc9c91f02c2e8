"""Which day's cleanup is due (LIFE-8). Pure: the caller brings the time.

A day is one of the zone's calendar, and its cleanup is due from 03:00 there on. Where a change of the clock skips 03:00
it is due at the end of the gap; where 03:00 comes twice, at the first. The day, not the hour, is what is done once.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

CLEANUP_TIME = time(3)


def due_at(day: date, zone: ZoneInfo) -> datetime:
    """When the day's cleanup is due, in UTC."""
    return datetime.combine(day, CLEANUP_TIME, zone).astimezone(UTC)


def due_day(now: datetime, zone: ZoneInfo) -> date:
    """The latest day whose cleanup is due."""
    today = now.astimezone(zone).date()
    return today if now >= due_at(today, zone) else today - timedelta(days=1)
