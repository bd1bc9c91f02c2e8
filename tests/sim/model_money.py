"""The queries of credits, audit and rebuild as Python, beside those of the runs in model_postgres.py."""

from datetime import datetime, timedelta
from decimal import Decimal

from psycopg import errors

from dpp.platform.db.sql import Queries
from tests.sim.model_postgres import BEGINNING, Answer, Params, Tables, models

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
def _insert_credit(tables: Tables, p: Params, now: datetime) -> Answer:
    amount: int = p["amount_usd_micros"]
    total = amount + sum(credit for tenant, credit in tables.credits.values() if tenant == p["tenant_id"])
    if total > p["max_usd_micros"] or p["credit_id"] in tables.credits:
        return Answer(("credit_id",))
    if p["tenant_id"] not in tables.tenants:
        raise errors.ForeignKeyViolation
    tables.credits[p["credit_id"]] = (p["tenant_id"], amount)
    tables.credited_at[p["credit_id"]] = now
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


@models(MONEY, "tenant_at")
def _tenant_at(tables: Tables, p: Params, _now: datetime) -> Answer:
    behind = [tenant for tenant in sorted(tables.tenants) if tenant > p["after"]]
    rows = [(behind[int(p["share"] * len(behind))],)] if behind else []
    return Answer(("tenant_id",), rows, len(rows))


@models(MONEY, "has_credits")
def _has_credits(tables: Tables, p: Params, _now: datetime) -> Answer:
    given = any(tenant == p["tenant_id"] for tenant, _ in tables.credits.values())
    return Answer(("?column?",), [(1,)] if given else [], int(given))


@models(MONEY, "bound_the_wait")
def _bound_the_wait(_tables: Tables, _p: Params, _now: datetime) -> Answer:
    return Answer()


@models(MONEY, "stop_writes_to_runs")
def _stop_writes_to_runs(_tables: Tables, _p: Params, _now: datetime) -> Answer:
    return Answer()


@models(MONEY, "books")
def _books(tables: Tables, p: Params, now: datetime) -> Answer:
    tenant = p["tenant_id"]
    if tenant not in tables.tenants:
        return Answer()
    mine = {run_id: row for run_id, row in tables.runs.items() if row["tenant_id"] == tenant}
    given = {i: amount for i, (of, amount) in tables.credits.items() if of == tenant}
    charged = sum(row["actual_cost_usd_micros"] for row in mine.values() if row["money_state"] == "SETTLED")
    open_ = [
        [str(run_id), str(row["reservation_max_cost_usd_micros"])]
        for run_id, row in mine.items()
        if row["money_state"] in ("RESERVED", "DISPUTED")
    ]
    closed = [
        str(run_id)
        for run_id, row in mine.items()
        if row["money_state"] in ("SETTLED", "REFUNDED") and str(run_id) in p["run_ids"]
    ]
    seconds = p["credits_since_seconds"]
    since = None if seconds is None else now - timedelta(seconds=seconds)
    listed = [
        [str(i), str(amount)] for i, amount in given.items() if since is None or tables.credited_at[i] > since
    ]
    row = (Decimal(sum(given.values()) - charged), open_, closed, listed)
    return Answer(("credits_minus_charges", "open", "closed", "credits"), [row], 1)


@models(MONEY, "due_audits")
def _due_audits(tables: Tables, p: Params, now: datetime) -> Answer:
    latest = (p["now"] or now) - timedelta(seconds=p["every_seconds"])
    looked = {tenant: row["audited_at"] for tenant, row in tables.audits.items()}
    due = [tenant for tenant in tables.tenants if looked.get(tenant) is None or looked[tenant] <= latest]
    due.sort(key=lambda tenant: (looked.get(tenant, BEGINNING - timedelta(days=1)), tenant))
    return Answer(("tenant_id",), [(tenant,) for tenant in due[: p["limit"]]], len(due))


@models(MONEY, "record_audit")
def _record_audit(tables: Tables, p: Params, now: datetime) -> Answer:
    row = {"audited_at": p["now"] or now, "verdict": str(p["verdict"])}
    tables.audits[p["tenant_id"]] = row | {name: p[name] for name in ("drift_usd_micros", "detail")}
    return Answer(rowcount=1)


@models(MONEY, "disputed_ledgers")
def _disputed_ledgers(tables: Tables, _p: Params, _now: datetime) -> Answer:
    count = sum(row["verdict"] == "DISPUTED" for row in tables.audits.values())
    return Answer(("count",), [(count,)], 1)


@models(MONEY, "closed_since")
def _closed_since(tables: Tables, p: Params, now: datetime) -> Answer:
    since = (p["now"] or now) - timedelta(seconds=p["age_seconds"])
    after = (p["after_time"], p["after_id"])
    found = [
        (row["run_id"], row["money_state"], row["actual_cost_usd_micros"], row["created_at"])
        for row in tables.runs.values()
        if row["tenant_id"] == p["tenant_id"]
        and row["finalize_stage"] == "COMMITTED"
        and row["created_at"] > since
        and (row["created_at"], row["run_id"]) > after
    ]
    found.sort(key=lambda row: (row[3], row[0]))
    columns = ("run_id", "money_state", "actual_cost_usd_micros", "created_at")
    return Answer(columns, found[: p["limit"]], len(found))


@models(MONEY, "record_rebuild")
def _record_rebuild(tables: Tables, p: Params, _now: datetime) -> Answer:
    tables.rebuilds.append(dict(p))
    return Answer(rowcount=1)
