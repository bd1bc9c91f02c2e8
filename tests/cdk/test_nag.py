"""cdk-nag (AwsSolutions): every finding in either size is acknowledged, each for one resource."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cdk.template import Assembly

EVERYWHERE = {"APIG2", "APIG3", "APIG4", "APIG6", "COG4", "L1", "RDS11", "SMG4", "SQS3"}
ROLES = {
    "IAM5[Resource::*]",
    "IAM5[Resource::…/dpp/*]",
    "IAM5[Resource::…/inputs/*]",
    "IAM5[Resource::…/reports/ops/tickets/reaper/*]",
    # Of workspaces: archives, access points, services and tasks, which are created with each workspace.
    "IAM5[Resource::…/*]",
    "IAM5[Resource::…/dpp-SIZE-workspaces/*]",
    "IAM5[Resource::…/dpp-SIZE-workspaces/ws-*]",
    "IAM4[Policy::…/AmazonAPIGatewayPushToCloudWatchLogs]",
}
ANSWERED = {
    "prod": EVERYWHERE | ROLES | {"IAM4[Policy::…/AWSCodeDeployRoleForLambdaLimited]"},
    "dev": EVERYWHERE | ROLES | {"RDS3", "RDS10", "AEC4"},
}


def nag(assembly: Assembly) -> Any:
    reports = json.loads(assembly.report.read_text())["pluginReports"]
    (own,) = (report for report in reports if report["pluginName"] == "AwsSolutions")
    return own


@pytest.mark.parametrize("size", ANSWERED)
def test_every_finding_is_acknowledged_and_every_acknowledgement_is_used(
    size: str, request: pytest.FixtureRequest
) -> None:
    report = nag(request.getfixturevalue(size))
    assert (report["conclusion"], report["violations"]) == ("success", [])
    rules = {
        _short(finding["ruleName"]).replace(f"dpp-{size}-", "dpp-SIZE-") for finding in report["suppressedViolations"]
    }
    assert rules == ANSWERED[size]


def _short(rule: str) -> str:
    """A finding without generated names."""
    rule = rule.removeprefix("AwsSolutions-")
    if rule.startswith("IAM5[Resource::") and "/" in rule:
        return f"IAM5[Resource::…/{'/'.join(rule.split(':')[-1].split('/')[1:])}"
    return f"IAM4[Policy::…/{rule.rpartition('/')[2]}" if rule.startswith("IAM4") else rule


def test_an_unacknowledged_finding_fails_the_synthesis(node: None, tmp_path: Path) -> None:
    """The check can fail."""
    from aws_cdk import App, Stack
    from aws_cdk import aws_s3 as s3

    from dpp_cdk.nag import acknowledge, check

    app = App(outdir=str(tmp_path))
    bucket = s3.Bucket(Stack(app, "Careless"), "Bucket")
    check(app)
    acknowledge(bucket, "S1", "one of two findings")
    with pytest.raises(RuntimeError, match=r"ValidationFailed: .*SSL"):
        app.synth()
    (report,) = (
        r
        for r in json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
        if r["pluginName"] == "AwsSolutions"
    )
    assert {finding["ruleName"] for finding in report["violations"]} == {"AwsSolutions-S10"}
