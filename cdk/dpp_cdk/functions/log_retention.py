"""The retention of the platform's logs in CloudWatch: `logs_days` of the retention settings (LIFE-9).

It applies to the logs of the functions, of Postgres and of workspaces. The API's access log and the network's log of
refused traffic have periods of their own: they are evidence for investigations months later.
"""

from collections.abc import Mapping
from types import MappingProxyType

from aws_cdk.aws_logs import RetentionDays

from dpp.lifecycle.retention.periods import Retention

PERIODS: Mapping[int, RetentionDays] = MappingProxyType(
    {
        1: RetentionDays.ONE_DAY,
        3: RetentionDays.THREE_DAYS,
        5: RetentionDays.FIVE_DAYS,
        7: RetentionDays.ONE_WEEK,
        14: RetentionDays.TWO_WEEKS,
        30: RetentionDays.ONE_MONTH,
        60: RetentionDays.TWO_MONTHS,
        90: RetentionDays.THREE_MONTHS,
        120: RetentionDays.FOUR_MONTHS,
        150: RetentionDays.FIVE_MONTHS,
        180: RetentionDays.SIX_MONTHS,
        365: RetentionDays.ONE_YEAR,
        400: RetentionDays.THIRTEEN_MONTHS,
        545: RetentionDays.EIGHTEEN_MONTHS,
        731: RetentionDays.TWO_YEARS,
        1096: RetentionDays.THREE_YEARS,
        1827: RetentionDays.FIVE_YEARS,
        2192: RetentionDays.SIX_YEARS,
        2557: RetentionDays.SEVEN_YEARS,
        2922: RetentionDays.EIGHT_YEARS,
        3288: RetentionDays.NINE_YEARS,
        3653: RetentionDays.TEN_YEARS,
    }
)
"""The retention periods that CloudWatch Logs supports, in days (PutRetentionPolicy)."""


def days_kept(days: int) -> int:
    """The shortest supported period of at least `days`. Raises ValueError beyond the longest."""
    longer = [period for period in PERIODS if period >= days]
    if not longer:
        raise ValueError(f"logs_days is {days}; CloudWatch keeps logs for at most {max(PERIODS)} days")
    return min(longer)


def log_retention(retention: Retention) -> RetentionDays:
    """The retention period of the platform's log groups."""
    return PERIODS[days_kept(retention.logs_days)]
