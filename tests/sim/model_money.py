"""The queries of credits, audit and rebuild as Python, beside those of the runs in model_postgres.py."""

from datetime import datetime
from decimal import Decimal

from psycopg import errors

from dpp.platform.sql import Queries
from tests.sim.model_postgres import Answer, Params, Tables, models

MONEY = Queries("dpp.money", "queries.sql")


@models(MONEY, "create_tenant")
def _create_tenant(tables: Tables, p: Params, _now: datetime) -> Answer:
    known = p["tenant_id"] in tables.tenants
    tables.tenants.setdefault(p["tenant_id"], dict(p))
    return Answer(rowcount=0 if known else 1)


@models(MONEY, "lock_credits")
def _lock_credits(tables: Tables, p: Params, _now: datetime) -> Answer:
    rows = [(1,)] if p["tenant_id"] in tables.tenants else []
    return Answer(("?column?",), rows, len(rows))


@models(MONEY, "insert_credit")
def _insert_credit(tables: Tables, p: Params, _now: datetime) -> Answer:
    amount: int = p["amount_usd_micros"]
    total = amount + sum(credit for tenant, credit in tables.credits.values() if tenant == p["tenant_id"])
    if total > p["max_usd_micros"] or p["credit_id"] in tables.credits:
        return Answer(("credit_id",))
    if p["tenant_id"] not in tables.tenants:
        raise errors.ForeignKeyViolation
    tables.credits[p["credit_id"]] = (p["tenant_id"], amount)
    return Answer(("credit_id",), [(p["credit_id"],)], 1)


@models(MONEY, "select_credit")
def _select_credit(tables: Tables, p: Params, _now: datetime) -> Answer:
    found = tables.credits.get(p["credit_id"])
    return Answer(("tenant_id", "amount_usd_micros"), [found] if found else [], 1 if found else 0)


@models(MONEY, "position")
def _position(tables: Tables, p: Params, _now: datetime) -> Answer:
    tenant = p["tenant_id"]
    if tenant not in tables.tenants:
        return Answer()
    mine = [row for row in tables.runs.values() if row["tenant_id"] == tenant]
    given = sum(amount for of, amount in tables.credits.values() if of == tenant)
    charged = sum(row["actual_cost_usd_micros"] for row in mine if row["money_state"] == "SETTLED")
    held = sum(
        row["reservation_max_cost_usd_micros"]
        for row in mine
        if row["money_state"] in ("RESERVED", "DISPUTED")
    )
    return Answer(("credits", "charges", "reserved"), [(Decimal(given), Decimal(charged), Decimal(held))], 1)


@models(MONEY, "tenants_after")
def _tenants_after(tables: Tables, p: Params, _now: datetime) -> Answer:
    rows = [(tenant,) for tenant in sorted(tables.tenants) if tenant > p["after"]][: p["limit"]]
    return Answer(("tenant_id",), rows, len(rows))


@models(MONEY, "has_credits")
def _has_credits(tables: Tables, p: Params, _now: datetime) -> Answer:
    given = any(tenant == p["tenant_id"] for tenant, _ in tables.credits.values())
    return Answer(("?column?",), [(1,)] if given else [], int(given))


@models(MONEY, "credit_ids")
def _credit_ids(tables: Tables, p: Params, _now: datetime) -> Answer:
    rows = [(i,) for i, (tenant, _) in tables.credits.items() if tenant == p["tenant_id"]]
    return Answer(("credit_id",), rows, len(rows))


@models(MONEY, "bound_the_wait")
def _bound_the_wait(_tables: Tables, _p: Params, _now: datetime) -> Answer:
    return Answer()


@models(MONEY, "stop_writes_to_runs")
def _stop_writes_to_runs(_tables: Tables, _p: Params, _now: datetime) -> Answer:
    return Answer()


@models(MONEY, "open_runs")
def _open_runs(tables: Tables, p: Params, _now: datetime) -> Answer:
    rows = [
        (run_id, row["reservation_max_cost_usd_micros"])
        for run_id, row in tables.runs.items()
        if row["tenant_id"] == p["tenant_id"] and row["money_state"] in ("RESERVED", "DISPUTED")
    ]
    return Answer(("run_id", "reservation_max_cost_usd_micros"), rows, len(rows))


@models(MONEY, "closed_among")
def _closed_among(tables: Tables, p: Params, _now: datetime) -> Answer:
    rows = [
        (run_id,)
        for run_id, row in tables.runs.items()
        if row["tenant_id"] == p["tenant_id"]
        and row["money_state"] in ("SETTLED", "REFUNDED")
        and str(run_id) in p["run_ids"]
    ]
    return Answer(("run_id",), rows, len(rows))
