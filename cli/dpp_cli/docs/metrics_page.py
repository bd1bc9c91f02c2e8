"""Writes docs/metrics.md from dpp/platform/observability/metrics.py: `python -m dpp_cli.docs.metrics_page`."""

from pathlib import Path

from dpp.platform.observability.metrics import DIMENSIONS, FUNCTION, METRICS, NAMESPACE, Metric

PATH = Path(__file__).parents[3] / "docs" / "metrics.md"

_HEAD = f"""# Metrics

The functions' metrics in the CloudWatch namespace `{NAMESPACE}`. Generated from
`dpp/platform/observability/metrics.py`. They are written to the functions' logs (embedded metric format), so
no request is made and nothing waits for them. A killed function loses its metrics; rows and ledger lose
nothing; `dpp ledger check` shows the truth.

Every metric has the dimension `{FUNCTION}`. Sum over functions for a total: a run's end is counted by the function that
committed it: worker, reaper, sweeper, reconcile, or a submit that could not be queued. Amounts are in
millionths of a US dollar. Metrics with an alarm are emitted at every tick, also as zero; [runbook.md](runbook.md) says
what to do.

| metric | unit | dimensions | meaning | alarm |
|---|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    lines = [_row(metric) for metric in METRICS]
    lines += ["", "| dimension | values |", "|---|---|"]
    lines += [f"| {name} | {values} |" for name, values in DIMENSIONS.items()]
    return _HEAD + "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    dimensions = ", ".join((FUNCTION, *metric.dimensions))
    alarms = ", ".join(f"[{name}](runbook.md#{name})" for name in metric.alarms)
    return f"| {metric.name} | {metric.unit.value} | {dimensions} | {metric.meaning} | {alarms} |"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
