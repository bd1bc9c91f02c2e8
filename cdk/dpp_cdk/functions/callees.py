"""The functions that other functions call, named instead of referenced: two that call each other would be a cycle."""

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, Stack

from dpp_cdk.functions import table
from dpp_cdk.functions.spec import FunctionSpec, Resource
from dpp_cdk.settings.config import Deployment

_CALLED: Mapping[Resource, tuple[str, FunctionSpec]] = {
    Resource.PACK_OUTSIDE: ("DPP_PACK_OUTSIDE_FUNCTION", table.PACK_OUTSIDE),
    Resource.LIFECYCLE_OUTSIDE: ("DPP_LIFECYCLE_OUTSIDE_FUNCTION", table.LIFECYCLE_OUTSIDE),
    Resource.KING: ("DPP_LIFECYCLE_KING_FUNCTION", table.LIFECYCLE_KING),
    Resource.GENERAL: ("DPP_LIFECYCLE_GENERAL_FUNCTION", table.LIFECYCLE_GENERAL),
    Resource.ENVOY: ("DPP_LIFECYCLE_ENVOY_FUNCTION", table.LIFECYCLE_ENVOY),
}
"""Each callee with the variable that names it to its callers."""


class Callees:
    """The callees that a deployment has, as variables and as resources of grants."""

    def __init__(self, stack: Stack, deployment: Deployment) -> None:
        self._stack = stack
        self._names = {
            resource: spec.callable_name(deployment.stage, gradual=deployment.size.gradual)
            for resource, (_, spec) in _CALLED.items()
            if spec.is_of(deployment.parts)
        }

    @property
    def variables(self) -> Mapping[str, str]:
        """The callees' names by environment variable."""
        return {_CALLED[resource][0]: name for resource, name in self._names.items()}

    @property
    def resource_arns(self) -> Mapping[Resource, Sequence[str]]:
        """The ARNs that grants may name; none for a callee that the deployment lacks."""
        return {resource: self._arns(resource) for resource in _CALLED}

    def _arns(self, resource: Resource) -> Sequence[str]:
        if resource not in self._names:
            return []
        return [
            self._stack.format_arn(
                service="lambda",
                resource="function",
                resource_name=self._names[resource],
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
        ]
