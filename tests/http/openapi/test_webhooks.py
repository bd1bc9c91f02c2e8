"""The OpenAPI document of webhooks is consistent with their function's responses (LIFE-7, LIFE-10)."""

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dpp.lifecycle.flow.intake.webhook_http import MAX_DELIVERY_BYTES, PROBLEMS
from dpp_cli.docs.openapi.examples import WEBHOOKS
from health.handler import handler as of_no_route
from lifecycle_webhook.handler import handler, wiring
from tests.http.openapi import conformance
from tests.http.openapi.conformance import DOCUMENT, as_response, request_of
from tests.lifecycle.environment import ASKS, SUCCEEDED, open_environment
from tests.lifecycle.signing import headers_of
from tests.lifecycle.test_webhook import SECRETS, environ
from tests.support.api import Answer, gateway_event, lambda_context

if TYPE_CHECKING:
    from schemathesis import Case, Response

__all__ = ["environ"]  # fixture

ROOT = "/v1/webhooks"
SOURCES = ("github", "jira", "slack")
SHOWN: Mapping[str, Mapping[str, Any]] = {source: WEBHOOKS[f"of_{source}"] for source in SOURCES}
SENT = {
    "github": WEBHOOKS["github"]["mention"],
    "jira": WEBHOOKS["jira"]["change"],
    "slack": WEBHOOKS["slack"]["reply"],
}
OPERATIONS = [one[:2] for one in conformance.OPERATIONS if one[1].startswith(ROOT)]


class Webhooks:
    """Calls the function as the sources do, with a signature of now by default."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.rewire(DPP_GITHUB_LOGIN=WEBHOOKS["github_login"])

    def rewire(self, **environ: str) -> None:
        """Restart the function with these additional environment variables."""
        if wiring.cache_info().currsize:
            wiring().database.close()
        wiring.cache_clear()
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)

    def deliver(self, source: str, payload: Any, *, kind: str = "issue_comment", at: datetime | None = None) -> Answer:
        """Send a signed delivery; a payload of bytes is the body itself."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.call(source, body, headers_of(source, body, kind=kind, at=at or datetime.now(UTC)))

    def call(self, source: str, body: bytes | None, headers: Mapping[str, str], method: str = "POST") -> Answer:
        return _answered(handler, method, source, headers, body)


