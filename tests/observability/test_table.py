"""The table of metrics, and the page generated from it."""

import re
from typing import Any

import pytest

from dpp.packs.contract import PackReason
from dpp.platform.observability import metrics
from dpp.platform.observability.invocation import InvocationFailed, invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import DIMENSIONS, FUNCTION, METRICS, Metric
from dpp.runs import endings
from dpp.runs.machine import Reason
from dpp_cli.docs import metrics_page
from tests.observability.emf import measured, totals
from tests.support.api import lambda_context


def test_the_metrics_page_is_up_to_date() -> None:
    """docs/metrics.md; generate it with `python -m dpp_cli.docs.metrics_page`."""
    assert metrics_page.PATH.read_text(encoding="utf-8") == metrics_page.render()


def test_the_table_has_every_metric_once() -> None:
    defined = [value for value in vars(metrics).values() if isinstance(value, Metric)]
    assert sorted(METRICS, key=lambda m: m.name) == sorted(defined, key=lambda m: m.name)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_without_a_unit_in_cloudwatch_has_it_in_its_name(metric: Metric) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]+", metric.name)
    assert metric.name.endswith("UsdMicros") == (metric.unit.value == "None")
    assert metric.meaning
    assert set(metric.dimensions) < set(DIMENSIONS) - {FUNCTION}


def test_every_dimension_is_used_and_none_is_a_tenant_or_a_run() -> None:
    assert set(DIMENSIONS) == {FUNCTION, *(name for metric in METRICS for name in metric.dimensions)}
    assert not [name for name in DIMENSIONS if re.search("tenant|run|trace|key", name, re.IGNORECASE)]


@pytest.mark.parametrize("code", [*PackReason, *Reason])
def test_every_reason_code_has_a_class(code: str) -> None:
    """A new reason code is classified by hand, not by default."""
    assert code in endings._CLASSES


def test_an_unclassified_reason_counts_as_the_platforms() -> None:
    assert endings.reason_class("NEW_REASON") == endings.ReasonClass.PLATFORM
    assert endings.reason_class(None) == endings.ReasonClass.NONE


def test_metrics_are_emitted_however_the_handler_ends(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter()

    @invocation(service_logger("test"), meter)
    def handler(event: dict[str, Any], _context: object) -> object:
        meter.add(metrics.MESSAGES, Outcome="SKIPPED")
        return event["answer"]

    assert handler({"answer": 1}, lambda_context()) == 1
    with pytest.raises(InvocationFailed, match=r"^builtins\.KeyError$"):
        handler({}, lambda_context())
    assert totals(capsys.readouterr().out, "Messages") == {("SKIPPED",): 2}


def test_a_container_has_one_cold_start(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter()
    for _ in range(3):
        meter.emit("test")
    assert totals(capsys.readouterr().out, "ColdStarts") == {(): 1}


def test_no_value_is_lost_beyond_the_limit_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """EMF allows 100 values per metric and line."""
    meter = Meter()
    for value in range(250):
        meter.add(metrics.SETTLED_USD_MICROS, value)
        meter.add(metrics.RUNS_ENDED, Outcome="COMPLETED", Reason="NONE")
    meter.emit("test")
    out = capsys.readouterr().out
    assert totals(out, "SettledUsdMicros") == {(): sum(range(250))}
    assert totals(out, "RunsEnded") == {("COMPLETED", "NONE"): 250}


def test_the_environment_changes_neither_dimensions_nor_namespace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "other")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Other")
    Meter().emit("test")
    [one] = measured(capsys.readouterr().out)
    assert one.dimensions == {FUNCTION: "test"}


def test_unknown_dimensions_are_refused() -> None:
    wrong: list[dict[str, str]] = [{}, {"Outcome": "ENDED", "Tenant": "t_1"}, {"Scan": "orphans"}]
    for dimensions in wrong:
        with pytest.raises(ValueError, match="has the dimensions"):
            Meter().add(metrics.MESSAGES, 1, **dimensions)
