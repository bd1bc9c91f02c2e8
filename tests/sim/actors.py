"""Who acts in a schedule: clients, the functions that they and the clock invoke, the operator; then the rest."""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from dpp.money.credits import all_tenants, create_tenant, credit
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.keys.api_keys import Caller
from dpp.runs.errors import BudgetDrained, IdempotencyConflict, RunsError
from dpp.runs.execute import WorkEffects, execute
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import ReconcileEffects, reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import TERMINAL
from dpp.runs.message import RunMessage
from dpp.runs.operations.switch import Switch, decide
from dpp.runs.submit import Order, SubmitEffects, submit
from tests.sim.faults import Fault
from tests.sim.ports import Message
from tests.sim.scheduler import Vanished
from tests.sim.simulation import Accepted, Parts, Simulation

SUBMIT_SECONDS, WORKER_SECONDS, REAPER_SECONDS, JOB_SECONDS = 15, 240, 25, 60
"""The timeouts of deployment, but for the worker: here it outlives its lease, since no promise may hang on that."""

TENANTS = ("t_one", "t_two")
_CREDITS = (10_000_000, 600_000, 300_000)
_RESERVATIONS = (250_000, 4_900, 400_000, 100)
_COSTS = (50_000, 0, 100, 1_000_000)
_PACK_SECONDS = (1, 20, 120, 150)
_RETRY_SECONDS = (1, 6, 31)
_SCOPES = (None, PackType.DECISION, PackType.URL)
_PAUSE_SECONDS = (31, 5, 125, 310, 700, 3_650)
_CALM_SECONDS = (1, 310, 310, 310, 3_700, 310, 310, 3_700, 310, 310, 3_700, 310, 310)


