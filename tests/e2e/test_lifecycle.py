"""From a mention on GitHub to an answer in Slack on the deployed stack, and its end when its time is over
(LIFE-1 … LIFE-8)."""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from dpp.money.credits import create_tenant
from dpp_cli.main import app
from tests.e2e.conftest import Platform
from tests.e2e.outside import CHANNEL, Outside, served
from tests.lifecycle.poll_environment import LOGIN, recorded
from tests.retention.test_rules import SEED
from tests.support.world import A_CREDIT, give_credit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

WITHIN_SECONDS = 150.0  # two firings by the clock, on a busy machine
POLL_SECONDS = 0.5
_ASKED = "What is asked of us in {}, in which we were mentioned, and what we should answer"
"""The offline engine is sure of a sentence with all words of the question only."""
PLAIN = f"@{LOGIN} {_ASKED.format('the Greetings')}: the cost of moving is two rents."
UNSURE = f"@{LOGIN} hi"
HELP = f"{_ASKED.format('the Greetings')}: it costs two rents."


@pytest.fixture(scope="module")
def outside(platform: Platform) -> Iterator[Outside]:
    """GitHub and Slack; and a tenant with money, who pays for tasks."""
    tenant_id = os.environ["DPP_LIFECYCLE_TENANT"]
    create_tenant(platform.database, tenant_id, "End to end", 100_000)
    give_credit(platform.database, platform.ledger, tenant_id, A_CREDIT)
    with served() as opened:
        yield opened


def until[Found](what: str, look: Callable[[], Found | None]) -> Found:
    """Poll until the result is true and return it."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"{what}: not within {WITHIN_SECONDS} s")


def ask_at_once(platform: Platform) -> None:
    """A source that did not answer before the stand-in stood is asked again by the next firing."""
    platform.database.execute("UPDATE lifecycle_sources SET next_poll_at = now(), etag = NULL")


def task_of(platform: Platform, number: int) -> str | None:
    row = platform.database.execute(
        "SELECT task_id FROM lifecycle_tasks WHERE event_id = %s", [f"github:o/r/issues/comments/{1000 + number}"]
    ).fetchone()
    return None if row is None else str(row[0])


def delivered(platform: Platform, number: int, body: str) -> dict[str, Any]:
    """GitHub calls with the same comment."""
    received = recorded("github_delivery_issue_comment")
    received["comment"] |= {"id": 1000 + number, "body": body}
    received["comment"]["url"] = f"https://api.github.com/repos/o/r/issues/comments/{1000 + number}"
    received["comment"]["created_at"] = received["comment"]["updated_at"] = time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime()
    )
    raw = json.dumps(received).encode()
    headers = {
        "X-GitHub-Event": "issue_comment",
        "X-Hub-Signature-256": f"sha256={_mac('DPP_GITHUB_WEBHOOK_SECRET', raw)}",
    }
    answer = _called(platform, "github", raw, headers)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def replied(platform: Platform, thread_ts: str, text: str) -> httpx.Response:
    """A person replies in a thread of Slack's."""
    received = recorded("slack_delivery_reply")
    received["event"] |= {"channel": CHANNEL, "thread_ts": thread_ts, "text": text}
    raw, stamp = json.dumps(received).encode(), str(int(time.time()))
    signed = b"v0:" + stamp.encode() + b":" + raw
    headers = {
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={_mac('DPP_SLACK_SIGNING_SECRET', signed)}",
    }
    return _called(platform, "slack", raw, headers)


def _mac(secret: str, signed: bytes) -> str:
    return hmac.new(os.environ[secret].encode(), signed, hashlib.sha256).hexdigest()


def _called(platform: Platform, source: str, raw: bytes, headers: dict[str, str]) -> httpx.Response:
    sent = {"Content-Type": "application/json", **headers}
    return platform.call("POST", f"/v1/webhooks/{source}", content=raw, headers=sent)


def state_keys(platform: Platform) -> set[str]:
    """Return the keys in the state bucket."""
    found = platform.aws("s3").list_objects_v2(Bucket=platform.state.outputs["StateBucket"])
    return {one["Key"] for one in found.get("Contents", [])}


