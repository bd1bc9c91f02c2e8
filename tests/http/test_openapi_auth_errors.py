"""The OpenAPI document of authentication errors is consistent with their function's responses (AUTH-1, AUTH-11)."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.core.failures import FailureGroup

from dpp.auth_errors.api.http import PROBLEMS
from dpp_cli.docs.openapi import auth_error_examples as examples
from tests.auth_errors.api import AuthErrorsApi, Machinery, Queues, a_report, insert_example_rows
from tests.http.test_openapi import BOUNDED, CHECKS, DOCUMENT, SCHEMA, as_response, authorize, sent_of, validator
from tests.support.api import Answer
from tests.support.world import World

ROOT = "/api/auth-errors"
IDS = {"auth_error_id": examples.AUTH_ERROR_ID, "cluster_id": examples.CLUSTER_ID}
OF_AUTH_ERRORS = SCHEMA.include(path_regex=f"^{ROOT}")


@pytest.fixture
def errors(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthErrorsApi]:
    """The API of a world with the document's example error, analysed and in its example cluster."""
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        insert_example_rows(client)
        yield client


def send(case: schemathesis.Case[Any], client: AuthErrorsApi) -> schemathesis.Response:
    """Send a generated case to the function with the key that the document requires."""
    headers, path, body = sent_of(case)
    reports = (case.method.upper(), case.path) == ("POST", ROOT)
    authorize(case, headers, client.tenant if reports else client.operator)
    query = {
        str(name): [str(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in (case.query or {}).items()
    }
    answer = client.call(case.method.upper(), path, headers=headers, query=query, body=body)
    return as_response(answer, case.method, path, headers)


@OF_AUTH_ERRORS.parametrize()
@BOUNDED
def test_responses_conform_to_the_document(case: schemathesis.Case[Any], errors: AuthErrorsApi) -> None:
    """Any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    case.validate_response(send(case, errors), checks=CHECKS)


EARLIEST, TOO_LATE = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def test_a_report_that_the_document_allows_is_accepted(errors: AuthErrorsApi) -> None:
    """AUTH-1: generated from the document only."""
    seen = Counter[int]()
    strategy = SCHEMA[ROOT]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=50)
    @given(case=strategy)
    def report(case: schemathesis.Case[Any]) -> None:
        response = send(case, errors)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        if response.status_code == 400:  # a rule that only the description can state
            assert "\\u0000" in json.dumps(case.body), response.text
        elif response.status_code == 422:
            assert "must be a time in the years 2000 to 2099" in response.text
            occurred_at = datetime.fromisoformat(json.loads(json.dumps(case.body))["occurredAt"])
            assert not EARLIEST <= occurred_at < TOO_LATE
        else:  # 409: the same id for another report
            assert response.status_code in {200, 201, 409}, response.text

    report()
    assert seen[201] >= 5


def test_the_examples_are_accepted(errors: AuthErrorsApi) -> None:
    sent = Counter[tuple[str, int]]()
    for path, operations in DOCUMENT["paths"].items():
        if not path.startswith(ROOT) or "post" not in operations:
            continue
        where = path.format(**IDS)
        content = operations["post"]["requestBody"]["content"]["application/json"]
        token = errors.tenant if path == ROOT else errors.operator
        for example in content["examples"].values():
            body = json.dumps(example["value"])
            answers = [errors.call("POST", where, token=token, body=body) for _ in range(2)]
            sent.update((path.removeprefix(ROOT), answer.status) for answer in answers)
    assert sent == {
        ("", 201): 2,
        ("", 200): 2,
        ("/clusters/{cluster_id}/decisions", 200): 2,
        ("/{auth_error_id}/decisions", 409): 2,  # the cluster's decision came first, and was final
    }


def test_the_example_of_a_decision_is_accepted(errors: AuthErrorsApi) -> None:
    """AUTH-11."""
    [decision] = examples.DECISIONS.values()
    answers = [errors.decide(f"/{examples.AUTH_ERROR_ID}", decision) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    for answer in answers:
        validator("/components/schemas/DecisionView").validate(answer.body)


def test_bodies_in_every_state_fit_the_schema(world: World, errors: AuthErrorsApi) -> None:
    """AUTH-3, AUTH-5: new, waiting for a retry, analysed, decided; its events sent, failed, handled."""
    machinery = Machinery(world.database, Queues.made())

    def fails(*_: object) -> None:
        raise RuntimeError

    found = errors.reported(**(examples.REPORTS["whole"] | {"requestId": str(uuid4())}))
    bodies = [errors.ask(f"/{found}").body]
    machinery.publish()
    assert "RETRY" in machinery.consume(RECORDED=fails)
    bodies.append(errors.ask(f"/{found}").body)
    machinery.run(world.now() + timedelta(minutes=20))
    bodies.append(errors.ask(f"/{found}").body)
    errors.decide(f"/{found}", {"decisionId": str(uuid4()), "decisionType": "FAIL", "reason": "x"})
    bodies.append(errors.ask(f"/{found}").body)
    for body in bodies:
        validator("/components/schemas/WholeAuthErrorView").validate(body)
        assert None not in body.values()
    assert [body["status"] for body in bodies] == ["NEW", "RETRY", "ANALYSIS_COMPLETED", "FAILED"]
    assert bodies[1]["events"][0]["processedStatus"] == "RETRY_WAIT"
    assert bodies[3]["decisions"][0]["inputs"]["clusters"]


def test_every_error_of_its_own_conforms(errors: AuthErrorsApi) -> None:
    """With its own members."""
    body = a_report()
    found = errors.report(body).body["authErrorId"]
    decision = {"decisionId": str(uuid4()), "decisionType": "IGNORE", "reason": "x"}
    errors.decide(f"/{found}", decision)
    one, cluster = f"{ROOT}/{{auth_error_id}}", f"{ROOT}/clusters/{{cluster_id}}"
    refused = [
        ("POST", ROOT, errors.report(body | {"httpStatus": 500})),
        ("GET", one, errors.ask(f"/{uuid4()}")),
        ("GET", cluster, errors.ask(f"/clusters/{uuid4()}")),
        ("POST", f"{one}/decisions", errors.decide(f"/{found}", decision | {"reason": "y"})),
        ("POST", f"{one}/decisions", errors.decide(f"/{found}", decision | {"decisionId": str(uuid4())})),
    ]
    for method, path, answer in refused:
        SCHEMA[path][method].Case(path_parameters=IDS).validate_response(
            as_response(answer, method, "/", {}), checks=CHECKS
        )
    assert {answer.body["reason_code"] for _, _, answer in refused} == {kind.reason_code for kind in PROBLEMS.values()}


def test_the_conformance_test_can_fail(errors: AuthErrorsApi) -> None:
    """The checks find a status or a member that is not in the document."""
    operation = SCHEMA[f"{ROOT}/{{auth_error_id}}"]["GET"]
    good = errors.ask(f"/{examples.AUTH_ERROR_ID}")
    operation.Case(path_parameters=IDS).validate_response(as_response(good, "GET", "/", {}), checks=CHECKS)
    lies = (
        Answer(418, good.headers, good.text),
        Answer(good.status, good.headers, json.dumps(good.body | {"status": "GONE"})),
    )
    for lie in lies:
        with pytest.raises(FailureGroup):
            operation.Case(path_parameters=IDS).validate_response(as_response(lie, "GET", "/", {}), checks=CHECKS)
