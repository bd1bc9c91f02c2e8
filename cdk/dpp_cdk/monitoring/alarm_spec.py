"""What may be said of an alarm: `alarms.py` says it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from dpp.platform.observability import metrics
from dpp.platform.observability.limits import Limit
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions.spec import FunctionSpec, Part

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
QUIET_IS_WELL = cloudwatch.TreatMissingData.NOT_BREACHING
QUIET_IS_BAD = cloudwatch.TreatMissingData.BREACHING


@dataclass(frozen=True)
class Watched:
    """A metric of CloudWatch, and how it is summed up."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str
    minutes: int = 5

    def metric(self) -> cloudwatch.Metric:
        """As the CDK names it."""
        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.name,
            dimensions_map=dict(self.dimensions),
            statistic=self.statistic,
            period=Duration.minutes(self.minutes),
        )


@dataclass(frozen=True)
class AlarmSpec:
    """One alarm. `anchor`: its entry in the runbook; `subject`: of several alarms with one entry, which one."""

    anchor: str
    says: str
    watched: Watched
    threshold: float
    periods: int = 1
    comparison: cloudwatch.ComparisonOperator = AT_LEAST
    missing: cloudwatch.TreatMissingData = QUIET_IS_WELL
    subject: str = ""

    @property
    def id(self) -> str:
        """Unique within a deployment."""
        return f"{self.anchor}-{self.subject}" if self.subject else self.anchor


def at_limit(limit: Limit, watched: Watched, periods: int = 1, *, subject: str = "") -> AlarmSpec:
    """The alarm of a limit that `dpp top` goes by, too."""
    return AlarmSpec(
        limit.anchor, limit.says, watched, threshold=limit.at_least, periods=periods, subject=subject
    )


@dataclass(frozen=True)
class Named:
    """What the resources of a deployment are called; None for a server that isn't ours."""

    stage: str
    api: str
    runs_queue: str
    dead_letters: str
    auth_errors_queue: str
    auth_errors_dead_letters: str
    database: str | None
    cache_nodes: Sequence[str]
    parts: frozenset[Part]


def of_ours(
    metric: Metric, spec: FunctionSpec, stage: str, statistic: str, minutes: int = 5, **own: str
) -> Watched:
    """A metric that one of our functions emits; `own`: the values of the dimensions that it has besides."""
    dimensions = {metrics.FUNCTION: spec.function_name(stage), **own}
    return Watched(metrics.NAMESPACE, metric.name, dimensions, statistic, minutes)
