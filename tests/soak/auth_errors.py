"""Report authentication errors while publisher and consumer are killed: each is handled once (AUTH-2, AUTH-4, AUTH-5).

Uses the running local stack; `make soak-auth-errors` starts one.
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
from tests.soak.faults import environments, kill_one
from tests.soak.report import print_line, print_result

_KILLED = ("auth_errors_publish", "auth_errors_consume")
_CLIENTS = 4
_RETRY_FOR_SECONDS = 120.0
_END_WITHIN_SECONDS = 900.0
"""The batch of a killed consumer is delivered again after 150 s, a lost message is sent again after 15 minutes."""

_INVARIANTS = {
    "errors are not analysed": """
        SELECT count(*) FROM auth_error WHERE reported_by = %(tenant)s AND status <> 'ANALYSIS_COMPLETED'""",
    "error states were reached twice or never": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id, s.status, count(t.transition_id)
          FROM auth_error e CROSS JOIN (VALUES ('NEW'), ('ANALYSIS_REQUESTED'), ('ANALYSIS_COMPLETED')) s (status)
          LEFT JOIN auth_error_transition t ON t.auth_error_id = e.auth_error_id AND t.to_status = s.status
          WHERE e.reported_by = %(tenant)s
          GROUP BY 1, 2 HAVING count(t.transition_id) <> 1) AS odd""",
    "events are not published or not handled": """
        SELECT count(*) FROM outbox_message m JOIN auth_error e ON e.auth_error_id = m.aggregate_id
        LEFT JOIN processed_message p USING (outbox_id)
        WHERE e.reported_by = %(tenant)s
          AND (m.status <> 'PUBLISHED' OR m.handled_at IS NULL OR p.status IS DISTINCT FROM 'DONE')""",
    "errors do not have two events": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id FROM auth_error e LEFT JOIN outbox_message m ON m.aggregate_id = e.auth_error_id
          WHERE e.reported_by = %(tenant)s GROUP BY 1 HAVING count(m.outbox_id) <> 2) AS odd""",
    "errors are not in exactly one cluster": """
        SELECT count(*) FROM (
          SELECT e.auth_error_id FROM auth_error e LEFT JOIN auth_error_cluster_item i USING (auth_error_id)
          WHERE e.reported_by = %(tenant)s GROUP BY 1 HAVING count(i.cluster_id) <> 1) AS odd""",
    "clusters have a wrong count": """
        SELECT count(*) FROM (
          SELECT c.cluster_id FROM auth_error_cluster c LEFT JOIN auth_error_cluster_item i USING (cluster_id)
          GROUP BY c.cluster_id HAVING c.error_count <> count(i.auth_error_id)) AS odd""",
}


def main() -> int:
    """Run the command; 1 if an invariant is broken."""
    options = _parser().parse_args()
    state, chance = running_state(), random.Random(options.seed)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        tenant, minted = f"soak_{uuid4().hex[:12]}", api_keys.mint()
        create_tenant(connection, tenant, "A soak", 1_000_000)
        api_keys.store(connection, minted, tenant)
        began = time.monotonic()
        answers, kills = _post_and_kill(state, minted.token, options, chance)
        posted = time.monotonic() - began
        print_line(f"{options.errors} errors in {posted:.0f} s: answers {dict(answers)}, kills {dict(kills)}")
        broken = [*_await_end(connection, tenant), *_broken(connection, tenant, options.errors)]
        _print_times(connection, tenant)
    if not kills:
        broken.append("no process was killed, so nothing was tested")
    return print_result(broken, "each error was handled once, and none is lost")


def _post_and_kill(
    state: StackState, token: str, options: argparse.Namespace, chance: random.Random
) -> tuple[Counter[int], Counter[str]]:
    numbers, lock = iter(range(options.errors)), threading.Lock()
    answers, kills, stop = Counter[int](), Counter[str](), threading.Event()

    def post() -> None:
        with httpx.Client(base_url=state.api_base_url, timeout=40, trust_env=False) as http:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                status = _posted(http, token, number)
                with lock:
                    answers[status] += 1

    def kill() -> None:
        while not stop.wait(chance.uniform(0.5, 1.5) * options.every):
            found = [one for one in environments(state, state_dir()) if one[1].endswith(_KILLED)]
            if (killed := kill_one(found, chance)) is not None:
                kills[killed] += 1

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
    """Repeat a report with its requestId until a reply is final; its status, 0 for none."""
    failure = f"com.example.auth.Failure{chr(ord('A') + number % 7)}"
    body = {
        "requestId": f"soak-{number}",
        "occurredAt": "2026-03-01T12:00:00+09:00",
        "httpStatus": 401,
        "exceptionClass": failure,
        "stacktrace": f"{failure}: no\n\tat com.example.auth.Step.run(Step.java:{number})",
    }
    until = time.monotonic() + _RETRY_FOR_SECONDS
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


def _await_end(connection: psycopg.Connection[tuple[object, ...]], tenant: str) -> list[str]:
    began, query = time.monotonic(), _INVARIANTS["events are not published or not handled"]
    while (left := _count(connection, query, tenant)) or _count(
        connection, _INVARIANTS["errors are not analysed"], tenant
    ):
        if time.monotonic() - began > _END_WITHIN_SECONDS:
            return [f"{left} events were not handled within {_END_WITHIN_SECONDS:.0f} s"]
        print_line(f"{left} events are not handled yet")
        time.sleep(10)
    print_line(f"all events are handled after {time.monotonic() - began:.0f} s")
    return []


def _broken(connection: psycopg.Connection[tuple[object, ...]], tenant: str, errors: int) -> list[str]:
    found = _count(connection, "SELECT count(*) FROM auth_error WHERE reported_by = %(tenant)s", tenant)
    broken = [] if found == errors else [f"{errors} errors reported, {found} recorded"]
    for sentence, query in _INVARIANTS.items():
        if count := _count(connection, query, tenant):
            broken.append(f"{count} {sentence}")
    return broken


def _print_times(connection: psycopg.Connection[tuple[object, ...]], tenant: str) -> None:
    """Print the time from report to analysis, and the number of messages that needed more than one attempt."""
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
        print_line(f"report to analysis: median {cut[49]:.2f} s, 99 % within {cut[98]:.1f} s; {again} messages retried")


def _count(connection: psycopg.Connection[tuple[object, ...]], query: str, tenant: str) -> int:
    (row,) = connection.execute(query.encode(), {"tenant": tenant}).fetchall()
    return int(str(row[0]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.auth_errors", description=__doc__)
    parser.add_argument("--errors", type=int, default=2_000, help="number of errors (default 2000)")
    parser.add_argument("--every", type=float, default=3, help="mean seconds between two kills (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the kills' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
