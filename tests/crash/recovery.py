"""What comes after a crash: clients who come again, messages that come again, the jobs on their schedules, time."""

from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.retain import retain
from dpp.runs.jobs.sweep import sweep
from tests.crash.environment import Environment

ROUNDS_SECONDS = (6, 70, 70, 320, 320, 3_000, 400)
"""The pauses between rounds: past the lock of a key, the unsent minute, a lease, a stuck claim twice, an hour."""
PAST_THE_GRACE_SECONDS = 3 * 3_600
PAST_RETENTION_SECONDS = 31 * 86_400


def fire_jobs(env: Environment) -> None:
    """One firing of each job but retention, by containers of their own."""
    world, now = env.world, env.clock.now
    reap(world.finalize_effects(), env.scan, now)
    sweep(world.finalize_effects(), env.scan, now)
    reconcile(world.reconcile_effects(), env.scan, now)


def recover(env: Environment) -> bool:
    """Round after round until nothing is left to do; False where that never comes.

    What is disabled stays so for the first of them, and an operator enables it then.
    """
    for number, pause in enumerate(ROUNDS_SECONDS):
        env.clock.move(pause)
        if number == 1:
            env.switch(enabled=True)
        for client in env.clients:
            if client.persistent and not client.accepted:
                client.ask(env.world.submit_effects())
        env.deliver(env.work_effects())
        fire_jobs(env)
        env.deliver(env.work_effects())
        if is_at_rest(env):
            return True
    return False


def is_at_rest(env: Environment) -> bool:
    """No run alive, nothing reserved, no message left, nobody without the answer that they want."""
    with env.world.database.connection() as connection:
        alive = connection.execute(
            "SELECT count(*) FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED'"
        ).fetchone()
    ledger = env.world.ledger
    reserved = [
        ledger.client.hlen(ledger.keys.reservation_amounts(tenant.tenant_id)) for tenant in env.tenants
    ]
    waiting = [client for client in env.clients if client.persistent and not client.accepted]
    return alive == (0,) and not any(reserved) and not waiting and env.messages() == 0


def retire(env: Environment) -> None:
    """Three hours, and then a month: what must go has its time to go, and every job fires once more."""
    env.clock.move(PAST_THE_GRACE_SECONDS)
    retain(env.world.database, env.scan, env.clock.now)
    env.clock.move(PAST_RETENTION_SECONDS)
    retain(env.world.database, env.scan, env.clock.now)
    fire_jobs(env)
