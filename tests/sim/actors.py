"""The actors of a schedule: clients, workers, scheduled jobs and operators; and the recovery after them."""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from dpp.money.credits import all_tenants, create_tenant, credit
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.platform.errors import DependencyUnavailable
from dpp.runs.errors import IdempotencyConflict, InsufficientBudget, RunsError
from dpp.runs.execute import WorkEffects, execute
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import ReconcileEffects, reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import TERMINAL
from dpp.runs.message import RunMessage
from dpp.runs.model import SubmitRequest
from dpp.runs.operations.switch import Switch, decide
from dpp.runs.submit import SubmitEffects, submit
from tests.sim.faults import Fault
from tests.sim.keys import Scores
from tests.sim.ports import Message
from tests.sim.scheduler import Vanished
from tests.sim.simulation import Accepted, Connections, Simulation

SUBMIT_SECONDS, WORKER_SECONDS, REAPER_SECONDS, JOB_SECONDS = 15, 240, 25, 60
"""The timeouts as deployed, except the worker's: here it outlives its lease, since no invariant may depend on that."""

TENANTS = ("t_one", "t_two")
_CREDITS = (10_000_000, 600_000, 300_000)
_RESERVATIONS = (250_000, 4_900, 400_000, 100)
_COSTS = (50_000, 0, 100, 1_000_000)
_PACK_SECONDS = (1, 20, 120, 150)
_RETRY_SECONDS = (1, 6, 31)
_SCOPES = (None, PackType.DECISION, PackType.URL)
_PAUSE_SECONDS = (31, 5, 125, 310, 700, 3_650)
_RECOVERY_PAUSES_SECONDS = (1, 310, 310, 310, 3_700, 310, 310, 3_700, 310, 310, 3_700, 310, 310)