def test_a_mention_is_answered_in_its_thread_once(platform: Platform, outside: Outside) -> None:
    """LIFE-1 … LIFE-7: polled, and called with as well; carried out by a run that the tenant paid."""
    outside.mention(1, PLAIN)
    ask_at_once(platform)
    task_id = until("a task", lambda: task_of(platform, 1))
    assert delivered(platform, 1, PLAIN)["outcome"] == "DUPLICATE"
    done = until("an answer", lambda: outside.received("Done for "))[0]
    [opening] = outside.received("Mentioned by octocat in o/r")
    assert (opening["channel"], "thread_ts" in opening) == (CHANNEL, False)
    assert done["thread_ts"] == opening["ts"]
    assert "the cost of moving" in done["text"]
    until(
        "the event's end",
        lambda: platform.database.execute(
            "SELECT 1 FROM lifecycle_events WHERE status = 'COMPLETED' AND event_id LIKE '%/1001'"
        ).fetchone(),
    )
    [(run_id, charged)] = platform.database.execute(
        "SELECT run_id::text, actual_cost_usd_micros FROM runs WHERE idempotency_key = %s", [f"{task_id}-1"]
    ).fetchall()
    assert charged > 0
    assert state_keys(platform) >= {
        f"state/prompts/{task_id}.md",
        *(f"state/results/{task_id}{rest}" for rest in (".json", "-raw.json", "-soldier-id", "-session-id")),
        *(f"logs/sessions/{run_id}{rest}" for rest in (".json", ".err")),
    }
    assert platform.database.execute("SELECT count(*) FROM lifecycle_threads").fetchone() == (0,)
    assert outside.unauthorized == 0


def test_a_person_who_is_asked_in_slack_is_heard(platform: Platform, outside: Outside) -> None:
    """LIFE-10: by webhook this time; the answer to a mere greeting is not reliable enough."""
    assert delivered(platform, 2, UNSURE)["outcome"] == "ACCEPTED"
    task_id = until("a task", lambda: task_of(platform, 2))
    question = until("a question", lambda: outside.received("No answer is reliable enough"))[0]
    until("what is awaited", lambda: platform.database.execute("SELECT 1 FROM lifecycle_awaiting").fetchone())
    assert replied(platform, question["thread_ts"], HELP).json()["outcome"] == "ACCEPTED"
    done = until(
        "an answer", lambda: [p for p in outside.received("Done for ") if p["thread_ts"] == question["thread_ts"]]
    )
    assert "it costs two rents" in done[0]["text"]
    assert platform.database.execute(
        "SELECT attempt, outcome FROM lifecycle_tasks WHERE task_id = %s", [task_id]
    ).fetchone() == (2, "SUCCEEDED")
    assert platform.database.execute("SELECT count(*) FROM lifecycle_awaiting").fetchone() == (0,)


def test_what_has_served_is_gone_after_its_time_and_not_before(platform: Platform, outside: Outside) -> None:
    """LIFE-1 … LIFE-6, LIFE-8: aged by passed time, by the seed's table, and cleaned by the deployed chamberlain."""
    ids = [row[0] for row in platform.database.execute("SELECT task_id FROM lifecycle_tasks").fetchall()]
    assert len(ids) == 2
    first, second, third = (SEED[name] + 1 for name in ("prompts_days", "queue_days", "seen_days"))
    _pass_days(platform, first)
    _clean(platform)
    left = state_keys(platform)
    assert not any(key.startswith("state/prompts/") for key in left)
    assert {key for key in left if key.startswith("state/results/")}
    assert _count(platform, "lifecycle_events") == _count(platform, "lifecycle_tasks") == 2
    _pass_days(platform, second - first)
    _clean(platform)
    assert state_keys(platform) == set()
    for table in ("events", "tasks", "messages WHERE task_id IS NOT NULL", "objects", "deletions"):
        assert _count(platform, f"lifecycle_{table}") == 0, table
    assert _count(platform, "lifecycle_seen") == 2
    outside.mention(1, PLAIN)  # sent again by the source
    ask_at_once(platform)
    assert delivered(platform, 2, UNSURE)["outcome"] == "DUPLICATE"
    assert _count(platform, "lifecycle_tasks") == 0
    _pass_days(platform, third - second)
    _clean(platform)
    assert _count(platform, "lifecycle_seen") == 0


def _count(platform: Platform, table: str) -> int:
    row = platform.database.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


AGED = {
    "lifecycle_seen": ("seen_at",),
    "lifecycle_events": ("happened_at", "created_at", "dispatched_at", "ended_at"),
    "lifecycle_tasks": ("created_at", "started_at", "ended_at", "next_look_at"),
    "lifecycle_messages": ("created_at", "sent_at"),
    "lifecycle_objects": ("created_at",),
}


def _pass_days(platform: Platform, days: int) -> None:
    """All of it happened so many days earlier."""
    with platform.database.transaction():
        platform.database.execute("SET LOCAL session_replication_role = replica")
        for table, columns in AGED.items():
            moved = ", ".join(f"{column} = {column} - make_interval(days => %(days)s)" for column in columns)
            platform.database.execute(f"UPDATE {table} SET {moved}".encode(), {"days": days})


def _clean(platform: Platform) -> None:
    """A cleanup as an operator begins it; what it leaves to do the deployed chamberlain does."""
    running, listed = "cleanups WHERE status = 'RUNNING'", "lifecycle_deletions"
    until("the end of the day's own", lambda: _count(platform, running) == 0)
    ran = CliRunner().invoke(app, ["lifecycle", "run", "--as", "e2e"])
    assert ran.exit_code == 0, ran.output
    until("the end", lambda: _count(platform, running) == _count(platform, listed) == 0)
