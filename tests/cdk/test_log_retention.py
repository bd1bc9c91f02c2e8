"""LIFE-9: CloudWatch keeps the platform's logs for `logs_days`; evidence has its own period."""

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.lifecycle.retention.periods import Retention
from tests.cdk.conftest import Describe
from tests.cdk.template import Assembly

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

EVIDENCE = ("AccessLog", "Refused")


def kept(assembly: Assembly) -> tuple[set[int], set[int]]:
    """The retention in days of the platform's log groups, and of those of evidence."""
    groups = assembly.whole.all("AWS::Logs::LogGroup")
    evidence = {name for name in groups if any(one in name for one in EVIDENCE)}
    assert len(evidence) == len(EVIDENCE)
    days = {name: group["RetentionInDays"] for name, group in groups.items()}
    return {days[name] for name in groups.keys() - evidence}, {days[name] for name in evidence}


def test_logs_are_kept_for_a_week_by_default(prod: Assembly, dev: Assembly) -> None:
    for size in (prod, dev):
        assert kept(size) == ({Retention().logs_days}, {90}) == ({7}, {90})


def test_the_option_changes_the_platforms_logs_but_not_evidence(deployment: "Deployment", described: Describe) -> None:
    variables = {"DPP_RETENTION": '{"logs_days": 31}'}
    assert kept(described(dataclasses.replace(deployment, variables=variables))) == ({60}, {90})


@pytest.mark.parametrize(("days", "taken"), [(1, 1), (2, 3), (7, 7), (8, 14), (31, 60), (401, 545), (3_650, 3_653)])
def test_an_unsupported_period_becomes_the_next_longer_one(node: None, days: int, taken: int) -> None:
    from dpp_cdk.functions.log_retention import days_kept

    assert days_kept(days) == taken


@given(st.integers(1, 3_650))
def test_logs_are_kept_at_least_as_long_as_configured_and_little_longer(node: None, days: int) -> None:
    from dpp_cdk.functions.log_retention import PERIODS, days_kept

    assert days_kept(days) in PERIODS
    assert not [period for period in PERIODS if days <= period < days_kept(days)]


def test_a_period_beyond_cloudwatchs_longest_is_refused(node: None) -> None:
    from dpp_cdk.functions.log_retention import days_kept

    with pytest.raises(ValueError, match="logs_days is 3654; CloudWatch keeps logs for at most 3653 days"):
        days_kept(3_654)


def test_every_period_appears_in_the_template_in_days(node: None) -> None:
    from aws_cdk import App, Stack
    from aws_cdk import aws_logs as logs
    from aws_cdk.assertions import Template

    from dpp_cdk.functions.log_retention import PERIODS

    stack = Stack(App())
    for days, period in PERIODS.items():
        logs.LogGroup(stack, f"Kept{days}", retention=period)
    groups = Template.from_stack(stack).find_resources("AWS::Logs::LogGroup").items()
    for name, group in groups:
        assert name.removeprefix("Kept")[:-8] == str(group["Properties"]["RetentionInDays"])
    assert len(groups) == len(PERIODS) == 22
