"""The stacks of one deployment: network, data, app, observability; each depends only on the ones before it."""

from dataclasses import dataclass

from aws_cdk import App, Tags

from dpp_cdk.settings.config import Deployment
from dpp_cdk.stacks.app import DppStack
from dpp_cdk.stacks.data import DataStack
from dpp_cdk.stacks.network import NetworkStack
from dpp_cdk.stacks.observability import ObservabilityStack


@dataclass(frozen=True)
class Stacks:
    """The stacks; `network` is None if the servers are given by URL."""

    network: NetworkStack | None
    data: DataStack
    app: DppStack
    observability: ObservabilityStack


def describe(app: App, deployment: Deployment) -> Stacks:
    """Add the stacks `Dpp-<stage>-…` to `app`. Raises DeploymentError."""
    prefix = f"Dpp-{deployment.stage}"
    network = (
        None
        if deployment.given_servers
        else NetworkStack(app, f"{prefix}-network", deployment, workspaces=deployment.has_workspaces)
    )
    data = DataStack(app, f"{prefix}-data", deployment, network)
    platform = DppStack(app, f"{prefix}-app", deployment, data, network)
    observability = ObservabilityStack(app, f"{prefix}-observability", deployment, data)
    for name, value in (("project", "dpp"), ("stage", deployment.stage)):
        # CloudFormation's schema has no tags for this type, but the CDK would add them.
        Tags.of(app).add(name, value, exclude_resource_types=["AWS::RDS::DBProxyTargetGroup"])
    return Stacks(network, data, platform, observability)
