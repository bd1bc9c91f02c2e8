"""The `dpp` command. Errors that a user can act on end with one message and an exit code, mostly 1."""

import sys
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from dpp_cli import streams
from dpp_cli.deploy import cdk, commands
from dpp_cli.deploy.toolchain import ToolError
from dpp_cli.errors import StackError
from dpp_cli.layers import packages as layer_builds
from dpp_cli.local import commands as local_commands
from dpp_cli.local.demo import demo
from dpp_cli.local.servers import ServerError
from dpp_cli.operator.app import GROUPS, TOP, add_groups
from dpp_cli.operator.remote import StageGroup
from dpp_cli.runs.commands import run_app
from dpp_cli.top.remote import StageSnapshots

OUTPUT_LOST = 74
"""Exit code if standard output can't be written to (EX_IOERR of sysexits.h)."""

app = typer.Typer(
    cls=StageGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # a key may be among them
    help="Run and operate DPP.",
)
app.add_typer(local_commands.app, name="local")
app.add_typer(run_app, name="run")
add_groups(app)
app.command()(demo)
app.command()(commands.deploy)
app.command()(commands.diff)
app.command()(commands.destroy)
app.command(context_settings={"ignore_unknown_options": True})(commands.cdk)


@app.callback()
def options(
    context: typer.Context,
    stage: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Run {', '.join([*GROUPS, TOP])} on this deployment, through its function `operate`; "
            "`local` means the local stack. (`deploy`, `diff` and `destroy` have their own --stage.)",
        ),
    ] = None,
) -> None:
    """Keep the options given before the command, for `StageGroup` and `top`."""
    context.obj = None if stage is None else StageSnapshots(stage)


@app.command()
def layers(
    architecture: Annotated[str | None, typer.Option(help="x86_64 or aarch64; default: this machine's.")] = None,
) -> None:
    """Build the Lambda layers into .dpp/build/layers, unless they are up to date."""
    for folder in cdk.build_layers(architecture or layer_builds.machine_architecture()).values():
        typer.echo(f"{folder}  {layer_builds.size_bytes(folder) / 2**20:.1f} MB unpacked")


@app.command()
def synth(
    size: Annotated[str | None, typer.Option(help="dev or prod; default: both.")] = None,
    architecture: Annotated[str | None, typer.Option(help="x86_64 or aarch64; default: this machine's.")] = None,
) -> None:
    """Write the CloudFormation templates to .dpp/build/cdk.out and check them with cdk-nag. Needs no AWS account."""
    sizes = cdk.SIZES if size is None else (size,)
    for folder in cdk.synth(sizes, architecture or layer_builds.machine_architecture()):
        typer.echo(folder)


def run() -> None:
    """Entry point."""
    streams.guard()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except (StackError, ServerError, ToolError) as error:
        _print_error(str(error))
        if not isinstance(error, StackError):
            _print_note("\nSee `dpp local logs`. To start afresh: `dpp local down`, then `dpp local up`.")
        sys.exit(error.exit_code if isinstance(error, StackError) else 1)
    except streams.OutputLostError as error:
        streams.drop_output()
        _print_error(f"the output can't be written: {error}. {streams.hint()}".rstrip())
        sys.exit(OUTPUT_LOST)


def _print_error(message: str) -> None:
    console = Console(stderr=True)
    with suppress(OSError):  # standard error may be on the same full disk; the exit code remains
        console.print("[bold red]error:[/]", end=" ")
        console.print(message, markup=False, highlight=False, soft_wrap=True)


def _print_note(message: str) -> None:
    with suppress(OSError):
        Console(stderr=True).print(message, highlight=False)


if __name__ == "__main__":
    run()
