"""What comes after a crash: clients who come again, messages that come again, the jobs on their schedules, time."""

from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.retain import retain
from dpp.runs.jobs.sweep import sweep
from tests.crash.stage import Stage

ROUNDS_SECONDS = (6, 70, 70, 320, 320, 3_000, 400)
"""The pauses between rounds: past the lock of a key, the unsent minute, a lease, a stuck claim twice, an hour."""
PAST_THE_GRACE_SECONDS = 3 * 3_600
PAST_RETENTION_SECONDS = 31 * 86_400


def fire_jobs(stage: Stage) -> None:
    """One firing of each job but retention, by containers of their own."""
    world, now = stage.world, stage.clock.now
    reap(world.finalize_effects(), stage.scan, now)
    sweep(world.finalize_effects(), stage.scan, now)
    reconcile(world.reconcile_effects(), stage.scan, now)


def come_to_rest(stage: Stage) -> bool:
    """Round after round until nothing is left to do; False where that never comes.

    What is disabled stays so for the first of them, and an operator enables it then.
    """
    for number, pause in enumerate(ROUNDS_SECONDS):
        stage.clock.move(pause)
        if number == 1:
            stage.switch(enabled=True)
        for client in stage.clients:
            if client.persistent and not client.accepted:
                client.ask(stage.world.submit_effects())
        stage.deliver(stage.work_effects())
        fire_jobs(stage)
        stage.deliver(stage.work_effects())
        if is_at_rest(stage):
            return True
    return False


def is_at_rest(stage: Stage) -> bool:
    """No run alive, nothing reserved, no message left, nobody without the answer that they want."""
    with stage.world.database.connection() as connection:
        alive = connection.execute(
            "SELECT count(*) FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED'"
        ).fetchone()
    ledger = stage.world.ledger
    reserved = [
        ledger.client.hlen(ledger.keys.reservation_amounts(tenant.tenant_id)) for tenant in stage.tenants
    ]
    waiting = [client for client in stage.clients if client.persistent and not client.accepted]
    return alive == (0,) and not any(reserved) and not waiting and stage.messages() == 0


def retire(stage: Stage) -> None:
    """Three hours, and then a month: what must go has its time to go, and every job fires once more."""
    stage.clock.move(PAST_THE_GRACE_SECONDS)
    retain(stage.world.database, stage.scan, stage.clock.now)
    stage.clock.move(PAST_RETENTION_SECONDS)
    retain(stage.world.database, stage.scan, stage.clock.now)
    fire_jobs(stage)
