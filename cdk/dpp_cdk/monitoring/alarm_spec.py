"""The attributes of an alarm; `alarms.py` sets them. Imports no CDK, so that data about alarms is cheap to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpp.platform.observability import metrics
from dpp.platform.observability.limits import Limit
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions.spec import FunctionSpec, Part

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

# Names of members of the CDK's ComparisonOperator and TreatMissingData.
AT_LEAST = "GREATER_THAN_OR_EQUAL_TO_THRESHOLD"
BELOW = "LESS_THAN_THRESHOLD"
MISSING_IS_OK = "NOT_BREACHING"
MISSING_IS_BREACHING = "BREACHING"


@dataclass(frozen=True)
class Watched:
    """A CloudWatch metric with its statistic and period."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str
    minutes: int = 5

    def metric(self) -> "cloudwatch.Metric":
        """The metric as a CDK object."""
        from aws_cdk import Duration  # noqa: PLC0415 - starts Node
        from aws_cdk import aws_cloudwatch as cloudwatch  # noqa: PLC0415

        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.name,
            dimensions_map=dict(self.dimensions),
            statistic=self.statistic,
            period=Duration.minutes(self.minutes),
        )


@dataclass(frozen=True)
class AlarmSpec:
    """One alarm. `anchor`: its entry in the runbook; `says`: its description; `subject`: distinguishes the alarms of
    one entry."""

    anchor: str
    says: str
    watched: Watched
    threshold: float
    periods: int = 1
    comparison: str = AT_LEAST
    missing: str = MISSING_IS_OK
    subject: str = ""

    @property
    def id(self) -> str:
        """The alarm's id, unique within a deployment."""
        return f"{self.anchor}-{self.subject}" if self.subject else self.anchor


def at_limit(limit: Limit, watched: Watched, periods: int = 1, *, subject: str = "") -> AlarmSpec:
    """The alarm of a limit that `dpp top` shares."""
    return AlarmSpec(limit.anchor, limit.says, watched, threshold=limit.at_least, periods=periods, subject=subject)


@dataclass(frozen=True)
class ResourceNames:
    """The names of a deployment's resources; no `database` and no `cache_nodes` if the servers are given by URL."""

    stage: str
    api: str
    runs_queue: str
    dead_letters: str
    auth_errors_queue: str
    auth_errors_dead_letters: str
    database: str | None
    cache_nodes: Sequence[str]
    parts: frozenset[Part]


def platform_metric(
    metric: Metric, spec: FunctionSpec, stage: str, statistic: str, minutes: int = 5, **own: str
) -> Watched:
    """A metric that a function of the platform emits; `own`: the values of its own dimensions."""
    dimensions = {metrics.FUNCTION: spec.function_name(stage), **own}
    return Watched(metrics.NAMESPACE, metric.name, dimensions, statistic, minutes)
