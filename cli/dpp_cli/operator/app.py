"""The operator commands as one app: part of `dpp` on a machine, and all of the function `operate` on AWS."""

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
"""Command groups by name. They need a deployment's database, ledger, queues and buckets, and nothing of the machine."""


TOP = "top"
"""The only operator command that is not a group."""


def refusal(words: list[str]) -> str | None:
    """Return an error message if these words are not a command that runs on a deployment, else None."""
    if words and (words[0] in {*GROUPS, TOP, "--help"}):
        return None
    available = f"available commands: {', '.join([*GROUPS, TOP])}"
    return f"`{words[0]}` does not run on a deployment; {available}" if words else f"no command given; {available}"


def operator_app() -> typer.Typer:
    """Build an app with the operator commands only."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, help="Operate a deployment.")
    add_groups(app)
    return app


def add_groups(app: typer.Typer) -> None:
    """Add the operator commands to `app`."""
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    app.command(TOP)(command.top)
