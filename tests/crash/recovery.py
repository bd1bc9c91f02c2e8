"""The time after a crash: clients repeat requests, messages come again, and the jobs run on their schedules."""

from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.retain import retain
from dpp.runs.jobs.sweep import sweep
from tests.crash.environment import Environment

ROUNDS_SECONDS = (6, 70, 70, 320, 320, 3_000, 400)
"""Pauses between rounds: past the lock of a key, the unsent minute, a lease, a stuck claim twice, an hour."""
PAST_THE_GRACE_SECONDS = 3 * 3_600
PAST_RETENTION_SECONDS = 31 * 86_400


def run_jobs(env: Environment) -> None:
    """One tick of each job but retention, by containers of their own."""
    world, now = env.world, env.clock.now
    reap(world.finalize_effects(), env.scan, now)
    sweep(world.finalize_effects(), env.scan, now)
    reconcile(world.reconcile_effects(), env.scan, now)


def recover(env: Environment) -> bool:
    """Rounds until nothing is left to do; False if that does not happen.

    Disabled packs stay disabled for the first round; then an operator enables them.
    """
    for number, pause in enumerate(ROUNDS_SECONDS):
        env.clock.move(pause)
        if number == 1:
            env.switch(enabled=True)
        for client in env.clients:
            if client.persistent and not client.accepted:
                client.submit(env.world.submit_effects())
        env.deliver(env.work_effects())
        run_jobs(env)
        env.deliver(env.work_effects())
        if is_idle(env):
            return True
    return False


def is_idle(env: Environment) -> bool:
    """No run is open, nothing is reserved, no message is left, and every persistent client is accepted."""
    alive = env.world.sql("SELECT count(*) FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED'")
    ledger = env.world.ledger
    reserved = [ledger.client.hlen(ledger.keys.reservation_amounts(tenant.tenant_id)) for tenant in env.tenants]
    waiting = [client for client in env.clients if client.persistent and not client.accepted]
    return alive == [(0,)] and not any(reserved) and not waiting and env.messages() == 0


def retire(env: Environment) -> None:
    """Let three hours pass, and then a month; retention runs after each, and every job once more at the end."""
    env.clock.move(PAST_THE_GRACE_SECONDS)
    retain(env.world.database, env.scan, env.clock.now)
    env.clock.move(PAST_RETENTION_SECONDS)
    retain(env.world.database, env.scan, env.clock.now)
    run_jobs(env)
