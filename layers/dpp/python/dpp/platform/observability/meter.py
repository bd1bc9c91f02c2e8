"""Emits the metrics of a function, as defined in `metrics.py` (RUN-31; docs/metrics.md).

Metrics are lines of the log in CloudWatch's embedded metric format (EMF), written by powertools: no call, no waiting.
"""

from collections.abc import Sequence
from typing import Protocol

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from dpp.platform.observability import metrics


class RunEnding(Protocol):
    """The end of a run, as far as it is counted."""

    @property
    def outcome(self) -> str:
        """COMPLETED, FAILED or DISPUTED."""

    @property
    def reason(self) -> str:
        """The class of the reason."""

    @property
    def charge_usd_micros(self) -> int:
        """The charge."""

    @property
    def refund_usd_micros(self) -> int:
        """The refund."""


class ScanReport(Protocol):
    """The report of one scan of a job."""

    @property
    def ended(self) -> int:
        """Rows moved."""

    @property
    def failed(self) -> int:
        """Rows left because a dependency failed."""

    @property
    def stopped_early(self) -> bool:
        """True if the scan reached its limit."""

    @property
    def endings(self) -> Sequence[RunEnding]:
        """The runs that the scan ended."""


class Step(Protocol):
    """One step of a workspace."""

    @property
    def kind(self) -> str:
        """BEGIN, ACT, COMPLETE, FAIL or LOSE."""

    @property
    def operation(self) -> str:
        """The step's operation."""


class Meter:
    """Collects the metrics of one invocation; one per container."""

    def __init__(self) -> None:
        self._measured: list[tuple[metrics.Metric, tuple[tuple[str, str], ...], float]] = []
        self._cold = True

    def add(self, metric: metrics.Metric, value: float = 1, **dimensions: str) -> None:
        """Record a value. Raises ValueError if the dimensions are not the metric's."""
        if set(dimensions) != set(metric.dimensions):
            raise ValueError(f"{metric.name} has the dimensions {metric.dimensions}, not {tuple(dimensions)}")
        own = tuple((name, str(dimensions[name])) for name in metric.dimensions)
        self._measured.append((metric, own, value))

    def run_ended(self, ending: RunEnding | None) -> None:
        """Record the end of a run, if there is one."""
        if ending is None:
            return
        self.add(metrics.RUNS_ENDED, Outcome=ending.outcome, Reason=ending.reason)
        self.add(metrics.SETTLED_USD_MICROS, ending.charge_usd_micros)
        self.add(metrics.REFUNDED_USD_MICROS, ending.refund_usd_micros)

    def scanned(self, scan: str, report: ScanReport, moved: metrics.Metric = metrics.INTERVENTIONS) -> None:
        """Record one scan of a job; `moved` is the metric of moved rows where moving them is routine."""
        self.add(moved, report.ended, **({"Scan": scan} if moved.dimensions else {}))
        self.add(metrics.LEFT_FOR_NEXT_TICK, report.failed, Scan=scan)
        self.add(metrics.STOPPED_EARLY, int(report.stopped_early), Scan=scan)
        for ending in report.endings:
            self.run_ended(ending)

    def observed(self, steps: Sequence[Step], outage: str | None) -> None:
        """Record an observation of a workspace: its steps, and an outage of the provider."""
        for step in steps:
            self.add(metrics.WORKSPACE_STEPS, Kind=step.kind, Operation=step.operation)
        if outage is not None:
            self.add(metrics.WORKSPACE_OUTAGES)

    def emit(self, function: str) -> None:
        """Write the recorded values at the end of an invocation; `function` is the Lambda function's name.

        One line per set of dimensions, because EMF gives all metrics of a line the same dimensions.
        """
        measured, self._measured = self._measured, []
        if self._cold:
            self._cold = False
            measured.append((metrics.COLD_STARTS, (), 1))
        lines: dict[tuple[tuple[str, str], ...], AmazonCloudWatchEMFProvider] = {}
        for metric, own, value in measured:
            line = lines.get(own)
            if line is None:
                dimensions = {metrics.FUNCTION: function, **dict(own)}
                # An empty service: otherwise powertools would add one from the environment as a dimension.
                line = AmazonCloudWatchEMFProvider(namespace=metrics.NAMESPACE, dimension_set=dimensions, service="")
                lines[own] = line
            line.add_metric(metric.name, metric.unit, value)
        for line in lines.values():
            if line.metric_set:  # empty if powertools already flushed it at a metric's hundredth value
                line.flush_metrics()
