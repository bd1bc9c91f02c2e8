"""The operator commands as one app: what `dpp` has on a machine, and all that the function `operate` has on AWS."""

import typer

from dpp_cli.auth_errors.commands import auth_errors_app
from dpp_cli.lifecycle.commands import lifecycle_app
from dpp_cli.money.ledger import ledger_app
from dpp_cli.operator.keys import operator_app as operator_keys_app
from dpp_cli.operator.tenants import key_app, tenant_app
from dpp_cli.runs.dead_letters import dlq_app
from dpp_cli.runs.disputes import dispute_app
from dpp_cli.tickets.ops import ops_app
from dpp_cli.tickets.reaper import tickets_app
from dpp_cli.top import command
from dpp_cli.workspaces.commands import workspaces_app

GROUPS = {
    "tenant": tenant_app,
    "key": key_app,
    "ledger": ledger_app,
    "dlq": dlq_app,
    "dispute": dispute_app,
    "operator": operator_keys_app,
    "tickets": tickets_app,
    "ops": ops_app,
    "auth-errors": auth_errors_app,
    "workspaces": workspaces_app,
    "lifecycle": lifecycle_app,
}
"""By name. They need a deployment's database, ledger, queues and bucket, and nothing of the machine they run on."""


TOP = "top"
"""The one command that is no group."""


def refusal(words: list[str]) -> str | None:
    """Why these words are no command on a deployment, in a sentence; None for those that are, and for `--help`."""
    if words and (words[0] in {*GROUPS, TOP, "--help"}):
        return None
    there_are = f"there are {', '.join([*GROUPS, TOP])}"
    return f"on a deployment there is no `{words[0]}`: {there_are}" if words else f"no command: {there_are}"


def operator_app() -> typer.Typer:
    """The operator commands, and no other."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, help="Operate a deployment.")
    add_groups(app)
    return app


def add_groups(app: typer.Typer) -> None:
    """Give `app` the operator commands."""
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    app.command(TOP)(command.top)
