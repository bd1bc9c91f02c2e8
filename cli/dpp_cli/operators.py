"""The operator commands as one app: what `dpp` has on a machine, and all that the function `operate` has on AWS."""

import typer

from dpp_cli import (
    auth_errors,
    dispute,
    dlq,
    ledger,
    lifecycle,
    operate,
    operator_keys,
    ops,
    reaper,
    top,
    workspaces,
)

GROUPS = {
    "tenant": operate.tenant_app,
    "key": operate.key_app,
    "ledger": ledger.ledger_app,
    "dlq": dlq.dlq_app,
    "dispute": dispute.dispute_app,
    "operator": operator_keys.operator_app,
    "tickets": reaper.tickets_app,
    "ops": ops.ops_app,
    "auth-errors": auth_errors.auth_errors_app,
    "workspaces": workspaces.workspaces_app,
    "lifecycle": lifecycle.lifecycle_app,
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
    app.command(TOP)(top.top)
