"""The OpenAPI document of authentication errors is consistent with their function's responses (AUTH-1, AUTH-11)."""

import json
from collections import Counter
from datetime import timedelta
from uuid import uuid4

from dpp.auth_errors.api.http import PROBLEMS
from dpp_cli.docs.openapi.examples import AUTH_ERRORS
from tests.auth_errors.api import AuthErrorsApi, Machinery, Queues, a_report
from tests.http.openapi.conformance import assert_conforms, bodies_below, validator
from tests.support.world import World

ROOT = "/api/auth-errors"
IDS = {"auth_error_id": AUTH_ERRORS["auth_error_id"], "cluster_id": AUTH_ERRORS["cluster_id"]}


def test_the_examples_are_accepted(errors: AuthErrorsApi) -> None:
    sent = Counter[tuple[str, int]]()
    for method, path, shown in bodies_below(ROOT):
        token = errors.tenant if path == ROOT else errors.operator
        for example in shown.values():
            body = json.dumps(example)
            answers = [errors.call(method, path.format(**IDS), token=token, body=body) for _ in range(2)]
            sent.update((path.removeprefix(ROOT), answer.status) for answer in answers)
    assert sent == {
        ("", 201): 2,
        ("", 200): 2,
        ("/clusters/{cluster_id}/decisions", 200): 2,
        ("/{auth_error_id}/decisions", 409): 2,  # the cluster's decision came first, and was final
    }


def test_the_example_of_a_decision_is_accepted(errors: AuthErrorsApi) -> None:
    """AUTH-11."""
    [decision] = AUTH_ERRORS["decisions"].values()
    answers = [errors.decide(f"/{AUTH_ERRORS['auth_error_id']}", decision) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    for answer in answers:
        validator("/components/schemas/DecisionView").validate(answer.body)


def test_bodies_in_every_state_fit_the_schema(world: World, errors: AuthErrorsApi) -> None:
    """AUTH-3, AUTH-5: new, waiting for a retry, analysed, decided; its events sent, failed, handled."""
    machinery = Machinery(world.database, Queues.made())

    def fails(*_: object) -> None:
        raise RuntimeError

    found = errors.reported(**(AUTH_ERRORS["reports"]["whole"] | {"requestId": str(uuid4())}))
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
        assert_conforms(method, path, answer)
    assert {answer.body["reason_code"] for _, _, answer in refused} == {kind.reason_code for kind in PROBLEMS.values()}
