"""The switch of execution, as Python; what asks it stands with the rows in model_postgres."""

from datetime import datetime

from dpp.runs import store
from tests.sim.model_postgres import Answer, Params, Tables, models

_COLUMNS = ("scope", "enabled", "decision_id", "actor", "reason", "decided_at")


@models(store.QUERIES, "decide_execution")
def _decide_execution(tables: Tables, p: Params, _now: datetime) -> Answer:
    wanted = {name: p[name] for name in _COLUMNS} | {"scope": str(p["scope"])}
    stands = tables.switches.get(wanted["scope"])
    if stands is not None and (
        stands["decision_id"] == p["decision_id"]
        or (stands["decided_at"], stands["decision_id"]) >= (p["decided_at"], p["decision_id"])
    ):
        return Answer(_COLUMNS)
    tables.switches[wanted["scope"]] = wanted
    return Answer(_COLUMNS, [tuple(wanted.values())], 1)


@models(store.QUERIES, "execution_switches")
def _execution_switches(tables: Tables, _p: Params, _now: datetime) -> Answer:
    rows = [tuple(tables.switches[scope].values()) for scope in sorted(tables.switches)]
    return Answer(_COLUMNS, rows, len(rows))
