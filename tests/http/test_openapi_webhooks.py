"""The OpenAPI document of webhooks is consistent with their function's responses (LIFE-7, LIFE-10)."""

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup

from dpp.lifecycle.flow.intake.webhook_http import MAX_DELIVERY_BYTES, PROBLEMS
from dpp_cli.docs.openapi import webhook_examples as examples
from health.handler import handler as of_no_route
from lifecycle_webhook.handler import handler, wiring
from tests.http.test_openapi import BOUNDED, CHECKS, DOCUMENT, SCHEMA, as_response, sent_of
from tests.lifecycle.environment import ASKS, SUCCEEDED, open_environment
from tests.lifecycle.signing import headers_of
from tests.lifecycle.test_webhook import SECRETS, environ
from tests.support.api import Answer, gateway_event, lambda_context

__all__ = ["environ"]  # fixture

ROOT = "/v1/webhooks"
SOURCES = ("github", "jira", "slack")
SHOWN: Mapping[str, Mapping[str, Any]] = {
    "github": examples.OF_GITHUB,
    "jira": examples.OF_JIRA,
    "slack": examples.OF_SLACK,
}
SENT = {"github": examples.GITHUB["mention"], "jira": examples.JIRA["change"], "slack": examples.SLACK["reply"]}
OF_WEBHOOKS = SCHEMA.include(path_regex=f"^{ROOT}")


class Webhooks:
    """Calls the function as the sources do, with a signature of now by default."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.rewire(DPP_GITHUB_LOGIN=examples.GITHUB_LOGIN)

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


def conforms(source: str, answer: Answer, checks: Sequence[Any] = CHECKS) -> None:
    """Assert that the document has this response, for a POST and any other method."""
    operation = SCHEMA[f"{ROOT}/{source}"]["POST"]
    operation.Case().validate_response(as_response(answer, "POST", "/", {}), checks=list(checks))


def send(case: schemathesis.Case[Any], webhooks: Webhooks, *, signs: bool) -> schemathesis.Response:
    """Send a generated case to the function, unchanged or with a valid signature."""
    headers, path, body = sent_of(case)
    source = path.removeprefix(f"{ROOT}/")
    if signs:
        kept = {name: value for name, value in headers.items() if name == "X-GitHub-Event"}
        headers |= headers_of(source, body or b"", at=datetime.now(UTC)) | kept
    return as_response(webhooks.call(source, body, headers, case.method.upper()), case.method, path, headers)


@pytest.mark.parametrize("signs", [True, False], ids=["signed", "as-it-is"])
@OF_WEBHOOKS.parametrize()
@BOUNDED
def test_responses_conform_to_the_document(case: schemathesis.Case[Any], webhooks: Webhooks, signs: bool) -> None:
    """Any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    response = send(case, webhooks, signs=signs)
    # A signed case has all its headers again, whatever the generator left out.
    of_its_own = (schemathesis.checks.negative_data_rejection, schemathesis.checks.missing_required_header)
    case.validate_response(response, checks=[one for one in CHECKS if not signs or one not in of_its_own])
    if signs:
        assert response.status_code != 401


@pytest.mark.parametrize("source", SOURCES)
def test_a_body_that_the_document_allows_is_accepted(webhooks: Webhooks, source: str) -> None:
    """Generated from the document only, and signed."""
    seen = Counter[int]()
    strategy = SCHEMA[f"{ROOT}/{source}"]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=50)
    @given(case=strategy)
    def deliver(case: schemathesis.Case[Any]) -> None:
        response = send(case, webhooks, signs=True)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        # 400: a body that the source does not send, or a rule that no schema can state
        # 200: Slack's challenge
        challenged = isinstance(case.body, dict) and "challenge" in case.body
        assert response.status_code in {202, 400, *({200} if challenged else ())}, response.text

    deliver()
    assert seen[202] >= 5


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
        challenge = webhooks.deliver(source, examples.SLACK["challenge"])
        assert (challenge.status, challenge.body) == (200, examples.CHALLENGE)
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
        conforms(source, answer, [check for check in CHECKS if check is not not_a_server_error])
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
    conforms("slack", good)
    unnamed = {name: value for name, value in bad.headers.items() if name != "WWW-Authenticate"}
    lies = (
        Answer(418, good.headers, good.text),
        Answer(bad.status, unnamed, bad.text),
        Answer(good.status, good.headers, json.dumps({"outcome": "LOST"})),
    )
    for lie in lies:
        with pytest.raises(FailureGroup):
            conforms("slack", lie)
