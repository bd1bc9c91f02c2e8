"""Authentication errors posted while publisher and consumer are killed: each handled once, none lost.

`python -m tests.soak.auth_errors --errors 2000` on the running local stack; `make soak-auth-errors` brings one up for
it (AUTH-2, AUTH-4, AUTH-5).
"""

import argparse
import random
import statistics
import sys
import threading
import time
from collections import Counter
from uuid import uuid4

import httpx
import psycopg

from dpp.money.credits import create_tenant
from dpp.platform.keys import api_keys
from dpp_cli.local.state import StackState, running_state
from dpp_cli.paths import state_dir
from tests.soak.havoc import environments, kill_one

_VICTIMS = ("auth_errors_publish", "auth_errors_consume")
_CLIENTS = 4
_TRY_FOR_SECONDS = 120.0
_REST_WITHIN_SECONDS = 900.0
"""A killed consumer's batch comes again after its visibility, 150 s; what a queue lost after a quarter of an hour."""

_PROMISES = {
    "errors that are not analysed": """
        SELECT count(*) FROM auth_error WHERE reported_by = %(tenant)s AND status <> 'ANALYSIS_COMPLETED'""",
    "errors that came to a state twice, or to none": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id, s.status, count(t.transition_id)
          FROM auth_error e CROSS JOIN (VALUES ('NEW'), ('ANALYSIS_REQUESTED'), ('ANALYSIS_COMPLETED')) s (status)
          LEFT JOIN auth_error_transition t ON t.auth_error_id = e.auth_error_id AND t.to_status = s.status
          WHERE e.reported_by = %(tenant)s
          GROUP BY 1, 2 HAVING count(t.transition_id) <> 1) AS odd""",
    "events that are not published, or not handled": """
        SELECT count(*) FROM outbox_message m JOIN auth_error e ON e.auth_error_id = m.aggregate_id
        LEFT JOIN processed_message p USING (outbox_id)
        WHERE e.reported_by = %(tenant)s
          AND (m.status <> 'PUBLISHED' OR m.handled_at IS NULL OR p.status IS DISTINCT FROM 'DONE')""",
    "errors that have not two events": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id FROM auth_error e LEFT JOIN outbox_message m ON m.aggregate_id = e.auth_error_id
          WHERE e.reported_by = %(tenant)s GROUP BY 1 HAVING count(m.outbox_id) <> 2) AS odd""",
    "errors that are not in one cluster": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id FROM auth_error e LEFT JOIN auth_error_cluster_item i USING (auth_error_id)
          WHERE e.reported_by = %(tenant)s GROUP BY 1 HAVING count(i.cluster_id) <> 1) AS odd""",
    "clusters that count wrong": """
        SELECT count(*) FROM (
          SELECT c.cluster_id FROM auth_error_cluster c LEFT JOIN auth_error_cluster_item i USING (cluster_id)
          GROUP BY c.cluster_id HAVING c.error_count <> count(i.auth_error_id)) AS odd""",
}


def main() -> int:
    """Post, kill, wait for rest, check; 1 where a promise is broken."""
    options = _parser().parse_args()
    state, chance = running_state(), random.Random(options.seed)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        tenant, minted = f"soak_{uuid4().hex[:12]}", api_keys.mint()
        create_tenant(connection, tenant, "A soak", 1_000_000)
        api_keys.store(connection, minted, tenant)
        began = time.monotonic()
        answers, kills = _post_and_kill(state, minted.token, options, chance)
        posted = time.monotonic() - began
        _say(f"{options.errors} errors in {posted:.0f} s: answers {dict(answers)}, kills {dict(kills)}")
        rest = _come_to_rest(connection, tenant)
        faults = [*rest, *_broken(connection, tenant, options.errors)]
        _tell(connection, tenant)
    for fault in faults:
        _say(f"BROKEN: {fault}")
    _say(f"{len(faults)} promises broken" if faults else "each error was handled once, and none is lost")
    return 1 if faults or not kills else 0


def _post_and_kill(
    state: StackState, token: str, options: argparse.Namespace, chance: random.Random
) -> tuple[Counter[int], Counter[str]]:
    left, lock = iter(range(options.errors)), threading.Lock()
    answers, kills, stop = Counter[int](), Counter[str](), threading.Event()

    def post() -> None:
        with httpx.Client(base_url=state.api_base_url, timeout=40, trust_env=False) as http:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return
                status = _posted(http, token, number)
                with lock:
                    answers[status] += 1

    def kill() -> None:
        while not stop.wait(chance.uniform(0.5, 1.5) * options.every):
            of_ours = [one for one in environments(state, state_dir()) if one[1].endswith(_VICTIMS)]
            if (struck := kill_one(of_ours, chance)) is not None:
                kills[struck] += 1

    clients = [threading.Thread(target=post) for _ in range(_CLIENTS)]
    killer = threading.Thread(target=kill)
    for thread in (*clients, killer):
        thread.start()
    for thread in clients:
        thread.join()
    stop.set()
    killer.join()
    return answers, kills


def _posted(http: httpx.Client, token: str, number: int) -> int:
    """The final answer to a report, which is repeated under its requestId until there is one."""
    failure = f"com.example.auth.Failure{chr(ord('A') + number % 7)}"
    body = {
        "requestId": f"soak-{number}",
        "occurredAt": "2026-03-01T12:00:00+09:00",
        "httpStatus": 401,
        "exceptionClass": failure,
        "stacktrace": f"{failure}: no\n\tat com.example.auth.Step.run(Step.java:{number})",
    }
    until = time.monotonic() + _TRY_FOR_SECONDS
    while True:
        try:
            answer = http.post("/api/auth-errors", headers={"Authorization": f"Bearer {token}"}, json=body)
            if answer.status_code < 500 and answer.status_code != 429:
                return answer.status_code
        except httpx.TransportError:
            pass
        if time.monotonic() > until:
            return 0
        time.sleep(1)


def _come_to_rest(connection: psycopg.Connection[tuple[object, ...]], tenant: str) -> list[str]:
    began, query = time.monotonic(), _PROMISES["events that are not published, or not handled"]
    while (left := _count(connection, query, tenant)) or _count(
        connection, _PROMISES["errors that are not analysed"], tenant
    ):
        if time.monotonic() - began > _REST_WITHIN_SECONDS:
            return [f"{left} events came to no end within {_REST_WITHIN_SECONDS:.0f} s"]
        _say(f"{left} events under way")
        time.sleep(10)
    _say(f"at rest after {time.monotonic() - began:.0f} s")
    return []


def _broken(connection: psycopg.Connection[tuple[object, ...]], tenant: str, errors: int) -> list[str]:
    found = _count(connection, "SELECT count(*) FROM auth_error WHERE reported_by = %(tenant)s", tenant)
    faults = [] if found == errors else [f"{errors} errors posted, {found} recorded"]
    for promise, query in _PROMISES.items():
        if count := _count(connection, query, tenant):
            faults.append(f"{count} {promise}")
    return faults


def _tell(connection: psycopg.Connection[tuple[object, ...]], tenant: str) -> None:
    """How long it took from the post to the analysis, and how often a message was worked on more than once."""
    rows = connection.execute(
        "SELECT extract(epoch FROM analyzed_at - created_at)::float8 FROM auth_error"
        " WHERE reported_by = %(tenant)s AND analyzed_at IS NOT NULL",
        {"tenant": tenant},
    ).fetchall()
    seconds = sorted(float(str(row[0])) for row in rows)
    again = _count(
        connection,
        "SELECT count(*) FROM processed_message p JOIN outbox_message m USING (outbox_id)"
        " JOIN auth_error e ON e.auth_error_id = m.aggregate_id"
        " WHERE e.reported_by = %(tenant)s AND p.attempts > 1",
        tenant,
    )
    if len(seconds) > 1:
        cut = statistics.quantiles(seconds, n=100)
        _say(
            f"post to analysed: median {cut[49]:.2f} s, 99 % within {cut[98]:.1f} s; {again} leases taken again"
        )


def _count(connection: psycopg.Connection[tuple[object, ...]], query: str, tenant: str) -> int:
    (row,) = connection.execute(query.encode(), {"tenant": tenant}).fetchall()
    return int(str(row[0]))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.auth_errors", description=__doc__)
    parser.add_argument("--errors", type=int, default=2_000)
    parser.add_argument("--every", type=float, default=3, help="seconds between two kills, about")
    parser.add_argument("--seed", type=int, default=0, help="of the kills' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