def _answered(function: Any, method: str, source: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
    many = {name: [value] for name, value in headers.items()}
    answer = function(gateway_event(method, f"{ROOT}/{source}", many, body), lambda_context())
    sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
    return Answer(answer["statusCode"], sent, answer["body"])


@pytest.fixture
def webhooks(environ: pytest.MonkeyPatch) -> Iterator[Webhooks]:
    """The function with its own database and a secret for each source."""
    made = Webhooks(environ)
    yield made
    made.rewire()


def conforms(source: str, answer: Answer) -> None:
    conformance.assert_conforms("POST", f"{ROOT}/{source}", answer)


def sender(webhooks: Webhooks, *, signs: bool) -> conformance.Send:
    """Sends generated cases to the function, unchanged or with a valid signature."""

    def send(case: "Case[Any]") -> "Response":
        headers, _, body = request_of(case)
        source = case.path.removeprefix(f"{ROOT}/")
        if signs:
            kept = {name: value for name, value in headers.items() if name == "X-GitHub-Event"}
            headers |= headers_of(source, body or b"", at=datetime.now(UTC)) | kept
        return as_response(webhooks.call(source, body, headers, case.method.upper()), case.method, headers)

    return send


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_responses_to_unsigned_deliveries_conform_to_the_document(webhooks: Webhooks, method: str, path: str) -> None:
    """Any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    conformance.check_generated_requests(method, path, sender(webhooks, signs=False))


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_responses_to_signed_deliveries_conform_to_the_document(webhooks: Webhooks, method: str, path: str) -> None:
    """A signed case has all its headers again, whatever the generator left out."""

    def judge(response: "Response") -> None:
        assert response.status_code != 401

    without = frozenset({"negative_data_rejection", "missing_required_header"})
    conformance.check_generated_requests(method, path, sender(webhooks, signs=True), judge, without)


@pytest.mark.parametrize("source", SOURCES)
def test_a_body_that_the_document_allows_is_accepted(webhooks: Webhooks, source: str) -> None:
    """Generated from the document only, and signed."""

    def judge(body: Any, status: int, text: str) -> None:
        # 400: a body that the source does not send, or a rule that no schema can state
        # 200: Slack's challenge
        challenged = isinstance(body, dict) and "challenge" in body
        assert status in {202, 400, *({200} if challenged else ())}, text

    send = sender(webhooks, signs=True)
    assert conformance.statuses_of_valid_requests("POST", f"{ROOT}/{source}", send, judge)[202] >= 5


@pytest.mark.parametrize("source", SOURCES)
def test_a_body_is_read_as_json_whatever_its_media_type(webhooks: Webhooks, source: str) -> None:
    """GitHub can be set up to send a form, which is refused."""
    statuses = {b"{}": 202, b"payload=%7B%7D": 400}
    for body, status in statuses.items():
        signature = headers_of(source, body, kind="ping", at=datetime.now(UTC))
        for media in ("application/x-www-form-urlencoded", "text/plain", "application/json"):
            assert webhooks.call(source, body, signature | {"Content-Type": media}).status == status


ODD: tuple[Any, ...] = (None, 0, True, "", "x" * 5_000, "한\u202e", "9999-12-31T23:59:59-14:00", [], {})


def _variants(payload: Any) -> Iterator[Any]:
    """The payload without each of its members, and with an invalid value of each."""
    for path in _members(payload):
        *way, last = path
        for odd in (..., *ODD):
            changed = copy.deepcopy(payload)
            into = changed
            for name in way:
                into = into[name]
            if odd is ...:
                del into[last]
            else:
                into[last] = odd
            yield changed


def _members(payload: Any) -> Iterator[tuple[str, ...]]:
    for name, value in payload.items() if isinstance(payload, dict) else ():
        yield (name,)
        yield from ((name, *path) for path in _members(value))


@pytest.mark.parametrize("source", SOURCES)
def test_a_delivery_with_an_unexpected_member_gets_a_documented_response(webhooks: Webhooks, source: str) -> None:
    """A source may change its payloads; they are read, ignored or refused without a 5xx."""
    seen = Counter[int]()
    for payload in _variants(SENT[source]):
        answer = webhooks.deliver(source, payload)
        conforms(source, answer)
        seen[answer.status] += 1
    assert seen.keys() == {202, 400}


@pytest.mark.parametrize("source", SOURCES)
def test_the_examples_get_their_documented_responses(webhooks: Webhooks, database_url: str, source: str) -> None:
    """Each outcome, and Slack's challenge."""
    with open_environment(database_url) as env:
        payload = copy.deepcopy(SENT[source])
        if source == "slack":
            task_id = env.started("unclear", plan=[ASKS, SUCCEEDED], ticks=2)
            env.notify()
            thread = env.thread(task_id)
            payload["event"] |= {"channel": thread.channel, "thread_ts": thread.thread_ts}
    answers = [webhooks.deliver(source, payload) for _ in range(2)]
    if source == "slack":
        challenge = webhooks.deliver(source, WEBHOOKS["slack"]["challenge"])
        assert (challenge.status, challenge.body) == (200, WEBHOOKS["challenge"])
        conforms(source, challenge)
    else:
        answers.append(webhooks.deliver(source, {"zen": "Design for failure."}, kind="ping"))
        webhooks.rewire(DPP_RETENTION='{"horizon_days": 1}')
        answers.append(webhooks.deliver(source, payload))
    for answer in answers:
        conforms(source, answer)
        assert (answer.status, answer.body) == (202, SHOWN[source][answer.body["outcome"]])
    assert {answer.body["outcome"] for answer in answers} == SHOWN[source].keys()


def _refusals(webhooks: Webhooks, source: str) -> Iterator[Answer]:
    """One response per reason to refuse a delivery."""
    payload, long_ago = SENT[source], datetime.now(UTC) - timedelta(seconds=301)
    yield webhooks.deliver(source, b"no json")
    yield webhooks.deliver(source, [])
    yield webhooks.call(source, b"{}", headers_of(source, b"other"))
    yield webhooks.call(source, b"{}", {})
    yield webhooks.call(source, None, {}, method="GET")
    yield webhooks.deliver(source, b" " * (MAX_DELIVERY_BYTES + 1))
    yield _answered(of_no_route, "POST", source, {}, b"{}")  # without deployed roles
    if source == "slack":
        yield webhooks.deliver(source, payload, at=long_ago)
    webhooks.rewire(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    yield webhooks.deliver(source, payload)
    webhooks.rewire(**dict.fromkeys(SECRETS, ""))
    yield webhooks.deliver(source, payload)
    webhooks.rewire(DATABASE_URL="")
    yield webhooks.deliver(source, payload)


@pytest.mark.parametrize("source", SOURCES)
def test_the_documented_errors_are_exactly_those_that_occur(webhooks: Webhooks, source: str) -> None:
    answers = list(_refusals(webhooks, source))
    for answer in answers:
        conformance.assert_conforms("POST", f"{ROOT}/{source}", answer, without=frozenset({"not_a_server_error"}))
    responses = DOCUMENT["paths"][f"{ROOT}/{source}"]["post"]["responses"]
    documented = {
        (int(status), reason_code)
        for status, described in responses.items()
        for reason_code in described["content"].get("application/problem+json", {}).get("examples", ())
    }
    assert {(answer.status, answer.body["reason_code"]) for answer in answers} == documented
    own = {(kind.status, kind.reason_code) for kind in PROBLEMS.values()}
    assert own - documented == (set() if source == "slack" else {(401, "DELIVERY_STALE")})


def test_the_conformance_test_can_fail(webhooks: Webhooks) -> None:
    """The checks find a status, a header or a member that is not in the document."""
    good, bad = webhooks.deliver("slack", {"type": "x"}), webhooks.call("slack", b"{}", {})
    unnamed = {name: value for name, value in bad.headers.items() if name != "WWW-Authenticate"}
    conformance.assert_lies_are_found(
        "POST",
        f"{ROOT}/slack",
        good,
        Answer(bad.status, unnamed, bad.text),
        Answer(good.status, good.headers, json.dumps({"outcome": "LOST"})),
    )