def begin(sim: Simulation) -> None:
    """Create tenants with credits, then spawn the actors of this schedule."""
    pick = sim.choices.pick
    tenants = TENANTS[: 1 + pick(4) // 3]
    sim.credits += [(sim.new_id(), tenant, _CREDITS[pick(3)]) for tenant in tenants]
    sim.choices.recovering = True
    sim.scheduler.spawn("operator", partial(_open_accounts, sim, tenants))
    sim.scheduler.run()
    sim.choices.recovering = False
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
        if sim.has(fault):
            spawn("failover", partial(_failover, sim, lose))


def recover(sim: Simulation) -> bool:
    """Without faults, deliver messages, run the jobs and let time pass; True if everything has ended then."""
    sim.choices.recovering = True
    recovered: list[bool] = []
    sim.scheduler.spawn("recovery", lambda: recovered.append(_recover(sim)))
    sim.scheduler.run()
    return recovered == [True]


def _recover(sim: Simulation) -> bool:
    connections = sim.connections()
    _give_credits(sim, connections)
    since = sim.now()
    if not sim.stays_disabled:
        for scope in _SCOPES:
            _decide(sim, _decision(sim, scope, enabled=True), connections)
    for seconds in _RECOVERY_PAUSES_SECONDS:
        sim.scheduler.wait(seconds * 1000)
        while visible := sim.messages.visible(sim.now_ms()):
            _work(sim, visible[0], connections)
        for job in (_reap, _sweep, _reconcile):
            job(connections)
        if _has_ended(sim, since):
            return True
    return False


def _has_ended(sim: Simulation, since: datetime) -> bool:
    """True if every run has ended, no message and no reservation is left, and every ledger was audited since."""
    audited = [row for row in sim.rows("ledger_audits") if row["audited_at"] >= since]
    runs = sim.rows("runs")
    disputed = {str(row["run_id"]) for row in runs if row["money_state"] == "DISPUTED"}
    return (
        len(audited) == len(sim.rows("tenants"))
        and all(row["status"] in TERMINAL or row["money_state"] == "DISPUTED" for row in runs)
        and not sim.messages.waiting
        and set(_reserved(sim)) <= disputed
    )


def _reserved(sim: Simulation) -> list[str]:
    """The runs in the ledger's indexes of reservations."""
    return [run_id for ages in sim.keys.values.values() if isinstance(ages, Scores) for run_id in ages]


# --- invocations ---------------------------------------------------------------------------------------------------


class _Container:
    """A function's container: reused by later invocations until a crash."""

    def __init__(self, sim: Simulation, name: str, lifetime_seconds: int) -> None:
        self._sim = sim
        self._name = name
        self._lifetime_seconds = lifetime_seconds
        self._connections = sim.connections()

    def invoke[Result](self, call: Callable[[Connections], Result]) -> Result | None:
        """One invocation; None where it died or raised because a server was away."""
        scheduler = self._sim.scheduler
        actor = scheduler.current
        outside = actor.process
        actor.process = self._sim.process(self._name, self._lifetime_seconds)
        try:
            return call(self._connections)
        except DependencyUnavailable as error:
            self._sim.note("", f"raises {type(error).__name__}", "")
        except Vanished:
            if scheduler.error is not None:
                raise
            self._connections = self._sim.connections()
            self._sim.note("", "died", "")
        finally:
            actor.process = outside
        return None

    def invoke_until_done(self, call: Callable[[Connections], bool]) -> None:
        """Invoke at most three times, with growing pauses, until the call returns True."""
        for seconds in _RETRY_SECONDS:
            if self.invoke(call):
                break
            self._sim.scheduler.wait(seconds * 1000)


def _client(sim: Simulation, name: str, tenants: tuple[str, ...]) -> None:
    """Submit one or two requests, each repeated until the reply is final, at most three times."""
    container = _Container(sim, name, SUBMIT_SECONDS)
    pick = sim.choices.pick
    for _ in range(1 + pick(2)):
        tenant = tenants[pick(len(tenants))]
        request = _request(tenant, key=pick(3), amount=_RESERVATIONS[pick(4)], variant=pick(8) // 7)
        sim.scheduler.wait(_PAUSE_SECONDS[pick(3)] * 1000 if pick(2) else 0)
        container.invoke_until_done(partial(_submit, sim, name, request))


def _request(tenant: str, *, key: int, amount: int, variant: int) -> SubmitRequest:
    return SubmitRequest(
        tenant_id=tenant,
        rate_limit_per_minute=100_000,
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


def _submit(sim: Simulation, name: str, request: SubmitRequest, to: Connections) -> bool:
    """One request; whether its reply is final."""
    try:
        done = submit(request, SubmitEffects(to.database, to.ledger, to.queue))
    except (RunsError, DependencyUnavailable) as error:
        sim.note("", f"receives {type(error).__name__}", "")
        return isinstance(error, IdempotencyConflict | InsufficientBudget)
    run = done.run
    sim.note("", f"receives 202 for run {run.id[:8]}", "")
    sim.accepted.append(Accepted(name, request.tenant_id, request.idempotency_key, run.payload_hash, run.run_id))
    return True


class _Packs:
    """A pack of random duration and cost, which can fail."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Run to the end, or be cancelled."""
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
                data={"answer_text": "42"}, reliability_score=1.0, cost_usd_micros=_COSTS[kind], tokens_consumed=7
            )
        sim.answers.setdefault(request.run_id, []).append(result)
        return result

    def prestart(self) -> None:
        """Nothing to start."""


def _worker(sim: Simulation, name: str) -> None:
    container = _Container(sim, name, WORKER_SECONDS)
    for _ in range(3 + sim.choices.pick(3)):
        if not sim.scheduler.wait(400_000, lambda: bool(sim.messages.visible(sim.now_ms()))):
            return
        visible = sim.messages.visible(sim.now_ms())
        message = visible[sim.choices.pick(len(visible))]
        container.invoke(partial(_work, sim, message))


def _work(sim: Simulation, message: Message, to: Connections) -> None:
    """One delivery. The message is deleted unless its handler raises."""
    handle = sim.messages.receive(message, sim.now_ms())
    run_message = RunMessage.model_validate_json(message.body)
    sim.note("sqs", f"receives run {str(run_message.run_id)[:8]}", "")
    effects = WorkEffects(to.database, to.new_database, to.ledger, to.queue, to.storage, _Packs(sim))
    try:
        outcome = execute(run_message, handle, effects).outcome
    except DependencyUnavailable as error:
        sim.note("", f"raises {type(error).__name__}", "")
        return
    sim.note("", f"finishes: {outcome}", "")
    try:
        to.sqs.delete_message(handle)
    except Exception as error:  # noqa: BLE001 - SQS's poller deletes messages, and ignores failures
        sim.note("", f"message stays: {type(error).__name__}", "")


def _job(sim: Simulation, name: str, lifetime_seconds: int, job: Callable[[Connections], object]) -> None:
    container = _Container(sim, name, lifetime_seconds)
    for _ in range(1 + sim.choices.pick(3)):
        pause_ms = _PAUSE_SECONDS[sim.choices.pick(len(_PAUSE_SECONDS))] * 1000
        # In production a job runs every minute. Half of the simulated ticks come when there is work for it.
        due = partial(_is_due, sim) if sim.choices.pick(2) else None
        sim.scheduler.wait(pause_ms, due)
        container.invoke(job)


def _is_due(sim: Simulation) -> bool:
    """True if there is a claim, an expired lease, or a reservation that has no run yet."""
    now, runs = sim.now(), sim.rows("runs")
    for row in runs:
        if row["finalize_stage"] == "CLAIMED":
            return True
        expires_at = row["lease_expires_at"]
        if row["finalize_stage"] is None and expires_at is not None and expires_at < now:
            return True
    return len(_reserved(sim)) > sum(row["finalize_stage"] is None for row in runs)


def _reap(to: Connections) -> object:
    return reap(FinalizeEffects(to.database, to.ledger), to.scan)


def _sweep(to: Connections) -> object:
    return sweep(FinalizeEffects(to.database, to.ledger), to.scan)


def _reconcile(to: Connections) -> object:
    return reconcile(ReconcileEffects(to.database, to.ledger, to.storage, to.queue), to.scan)


def _rebuild_all(to: Connections) -> None:
    """An operator's `dpp ledger rebuild`, which is allowed at any time."""
    with to.database.connection() as connection:
        for tenant in list(all_tenants(connection)):
            rebuild(connection, to.ledger, tenant, RebuildReason.OPERATOR)


def _failover(sim: Simulation, lose: Callable[[], None]) -> None:
    for _ in range(1 + sim.choices.pick(2)):
        sim.scheduler.wait((20, 200, 3_000, 40_000, 130_000, 320_000)[sim.choices.pick(6)])
        for _ in range(sim.choices.pick(40)):
            sim.scheduler.step()
        lose()


# --- the operators --------------------------------------------------------------------------------------------------


def _open_accounts(sim: Simulation, tenants: tuple[str, ...]) -> None:
    to = sim.connections()
    with to.database.connection() as connection:
        for tenant in tenants:
            create_tenant(connection, tenant, "A tenant")
    _give_credits(sim, to)


def _operator(sim: Simulation) -> None:
    container = _Container(sim, "operator", JOB_SECONDS)
    for _ in range(3):
        if container.invoke(partial(_give_credits, sim)):
            return


def _give_credits(sim: Simulation, to: Connections) -> bool:
    """Give every credit of the schedule, each idempotent by its id."""
    for credit_id, tenant, amount in sim.credits:
        with to.database.connection() as connection:
            credit(
                connection,
                to.ledger,
                credit_id=credit_id,
                tenant_id=tenant,
                amount_usd_micros=amount,
                reason="for the simulation",
            )
    return True


def _switcher(sim: Simulation, name: str) -> None:
    """Disable and enable execution at random; each decision is repeated until its operator receives a reply."""
    container, pick = _Container(sim, name, JOB_SECONDS), sim.choices.pick
    for _ in range(1 + pick(4)):
        # Most decisions come while a run is on its way to a worker.
        due = partial(_is_sent, sim) if pick(4) else None
        sim.scheduler.wait((0, 200, 3_000, 40_000, 130_000, 700_000)[pick(6)], due)
        decision = _decision(sim, _SCOPES[pick(5) % 3], enabled=pick(3) == 2)
        container.invoke_until_done(partial(_decide, sim, decision))


def _is_sent(sim: Simulation) -> bool:
    return bool(sim.messages.visible(sim.now_ms()))


def _decision(sim: Simulation, scope: PackType | None, *, enabled: bool) -> Switch:
    return Switch(scope, enabled, sim.new_id(), "operator", "for the simulation", sim.now())


def _decide(sim: Simulation, decision: Switch, to: Connections) -> bool:
    with to.database.connection() as connection:
        decided = decide(
            connection,
            scope=decision.scope,
            enabled=decision.enabled,
            decision_id=decision.decision_id,
            actor=decision.actor,
            reason=decision.reason,
            decided_at=decision.decided_at,
        )
    state = "enabled" if decision.enabled else "disabled"
    sim.note("", f"{decision.scope or 'all'} {state}: {decided.outcome}", "")
    sim.database.decisions.append(decision)
    return True