def begin(sim: Simulation) -> None:
    """Tenants with money, then everybody who acts in this schedule."""
    pick = sim.choices.pick
    tenants = TENANTS[: 1 + pick(4) // 3]
    sim.credits += [(sim.new_id(), tenant, _CREDITS[pick(3)]) for tenant in tenants]
    sim.choices.calm = True
    sim.scheduler.spawn("operator", partial(_open_accounts, sim, tenants))
    sim.scheduler.run()
    sim.choices.calm = False
    sim.draw_faults()
    spawn = sim.scheduler.spawn
    if pick(2):
        sim.credits += [(sim.new_id(), tenant, _CREDITS[2]) for tenant in tenants]
        spawn("operator", partial(_operator, sim))
    for index in range(1 + pick(3)):
        spawn(f"client-{index + 1}", partial(_client, sim, f"client-{index + 1}", tenants))
    for index in range(1 + pick(2)):
        spawn(f"worker-{index + 1}", partial(_worker, sim, f"worker-{index + 1}"))
    spawn("reaper", partial(_job, sim, "reaper", REAPER_SECONDS, _reap))
    spawn("sweeper", partial(_job, sim, "sweeper", JOB_SECONDS, _sweep))
    for index in range(1 + pick(2)):
        name = f"reconcile-{index + 1}"
        spawn(name, partial(_job, sim, name, JOB_SECONDS, _reconcile))
    if pick(4) == 3:
        spawn("rebuilder", partial(_job, sim, "rebuilder", JOB_SECONDS, _rebuild_all))
    if pick(2):
        sim.stays_disabled = pick(3) == 2
        for index in range(1 + pick(2)):
            name = f"switcher-{index + 1}"
            spawn(name, partial(_switcher, sim, name))
    losses = {Fault.REDIS_LOSS: sim.lose_writes, Fault.REDIS_FLUSH: sim.lose_all}
    for fault, lose in losses.items():
        if sim.knows(fault):
            spawn("failover", partial(_failover, sim, lose))


def come_to_rest(sim: Simulation) -> bool:
    """Everything that was wrong is right again; deliver, fire the jobs, let time pass. Whether rest came."""
    sim.choices.calm = True
    rested: list[bool] = []
    sim.scheduler.spawn("calm", lambda: rested.append(_calm(sim)))
    sim.scheduler.run()
    return rested == [True]


def _calm(sim: Simulation) -> bool:
    parts = sim.parts()
    _give_credits(sim, parts)
    calm_since = sim.now()
    if not sim.stays_disabled:
        for scope in _SCOPES:
            _decide(sim, _decision(sim, scope, enabled=True), parts)
    for seconds in _CALM_SECONDS:
        sim.scheduler.wait(seconds * 1000)
        while visible := sim.messages.visible(sim.now_ms()):
            _work(sim, visible[0], parts)
        for fire in (_reap, _sweep, _reconcile):
            fire(parts)
        if _at_rest(sim, calm_since):
            return True
    return False


def _at_rest(sim: Simulation, calm_since: datetime) -> bool:
    """Whether nothing is open, waits or is held any more, and every ledger was looked at since all is calm."""
    looked = [row["audited_at"] for row in sim.tables.audits.values() if row["audited_at"] >= calm_since]
    if len(looked) < len(sim.tables.tenants):
        return False
    open_ = [
        row
        for row in sim.tables.runs.values()
        if row["status"] not in TERMINAL and row["money_state"] != "DISPUTED"
    ]
    disputed = {str(row["run_id"]) for row in sim.tables.runs.values() if row["money_state"] == "DISPUTED"}
    held = {run_id for ages in sim.keys.scores.values() for run_id in ages}
    return not open_ and not sim.messages.waiting and held <= disputed


# --- invocations ---------------------------------------------------------------------------------------------------


class _Container:
    """A function's container: kept warm between invocations, gone with a crash."""

    def __init__(self, sim: Simulation, name: str, lifetime_seconds: int) -> None:
        self._sim = sim
        self._name = name
        self._lifetime_seconds = lifetime_seconds
        self._parts = sim.parts()

    def invoke(self, call: Callable[[Parts], None]) -> bool:
        """One invocation; False where its process vanished."""
        scheduler = self._sim.scheduler
        actor = scheduler.current
        outside = actor.process
        actor.process = self._sim.process(self._name, self._lifetime_seconds)
        try:
            call(self._parts)
        except Vanished:
            if scheduler.error is not None:
                raise
            self._parts = self._sim.parts()
            self._sim.note("", "vanished", "")
            return False
        finally:
            actor.process = outside
        return True


def _client(sim: Simulation, name: str, tenants: tuple[str, ...]) -> None:
    """Submit an order or two, each until an answer is final or patience ends."""
    container = _Container(sim, name, SUBMIT_SECONDS)
    pick = sim.choices.pick
    for _ in range(1 + pick(2)):
        tenant = tenants[pick(len(tenants))]
        order = _order(key=pick(3), amount=_RESERVATIONS[pick(4)], variant=pick(8) // 7)
        sim.scheduler.wait(_PAUSE_SECONDS[pick(3)] * 1000 if pick(2) else 0)
        for seconds in _RETRY_SECONDS:
            final: list[bool] = []
            container.invoke(lambda parts: final.append(_submit(sim, name, tenant, order, parts)))  # noqa: B023
            if final == [True]:
                break
            sim.scheduler.wait(seconds * 1000)


def _order(*, key: int, amount: int, variant: int) -> Order:
    return Order(
        idempotency_key=f"key-000{key}",
        pack_type=PackType.DECISION,
        inputs={"question": f"What is the answer, {variant}?"},
        reserved_usd_micros=amount,
        timebox_sec=90,
        min_reliability_score=0.8,
        inline_result=False,
        profile_version="PROFILE_DPP_0_4_2_2",
        trace_id="t_sim",
    )


def _submit(sim: Simulation, name: str, tenant: str, order: Order, parts: Parts) -> bool:
    """One request; whether its answer is final."""
    caller = Caller(tenant, sim.new_id(), 100_000)
    try:
        done = submit(order, caller, SubmitEffects(parts.database, parts.ledger, parts.queue))
    except (RunsError, DependencyUnavailable) as error:
        sim.note("", f"is answered {type(error).__name__}", "")
        return isinstance(error, IdempotencyConflict | BudgetDrained)
    run = done.run
    sim.note("", f"is answered 202 for run {run.id[:8]}", "")
    sim.accepted.append(Accepted(name, tenant, order.idempotency_key, run.payload_hash, run.run_id))
    return True


class _Packs:
    """A pack that takes its time, costs this or that, or fails."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Answer, or be cancelled."""
        sim, pick = self._sim, self._sim.choices.pick
        kind, seconds = pick(5), _PACK_SECONDS[pick(4)]
        sim.note("pack", f"runs {seconds} s", "")
        sim.started[request.run_id] += 1
        cut_off = sim.scheduler.wait(seconds * 1000, cancelled.is_set)
        result: PackResult
        if cut_off:
            result = PackFailure(reason_code=PackReason.PACK_CANCELLED)
        elif kind == 4:
            result = PackFailure(reason_code=PackReason.PACK_FAILED, detail="on purpose")
        else:
            result = PackSuccess(
                data={"answer_text": "42"},
                reliability_score=1.0,
                cost_usd_micros=_COSTS[kind],
                tokens_consumed=7,
            )
        sim.answers.setdefault(request.run_id, []).append(result)
        return result

    def prestart(self) -> None:
        """Nothing to warm."""


def _worker(sim: Simulation, name: str) -> None:
    container = _Container(sim, name, WORKER_SECONDS)
    for _ in range(3 + sim.choices.pick(3)):
        if not sim.scheduler.wait(400_000, lambda: bool(sim.messages.visible(sim.now_ms()))):
            return
        visible = sim.messages.visible(sim.now_ms())
        message = visible[sim.choices.pick(len(visible))]
        container.invoke(partial(_work, sim, message))


def _work(sim: Simulation, message: Message, parts: Parts) -> None:
    """One delivery; a message is deleted unless its work raised."""
    handle = sim.messages.receive(message, sim.now_ms())
    run_message = RunMessage.model_validate_json(message.body)
    sim.note("sqs", f"receives run {str(run_message.run_id)[:8]}", "")
    effects = WorkEffects(
        parts.database, parts.new_database, parts.ledger, parts.queue, parts.storage, _Packs(sim)
    )
    try:
        outcome = execute(run_message, handle, effects).outcome
    except DependencyUnavailable as error:
        sim.note("", f"raised {type(error).__name__}", "")
        return
    sim.note("", f"is done: {outcome}", "")
    try:
        parts.sqs.delete_message(handle)
    except Exception as error:  # noqa: BLE001 - SQS's own poller deletes; what fails there comes again
        sim.note("", f"message stays: {type(error).__name__}", "")


def _job(sim: Simulation, name: str, lifetime_seconds: int, fire: Callable[[Parts], object]) -> None:
    container = _Container(sim, name, lifetime_seconds)

    def firing(parts: Parts) -> None:
        try:
            fire(parts)
        except DependencyUnavailable as error:
            sim.note("", f"raised {type(error).__name__}", "")

    for _ in range(1 + sim.choices.pick(3)):
        pause_ms = _PAUSE_SECONDS[sim.choices.pick(len(_PAUSE_SECONDS))] * 1000
        # In truth a job fires every minute; of those firings the ones count that find something in motion.
        due = partial(_is_due, sim) if sim.choices.pick(2) else None
        sim.scheduler.wait(pause_ms, due)
        container.invoke(firing)


def _is_due(sim: Simulation) -> bool:
    """Whether something is in motion: a claim, a lease that has run out, a reservation with no run yet."""
    now, runs = sim.now(), sim.tables.runs
    for row in runs.values():
        if row["finalize_stage"] == "CLAIMED":
            return True
        if (
            row["finalize_stage"] is None
            and row["lease_expires_at"] is not None
            and row["lease_expires_at"] < now
        ):
            return True
    reserved = sum(len(ages) for ages in sim.keys.scores.values())
    return reserved > sum(row["finalize_stage"] is None for row in runs.values())


def _reap(parts: Parts) -> object:
    return reap(FinalizeEffects(parts.database, parts.ledger), parts.scan)


def _sweep(parts: Parts) -> object:
    return sweep(FinalizeEffects(parts.database, parts.ledger), parts.scan)


def _reconcile(parts: Parts) -> object:
    return reconcile(ReconcileEffects(parts.database, parts.ledger, parts.storage, parts.queue), parts.scan)


def _rebuild_all(parts: Parts) -> None:
    """What an operator does after a failover (`dpp ledger rebuild`), and may do at any time."""
    with parts.database.connection() as connection:
        for tenant in list(all_tenants(connection)):
            rebuild(connection, parts.ledger, tenant, RebuildReason.OPERATOR)


def _failover(sim: Simulation, lose: Callable[[], None]) -> None:
    for _ in range(1 + sim.choices.pick(2)):
        sim.scheduler.wait((20, 200, 3_000, 40_000, 130_000, 320_000)[sim.choices.pick(6)])
        for _ in range(sim.choices.pick(40)):
            sim.scheduler.step()
        lose()


# --- the operators --------------------------------------------------------------------------------------------------


def _open_accounts(sim: Simulation, tenants: tuple[str, ...]) -> None:
    parts = sim.parts()
    with parts.database.connection() as connection:
        for tenant in tenants:
            create_tenant(connection, tenant, "A tenant")
    _give_credits(sim, parts)


def _operator(sim: Simulation) -> None:
    container = _Container(sim, "operator", JOB_SECONDS)
    for _ in range(3):
        given: list[bool] = []
        container.invoke(lambda parts: given.append(_try_credits(sim, parts)))  # noqa: B023
        if given == [True]:
            return


def _try_credits(sim: Simulation, parts: Parts) -> bool:
    try:
        _give_credits(sim, parts)
    except DependencyUnavailable:
        return False
    return True


def _give_credits(sim: Simulation, parts: Parts) -> None:
    """The same credits however often: what stands is left as it is, what was lost is given again."""
    for credit_id, tenant, amount in sim.credits:
        with parts.database.connection() as connection:
            credit(
                connection,
                parts.ledger,
                credit_id=credit_id,
                tenant_id=tenant,
                amount_usd_micros=amount,
                reason="for the simulation",
            )


def _switcher(sim: Simulation, name: str) -> None:
    """Disable and enable execution at random, each decision asked for until it is answered or patience ends."""
    container, pick = _Container(sim, name, JOB_SECONDS), sim.choices.pick
    for _ in range(1 + pick(4)):
        # Of all decisions those count that come while a run is on its way to a worker.
        due = partial(_is_sent, sim) if pick(4) else None
        sim.scheduler.wait((0, 200, 3_000, 40_000, 130_000, 700_000)[pick(6)], due)
        decision = _decision(sim, _SCOPES[pick(5) % 3], enabled=pick(3) == 2)
        for seconds in _RETRY_SECONDS:
            told: list[bool] = []
            container.invoke(lambda parts: told.append(_try_to_decide(sim, decision, parts)))  # noqa: B023
            if told == [True]:
                break
            sim.scheduler.wait(seconds * 1000)


def _is_sent(sim: Simulation) -> bool:
    return bool(sim.messages.visible(sim.now_ms()))


def _decision(sim: Simulation, scope: PackType | None, *, enabled: bool) -> Switch:
    return Switch(scope, enabled, sim.new_id(), "operator", "for the simulation", sim.now())


def _try_to_decide(sim: Simulation, wanted: Switch, parts: Parts) -> bool:
    try:
        _decide(sim, wanted, parts)
    except DependencyUnavailable:
        return False
    return True


def _decide(sim: Simulation, wanted: Switch, parts: Parts) -> None:
    with parts.database.connection() as connection:
        decided = decide(
            connection,
            scope=wanted.scope,
            enabled=wanted.enabled,
            decision_id=wanted.decision_id,
            actor=wanted.actor,
            reason=wanted.reason,
            decided_at=wanted.decided_at,
        )
    sim.note(
        "", f"{wanted.scope or 'all'} {'enabled' if wanted.enabled else 'disabled'}: {decided.outcome}", ""
    )
    sim.tables.decisions.append(wanted)
