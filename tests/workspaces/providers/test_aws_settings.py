"""Settings of the provider on AWS (WS-9)."""

import itertools
from typing import ClassVar

import pytest

from dpp.platform.config import ConfigurationError
from dpp.workspaces.providers.aws_settings import FARGATE_SIZES, AwsWorkspaceSettings
from tests.workspaces.providers.aws_account import ROLE


class TestSettings:
    GIVEN: ClassVar = {
        "DPP_WORKSPACE_ECS_CLUSTER": "homes",
        "DPP_WORKSPACE_EFS_ID": "fs-0a",
        "DPP_WORKSPACE_IMAGE": "homes:1",
        "DPP_WORKSPACE_SUBNETS": "subnet-0a, subnet-0b",
        "DPP_WORKSPACE_SECURITY_GROUP": "sg-0a",
        "DPP_WORKSPACE_TASK_ROLE_ARN": f"{ROLE}task",
        "DPP_WORKSPACE_EXECUTION_ROLE_ARN": f"{ROLE}execution",
        "DPP_WORKSPACE_LOG_GROUP": "workspaces",
    }

    def test_subnets_are_comma_separated(self) -> None:
        assert AwsWorkspaceSettings.load(self.GIVEN).subnets == ("subnet-0a", "subnet-0b")

    def test_every_fargate_size_is_accepted(self) -> None:
        sizes = [(cpu, mib) for cpu, fitting in FARGATE_SIZES.items() for mib in fitting]
        for cpu, mib in sizes:
            given = {"DPP_WORKSPACE_CPU": str(cpu), "DPP_WORKSPACE_MEMORY_MIB": str(mib)}
            assert AwsWorkspaceSettings.load(self.GIVEN | given).cpu == cpu
        assert len(set(sizes)) == len(list(itertools.chain(*FARGATE_SIZES.values())))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("DPP_WORKSPACE_CPU", "1000"),
            ("DPP_WORKSPACE_MEMORY_MIB", "3000"),
            ("DPP_WORKSPACE_MEMORY_MIB", "16384"),
            ("DPP_WORKSPACE_IMAGE", "  "),
            ("DPP_WORKSPACE_SUBNETS", "subnet-0a,,"),
            ("DPP_WORKSPACE_SUBNETS", ","),
            ("DPP_WORKSPACE_UID", "0"),
            ("DPP_WORKSPACE_HOME", "/"),
            ("DPP_WORKSPACE_TASK_ROLE_ARN", "task"),
        ],
    )
    def test_invalid_value_fails_with_its_name(self, name: str, value: str) -> None:
        with pytest.raises(ConfigurationError, match=name):
            AwsWorkspaceSettings.load(self.GIVEN | {name: value})
