"""`dpp deploy` and its kin: what the CDK is asked, and that a forgotten variable sends nobody to the wrong place."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpp_cli.deploy import commands
from dpp_cli.deploy.commands import Described, Invocation, deploy_words, invocation, outputs_file
from dpp_cli.deploy.toolchain import node_folder
from dpp_cli.errors import StackError
from dpp_cli.main import app
from dpp_cli.paths import BUILD, ROOT


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """The command that the process would have become, with the layers taken as built."""
    became: list[Invocation] = []

    def recorded(made: Invocation) -> None:
        became.append(made)

    monkeypatch.setattr(Invocation, "replace_this_process", recorded)
    monkeypatch.setattr(commands, "build_layers", lambda _architecture: None)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    return became


def words_of(asked: list[Invocation], *typed: str) -> list[str]:
    """Return the CDK's arguments for these words of `dpp`."""
    result = CliRunner().invoke(app, list(typed))
    assert result.exit_code == 0, result.output
    (one,) = asked
    return list(one.command[2:])  # after node and the CDK


def test_deploy_asks_for_every_stack_of_the_deployment_on_arm(asked: list[Invocation]) -> None:
    assert words_of(asked, "deploy", "--size", "prod", "-c", "alarm_email=ops@example.com") == [
        *("deploy", "--all", "--require-approval", "broadening"),
        *("--outputs-file", ".dpp/build/outputs-prod.json"),
        *("-c", "size=prod", "-c", "stage=prod", "-c", "architecture=aarch64"),
        *("-c", "alarm_email=ops@example.com", "--no-notices"),
    ]


def test_diff_and_destroy_mean_the_deployment_that_deploy_made(asked: list[Invocation]) -> None:
    options = ["--size", "dev", "--stage", "mine", "--architecture", "x86_64"]
    context = ["-c", "size=dev", "-c", "stage=mine", "-c", "architecture=x86_64"]
    assert words_of(asked, "diff", *options) == ["diff", *context, "--no-notices"]
    asked.clear()
    assert words_of(asked, "destroy", *options) == ["destroy", "--all", *context, "--no-notices"]
    asked.clear()
    assert "--force" in words_of(asked, "destroy", *options, "--yes")


def test_any_other_command_of_the_cdk_is_handed_on_with_its_options(asked: list[Invocation]) -> None:
    typed = ("cdk", "bootstrap", "--qualifier", "mine", "-c", "size=prod")
    assert words_of(asked, *typed) == [*typed[1:], "-c", "architecture=aarch64", "--no-notices"]


def test_only_who_says_so_is_asked_nothing() -> None:
    described = Described("dev", None, "aarch64", [])
    assert "broadening" in deploy_words(described, yes=False)
    assert "never" in deploy_words(described, yes=True)


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        (["--size", "huge"], "--size huge: choose one of dev, prod"),
        (["--architecture", "mips"], "--architecture mips"),
        (["-c", "alarm_email"], "-c alarm_email: not name=value"),
        (["-c", "=x"], "-c =x: not name=value"),
        (["-c", "size=prod"], "give it as --size"),
        (["-c", "stage=x"], "give it as --stage"),
        (["-c", "architecture=x86_64"], "give it as --architecture"),
    ],
)
@pytest.mark.parametrize("command", ["deploy", "diff", "destroy"])
def test_a_wrong_value_is_refused_before_anything_is_built(
    asked: list[Invocation], command: str, typed: list[str], printed: str
) -> None:
    result = CliRunner().invoke(app, [command, *typed])
    assert isinstance(result.exception, StackError)
    assert printed in str(result.exception)
    assert not asked


def test_servers_of_a_local_stack_are_never_deployed_to_aws() -> None:
    """With them the app would describe a deployment without network, whose passwords stand in the clear."""
    given = {"DATABASE_URL": "postgresql://x", "REDIS_URL": "redis://x", "AWS_PROFILE": "live", "PATH": "/bin"}
    built: list[str] = []
    made = invocation(["diff"], "aarch64", given, build=built.append)
    assert built == ["aarch64"]
    assert made.environment["AWS_PROFILE"] == "live"
    assert not {"DATABASE_URL", "REDIS_URL"} & set(made.environment)
    assert made.environment["PATH"].split(os.pathsep)[0] == str(node_folder())


def test_localstack_is_not_taken_for_an_account() -> None:
    with pytest.raises(StackError, match="no AWS account"):
        invocation(
            ["diff"],
            "aarch64",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
            build=lambda _architecture: pytest.fail("built"),
        )


def test_outputs_are_left_where_git_ignores_them() -> None:
    assert (ROOT / outputs_file("prod")).parent == BUILD
    assert ".dpp" in (ROOT / ".gitignore").read_text(encoding="utf-8")


def test_the_command_becomes_the_pinned_cdk() -> None:
    """Its exit code and its output are ours."""
    pinned = re.search(r'"aws-cdk": "([\d.]+)"', (ROOT / "cdk" / "package.json").read_text(encoding="utf-8"))
    assert pinned
    made = invocation(["--version"], "aarch64", os.environ, build=lambda _architecture: None)
    done = subprocess.run(made.command, env=dict(made.environment), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(pinned[1])


def test_who_types_cdk_in_a_checkout_where_nothing_is_installed_is_reported_what_to_do(tmp_path: Path) -> None:
    """`cdk deploy` by hand finds cdk.json at the top of the repository."""
    (tmp_path / "cdk.json").write_text((ROOT / "cdk.json").read_text(encoding="utf-8"), encoding="utf-8")
    made = invocation(["list"], "aarch64", os.environ, build=lambda _architecture: None)
    done = subprocess.run(
        made.command, cwd=tmp_path, env=dict(made.environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "run make bootstrap" in done.stderr
