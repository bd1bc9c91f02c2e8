"""Operator commands: runs whose charge can't be proved (D3), implemented by `dpp.runs.operations.disputes`.

They use the database, the Redis and the results bucket that the environment names (all three), else the running local
stack.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

import typer

from dpp.money.micros import AmountError, format_usd, parse_usd
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import StorageSettings
from dpp.runs.operations import disputes
from dpp.runs.operations.disputes import DecisionRefused, Dispute, DisputeEffects, NotDisputed
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import BackendSettings, opened, reach
from dpp_cli.operator.tenants import as_sentences, console

dispute_app = typer.Typer(no_args_is_help=True, help="Runs whose charge the ledger can't prove.")


class _DisputeSettings(BackendSettings, StorageSettings):
    """Settings of the database, the ledger and the results bucket."""


@dispute_app.command("list")
def show(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show no more runs than this.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array, amounts in micros.")] = False,
) -> None:
    """List disputed runs with all evidence about their money."""
    with _effects() as effects:
        found = disputes.list_disputes(effects, limit)
    if as_json:
        typer.echo(json.dumps([_fields(one) for one in found]))
        return
    for one in found:
        _print(one)
    console.print(f"{len(found)} disputed runs" if found else "no disputed runs")


@dispute_app.command("settle")
def settle(
    run_id: Annotated[UUID, typer.Argument(help="The run.")],
    charge_usd: Annotated[
        str, typer.Argument(help='The charge in US dollars, at most 4 places; "0" refunds everything.')
    ],
) -> None:
    """End a disputed run: charge this amount and refund the rest of its reservation. Safe to repeat."""
    try:
        charge_usd_micros = 0 if charge_usd == "0" else parse_usd(charge_usd)
    except AmountError as error:
        raise StackError(f"the amount {error}") from None
    with _effects() as effects:
        ended = disputes.decide(effects, run_id, charge_usd_micros)
    typer.echo(f"run {ended.id}: {ended.status}, {ended.money_state}, charged {format_usd(charge_usd_micros)} USD")


@contextmanager
def _effects() -> Iterator[DisputeEffects]:
    """Open all connections that a command needs. Raises StackError, also for errors inside the block."""
    at = reach(_DisputeSettings)
    wanted = at.settings
    storage = ObjectStore(wanted.results_bucket, lambda: at.client("s3"))
    try:
        with as_sentences(), opened(wanted) as (database, ledger):
            yield DisputeEffects(database, ledger, storage)
    except (NotDisputed, DecisionRefused) as error:
        raise StackError(str(error)) from error


def _print(one: Dispute) -> None:
    run = one.run
    receipt = "none" if one.receipt is None else f"{one.receipt[0]}, charged {format_usd(one.receipt[1])} USD"
    cost = one.envelope_cost_usd_micros
    lines = {
        "tenant": run.tenant_id,
        "run is": f"{run.status} since {run.updated_at:%Y-%m-%d %H:%M:%S%z}",
        "because": run.last_error_detail or "",
        "reserved": f"{format_usd(run.reservation_max_cost_usd_micros)} USD",
        "intended": f"{run.finalize_outcome}, {format_usd(run.finalize_charge_usd_micros or 0)} USD",
        "receipt": receipt,
        "reservation": "held" if one.is_reserved else "gone",
        "envelope": "none" if cost is None else f"says {format_usd(cost)} USD",
    }
    console.print(f"run {run.id}")
    for name, value in lines.items():
        console.print(f"  {name:<12} {value}", highlight=False, markup=False)


def _fields(one: Dispute) -> dict[str, Any]:
    run, receipt = one.run, one.receipt
    return {
        "run_id": run.id,
        "tenant_id": run.tenant_id,
        "status": run.status,
        "disputed_at": run.updated_at.isoformat(),
        "detail": run.last_error_detail,
        "reserved_usd_micros": run.reservation_max_cost_usd_micros,
        "intended_outcome": run.finalize_outcome,
        "intended_charge_usd_micros": run.finalize_charge_usd_micros,
        "receipt": receipt and {"kind": receipt[0], "charge_usd_micros": receipt[1]},
        "is_reserved": one.is_reserved,
        "envelope_cost_usd_micros": one.envelope_cost_usd_micros,
    }
