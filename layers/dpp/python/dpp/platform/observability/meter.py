"""The meter through which a function emits what the table of metrics has (RUN-31; docs/metrics.md).

Metrics go out as lines of the log in CloudWatch's embedded metric format (EMF), written by powertools: no call is made,
nothing waits.
"""

from collections.abc import Sequence
from typing import Protocol

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from dpp.platform.observability.metrics import (
    COLD_STARTS,
    FUNCTION,
    INTERVENTIONS,
    LEFT_FOR_NEXT_FIRING,
    NAMESPACE,
    REFUNDED_USD_MICROS,
    RUNS_ENDED,
    SETTLED_USD_MICROS,
    STOPPED_EARLY,
    WORKSPACE_OUTAGES,
    WORKSPACE_STEPS,
    Metric,
)


class RunEnding(Protocol):
    """What became of a run, as far as it is counted."""

    @property
    def outcome(self) -> str:
        """COMPLETED, FAILED or DISPUTED."""

    @property
    def reason(self) -> str:
        """The class of the reason."""

    @property
    def charge_usd_micros(self) -> int:
        """Charged."""

    @property
    def refund_usd_micros(self) -> int:
        """Given back."""


class ScanReport(Protocol):
    """What one scan of a job did."""

    @property
    def ended(self) -> int:
        """Moved."""

    @property
    def failed(self) -> int:
        """Left, since a dependency failed."""

    @property
    def stopped_early(self) -> bool:
        """Whether it ran into its limit."""

    @property
    def endings(self) -> Sequence[RunEnding]:
        """The runs that it ended."""


class Step(Protocol):
    """One step of a workspace."""

    @property
    def kind(self) -> str:
        """BEGIN, ACT, COMPLETE, FAIL or LOSE."""

    @property
    def operation(self) -> str:
        """Of which operation."""


class Meter:
    """What a function measures during one invocation; made once a container."""

    def __init__(self) -> None:
        self._measured: list[tuple[Metric, tuple[tuple[str, str], ...], float]] = []
        self._cold = True

    def add(self, metric: Metric, value: float = 1, **dimensions: str) -> None:
        """Measure. Raises ValueError where the dimensions aren't those of the table."""
        if set(dimensions) != set(metric.dimensions):
            raise ValueError(f"{metric.name} has the dimensions {metric.dimensions}, not {tuple(dimensions)}")
        own = tuple((name, str(dimensions[name])) for name in metric.dimensions)
        self._measured.append((metric, own, value))

    def run_ended(self, ending: RunEnding | None) -> None:
        """Measure the end of a run, if there is one."""
        if ending is None:
            return
        self.add(RUNS_ENDED, Outcome=ending.outcome, Reason=ending.reason)
        self.add(SETTLED_USD_MICROS, ending.charge_usd_micros)
        self.add(REFUNDED_USD_MICROS, ending.refund_usd_micros)

    def scanned(self, scan: str, report: ScanReport, moved: Metric = INTERVENTIONS) -> None:
        """Measure one scan of a job; `moved` is the metric of what it moved, where that is its daily work."""
        self.add(moved, report.ended, **({"Scan": scan} if moved.dimensions else {}))
        self.add(LEFT_FOR_NEXT_FIRING, report.failed, Scan=scan)
        self.add(STOPPED_EARLY, int(report.stopped_early), Scan=scan)
        for ending in report.endings:
            self.run_ended(ending)

    def looked(self, steps: Sequence[Step], outage: str | None) -> None:
        """Measure a look at a workspace: the steps that it took, and whether the provider was away."""
        for step in steps:
            self.add(WORKSPACE_STEPS, Kind=step.kind, Operation=step.operation)
        if outage is not None:
            self.add(WORKSPACE_OUTAGES)

    def emit(self, function: str) -> None:
        """Write what was measured, at the end of an invocation of the Lambda function of this name.

        One line for each set of dimensions: EMF gives all metrics of a line the same ones.
        """
        measured, self._measured = self._measured, []
        if self._cold:
            self._cold = False
            measured.append((COLD_STARTS, (), 1))
        lines: dict[tuple[tuple[str, str], ...], AmazonCloudWatchEMFProvider] = {}
        for metric, own, value in measured:
            line = lines.get(own)
            if line is None:
                dimensions = {FUNCTION: function, **dict(own)}
                # An empty service: powertools would take one from the environment, as one more dimension.
                line = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, dimension_set=dimensions, service="")
                lines[own] = line
            line.add_metric(metric.name, metric.unit, value)
        for line in lines.values():
            if line.metric_set:  # written already where a metric had its hundredth value
                line.flush_metrics()
