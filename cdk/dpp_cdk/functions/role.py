"""The role of one function: written out, so that nothing comes with a managed policy that nobody asked for."""

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp_cdk.nag import acknowledge

_COLON = ArnFormat.COLON_RESOURCE_NAME
_INTERFACE_ACTIONS = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]
"""What Lambda itself needs of the role to attach a function to a VPC (Lambda guide, "Required IAM permissions")."""


class FunctionRole(Construct):
    """May write to the function's own log group, and what `function.py` adds to it."""

    def __init__(
        self, scope: Construct, id: str, *, function_name: str, log_group: logs.ILogGroup, in_network: bool
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Execution role of {function_name}",
        )
        # Not CreateLogGroup: the group is there, with its retention; one made by Lambda would keep for ever.
        self.allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
        if in_network:
            self._join_network(function_name)

    def allow(self, actions: list[str], *resource_arns: str) -> None:
        """Permit exactly these actions on exactly these resources."""
        self.role.add_to_principal_policy(iam.PolicyStatement(actions=actions, resources=list(resource_arns)))

    def permit(self, *statements: iam.PolicyStatement) -> None:
        """Permit what these say, for what a condition narrows."""
        for statement in statements:
            self.role.add_to_principal_policy(statement)

    def _join_network(self, function_name: str) -> None:
        """Lambda makes the network interfaces with the function's role, on resources that have no names before.

        The function's own code may not: what it calls carries its ARN as `lambda:SourceFunctionArn`, and is
        denied (Lambda guide, "Using IAM condition keys for VPC settings").
        """
        self.role.add_to_principal_policy(
            iam.PolicyStatement(sid="LambdaAttachesToTheNetwork", actions=_INTERFACE_ACTIONS, resources=["*"])
        )
        function_arn = Stack.of(self).format_arn(
            service="lambda", resource="function", resource_name=function_name, arn_format=_COLON
        )
        self.role.add_to_principal_policy(
            iam.PolicyStatement(
                sid="TheCodeDoesNot",
                effect=iam.Effect.DENY,
                actions=_INTERFACE_ACTIONS,
                resources=["*"],
                # An alias or a version stands behind the name.
                conditions={"ArnLike": {"lambda:SourceFunctionArn": [function_arn, f"{function_arn}:*"]}},
            )
        )
        self.acknowledge(
            "IAM5[Resource::*]",
            "Lambda makes the interfaces of a function in a VPC by its role, before they have names; the function's own"
            " code is denied the same actions",
        )

    def acknowledge(self, rule: str, reason: str) -> None:
        """Say of this role's policy why a rule of cdk-nag does not hold for it."""
        acknowledge(self.role.node.find_child("DefaultPolicy"), rule, reason)
