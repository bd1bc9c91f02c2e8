"""`dpp deploy`, `diff`, `destroy` and `cdk`: the pinned CDK command line over the project's app, for an AWS account.

The layers are built first; arguments are passed on unchanged, and the CDK asks its questions interactively.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from dpp_cli.deploy.cdk import SIZES, build_layers
from dpp_cli.deploy.toolchain import cdk_command, with_node
from dpp_cli.errors import StackError
from dpp_cli.layers.packages import ARCHITECTURES
from dpp_cli.paths import BUILD, ROOT

ARCHITECTURE = "aarch64"
"""Architecture of the functions on AWS; a fifth cheaper than x86_64 (docs/deploy.md)."""

_LOCAL = ("DATABASE_URL", "REDIS_URL")

Size = Annotated[str, typer.Option(help="dev costs little and can be torn down, prod keeps its data.")]
Stage = Annotated[
    str | None, typer.Option(help="The deployment's name, part of every resource name; default: the size.")
]
Context = Annotated[
    list[str] | None, typer.Option("-c", "--context", help="name=value, listed in cdk/app.py; may be repeated.")
]
Architecture = Annotated[str, typer.Option(help="aarch64 or x86_64, of functions and layers.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing.")]


@dataclass(frozen=True)
class Invocation:
    """One CDK command line."""

    command: Sequence[str]
    environment: Mapping[str, str]

    def replace_this_process(self) -> None:
        """Replace this process with the CDK, which then handles Ctrl-C and sets the exit code. Does not return."""
        os.chdir(ROOT)  # where cdk.json is
        os.execve(self.command[0], list(self.command), dict(self.environment))  # noqa: S606 - no shell is what is meant


@dataclass(frozen=True)
class Described:
    """The chosen deployment. Raises StackError for a wrong value before anything is built."""

    size: str
    stage: str | None
    architecture: str
    context: Sequence[str]

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise StackError(f"--size {self.size}: choose one of {', '.join(SIZES)}")
        if self.architecture not in ARCHITECTURES.values():
            raise StackError(f"--architecture {self.architecture}: choose aarch64 or x86_64")
        for pair in self.context:
            name, equals, _ = pair.partition("=")
            if not name or not equals:
                raise StackError(f"-c {pair}: not name=value")
            if name in ("size", "stage", "architecture"):
                raise StackError(f"-c {pair}: give it as --{name}")

    @property
    def name(self) -> str:
        """The stage."""
        return self.stage or self.size

    def options(self) -> list[str]:
        """Return the CDK context arguments."""
        pairs = [f"size={self.size}", f"stage={self.name}", f"architecture={self.architecture}", *self.context]
        return [word for pair in pairs for word in ("-c", pair)]


def invocation(
    words: Sequence[str], architecture: str, environ: Mapping[str, str], *, build: Callable[[str], object]
) -> Invocation:
    """Build the layers and return the CDK command line. Raises StackError, ToolError.

    Servers that the environment names are those of a local stack, or an operator's tunnel: with them the app would
    describe a deployment without a network, so they are left out.
    """
    if endpoint := environ.get("AWS_ENDPOINT_URL"):
        raise StackError(f"AWS_ENDPOINT_URL is set ({endpoint}): that is no AWS account; see `dpp local up`")
    build(architecture)
    kept = {name: value for name, value in environ.items() if name not in _LOCAL}
    environment = {**with_node(kept), "CDK_DISABLE_CLI_TELEMETRY": "true"}
    return Invocation([*cdk_command(), *words, "--no-notices"], environment)


def outputs_file(stage: str) -> str:
    """The file in the checkout to which `dpp deploy` writes the stacks' outputs."""
    return str((BUILD / f"outputs-{stage}.json").relative_to(ROOT))


def deploy_words(described: Described, *, yes: bool) -> list[str]:
    """Return the words for `cdk deploy` of all stacks."""
    approval = "never" if yes else "broadening"
    options = ["--require-approval", approval, "--outputs-file", outputs_file(described.name)]
    return ["deploy", "--all", *options, *described.options()]


def deploy(
    size: Size = "dev",
    stage: Stage = None,
    architecture: Architecture = ARCHITECTURE,
    context: Context = None,
    yes: Yes = False,
) -> None:
    """Deploy to the AWS account of the environment (docs/deploy.md). Asks before it widens permissions."""
    described = Described(size, stage, architecture, context or [])
    _become(deploy_words(described, yes=yes), architecture)


def diff(
    size: Size = "dev", stage: Stage = None, architecture: Architecture = ARCHITECTURE, context: Context = None
) -> None:
    """Show the changes that `deploy` with the same options would make."""
    _become(["diff", *Described(size, stage, architecture, context or []).options()], architecture)


def destroy(
    size: Size = "dev",
    stage: Stage = None,
    architecture: Architecture = ARCHITECTURE,
    context: Context = None,
    yes: Yes = False,
) -> None:
    """Delete a deployment, observability first and network last. Stacks that keep data refuse (docs/deploy.md)."""
    described = Described(size, stage, architecture, context or [])
    _become(["destroy", "--all", *(["--force"] if yes else []), *described.options()], architecture)


def cdk(
    words: Annotated[list[str], typer.Argument(help="bootstrap, list, drift, …, with their options.")],
    architecture: Architecture = ARCHITECTURE,
) -> None:
    """Run any other command of the pinned CDK command line, with the layers built."""
    _become([*words, "-c", f"architecture={architecture}"], architecture)


def _become(words: Sequence[str], architecture: str) -> None:
    invocation(words, architecture, os.environ, build=build_layers).replace_this_process()
