"""Operator commands: policies by which the system decides about authentication errors (AUTH-11)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from dpp.auth_errors import store
from dpp.auth_errors.decisions.policies import PoliciesRefused, Policy, When, as_data, read_policies
from dpp.auth_errors.decisions.replay import Replayed, replay
from dpp.platform.http.fields import Reason
from dpp.platform.strict_json import JsonRefused, parse
from dpp_cli.errors import StackError
from dpp_cli.operator.output import faults, moment, print_note, print_rows, print_values
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows

policy_app = typer.Typer(
    no_args_is_help=True, help="Policies decide without an operator. The first policy that matches decides."
)
_REASON: TypeAdapter[str] = TypeAdapter(Reason)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A file with a JSON array of policies (docs/auth-errors.md), or on a deployment the array itself.",
    ),
]


@policy_app.command("show")
def show(
    version: Annotated[
        int | None, typer.Option(min=1, help="An earlier version; default: the active one.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON array that `set` accepts.")] = False,
) -> None:
    """Show the policies in the order of evaluation, and who set them."""
    with connected_rows(RowSettings) as (connection, settings):
        found = store.policy_set(connection, version)
    if found is None:
        if version is not None:
            raise StackError(f"policy version {version} does not exist")
        if as_json:
            typer.echo("[]")
        print_note("no policies were ever set; only operators decide")
        return
    if as_json:
        typer.echo(json.dumps(found.policies, ensure_ascii=False, indent=2))
        return
    values = {
        "version": str(found.version),
        "set by": f"{found.actor}, {moment(found.created_at, settings.zone)}",
        "reason": found.reason,
    }
    print_values(values)
    _print_policies(_read(found.policies))


@policy_app.command("check")
def check(file: File) -> None:
    """Validate policies and report every error, without any deployment."""
    found = _read(_data(file))
    typer.echo(f"{_count(found)}, no errors")


@policy_app.command("set")
def set_policies(
    file: File,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded with the version.")],
    who: Who = None,
) -> None:
    """Activate these policies as a new version; older versions stay on record.

    Safe to repeat: policies that are already active are not set again.
    """
    asked_by = actor(who)
    found = _read(_data(file))
    try:
        checked_reason = _REASON.validate_python(reason)
    except ValidationError as error:
        raise StackError(faults(error, "--reason")) from None
    data = as_data(found)
    with connected_rows(RowSettings) as (connection, _):
        kept = store.latest_policies(connection)
        if kept is not None and kept[1] == data:
            typer.echo(f"version {kept[0]} with the same policies is already active")
            return
        version = store.insert_policies(connection, data, asked_by, checked_reason)
    typer.echo(f"version {version} is active: {_count(found)}")


@policy_app.command("replay")
def replay_decisions(
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Replay at most this many decisions, newest first.")
    ] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Replay decisions of policies from their stored inputs and policy version; changes nothing.

    Exit code 1 if a replayed decision differs.
    """
    with connected_rows(RowSettings) as (connection, _):
        found = list(replay(connection, limit))
    differing = [one for one in found if one.differs]
    if as_json:
        typer.echo(json.dumps({"replayed": len(found), "differing": [_fields(one) for one in differing]}))
    else:
        if differing:
            _print_differing(differing)
        decisions = "1 decision" if len(found) == 1 else f"{len(found)} decisions"
        typer.echo(f"{decisions} replayed: {len(differing) or 'none'} differ")
    if differing:
        raise typer.Exit(1)


def _data(file: str) -> Any:
    """Parse the file, or the argument itself if it is a JSON array. Raises StackError."""
    try:
        text: str | bytes = file if file.lstrip().startswith("[") else Path(file).read_bytes()
        return parse(text)
    except OSError as error:
        raise StackError(f"can't read {file}: {error.strerror}") from None
    except JsonRefused as refused:
        raise StackError(f"invalid policies: {refused}") from None


def _read(data: object) -> tuple[Policy, ...]:
    try:
        return read_policies(data)
    except PoliciesRefused as refused:
        raise StackError(f"invalid policies:\n{refused}") from None


def _print_policies(found: Sequence[Policy]) -> None:
    if not found:
        print_note("no policies; only operators decide")
        return
    rows = (
        (str(number), one.name, _conditions(one.when), one.decide, one.reason) for number, one in enumerate(found, 1)
    )
    print_rows(("", "policy", "when", "decision", "reason"), rows, whole=("", "decision"))


def _conditions(when: When) -> str:
    """Format a policy's conditions in words."""
    seen = when.seen
    parts = (
        when.exception_class and f"class is {_either(when.exception_class)}",
        when.http_status and f"status is {_either(when.http_status)}",
        when.service and f"service is {_either(when.service)}",
        seen and f"{seen.at_least} or more within {seen.within_minutes} min",
        when.deployed_within_minutes and f"deployed within {when.deployed_within_minutes} min",
        when.cluster_younger_than_minutes and f"cluster younger than {when.cluster_younger_than_minutes} min",
        when.not_escalated_within_minutes and f"not escalated within {when.not_escalated_within_minutes} min",
    )
    return ", ".join(part for part in parts if part) or "always"


def _either(values: Sequence[object]) -> str:
    return " or ".join(map(str, values))


def _print_differing(differing: Sequence[Replayed]) -> None:
    rows = (
        (
            *(str(one.decision_id), str(one.version), " by ".join(reversed(one.stored))),
            one.failure or (" by ".join(reversed(one.replayed)) if one.replayed else "none"),
        )
        for one in differing
    )
    print_rows(("decision", "version", "was", "would be"), rows, whole=("decision",))


def _fields(one: Replayed) -> dict[str, object]:
    return {
        "decisionId": str(one.decision_id),
        "policyVersion": one.version,
        "kept": _decided(one.stored),
        "now": None if one.replayed is None else _decided(one.replayed),
        "fault": one.failure,
    }


def _decided(found: tuple[str, str]) -> dict[str, str]:
    return {"policyName": found[0], "decisionType": found[1]}


def _count(found: Sequence[Policy]) -> str:
    return "1 policy" if len(found) == 1 else f"{len(found)} policies"
