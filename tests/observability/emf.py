"""Reads a function's metrics from stdout, as CloudWatch does, and checks them against the EMF specification.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpp.platform.observability.metrics import DIMENSIONS, FUNCTION, METRICS, NAMESPACE

_TABLE = {metric.name: metric for metric in METRICS}
_MAX_VALUES = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric of one line."""

    name: str
    dimensions: dict[str, str]
    values: list[float]

    @property
    def total(self) -> float:
        """The sum in CloudWatch."""
        return sum(self.values)


def measured(stdout: str) -> list[Measured]:
    """Every metric on stdout. Asserts that each line is valid EMF without other members and matches the table."""
    lines = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    return [one for line in lines if "_aws" in line for one in _of_line(line)]


def totals(stdout: str, name: str) -> dict[tuple[str, ...], float]:
    """The sums of one metric by the values of its own dimensions."""
    own = _TABLE[name].dimensions
    sums: dict[tuple[str, ...], float] = {}
    for one in measured(stdout):
        if one.name == name:
            key = tuple(one.dimensions[dimension] for dimension in own)
            sums[key] = sums.get(key, 0) + one.total
    return sums


def _of_line(line: dict[str, Any]) -> Iterator[Measured]:
    stated = line.pop("_aws")
    assert set(stated) == {"Timestamp", "CloudWatchMetrics"}
    assert abs(stated["Timestamp"] / 1000 - time.time()) < 600
    [directive] = stated["CloudWatchMetrics"]
    assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
    assert directive["Namespace"] == NAMESPACE
    [names] = directive["Dimensions"]
    dimensions = {name: line.pop(name) for name in names}
    assert set(dimensions) <= set(DIMENSIONS)
    assert all(isinstance(value, str) and value for value in dimensions.values())
    for definition in directive["Metrics"]:
        metric = _TABLE[definition["Name"]]
        assert definition == {"Name": metric.name, "Unit": metric.unit.value}
        assert set(dimensions) == {FUNCTION, *metric.dimensions}
        values = line.pop(metric.name)
        assert 1 <= len(values) <= _MAX_VALUES
        assert all(isinstance(value, float) for value in values)
        yield Measured(metric.name, dimensions, values)
    assert line == {}, "a member that is neither a metric nor a dimension"
