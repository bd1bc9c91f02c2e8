"""Decisions by operators and by policies: stored, explained, replayable (AUTH-11)."""

from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.auth_errors import store
from dpp.auth_errors.decisions import policies
from dpp.auth_errors.decisions.decide import OperatorDecision, decide, decide_cluster
from dpp.auth_errors.decisions.policies import Inputs, PoliciesRefused, Policy, first_match, read_policies, windows
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound, DecisionConflict, DecisionRefused
from dpp.auth_errors.machine import DECIDED, ERROR_MACHINE, TERMINAL, AuthErrorStatus, DecisionType
from dpp.platform.db.postgres import Database
from tests.auth_errors.environment import OTHER_TRACE, Environment
from tests.support.threads import at_once

BURST: dict[str, Any] = {
    "name": "burst-after-deploy",
    "when": {"seen": {"atLeast": 3, "withinMinutes": 10}, "deployedWithinMinutes": 30, "notEscalatedWithinMinutes": 60},
    "decide": "ESCALATE",
    "reason": "the same failure three times in ten minutes after a deployment",
}


def _decision(decision_type: DecisionType = DecisionType.RESOLVE, **changes: Any) -> OperatorDecision:
    values: dict[str, Any] = {"decision_id": uuid4(), "decision_type": decision_type, "actor": "kim", "reason": "known"}
    return OperatorDecision(**values | changes)


def _analyzed(env: Environment, **changes: Any) -> UUID:
    auth_error_id = env.post(**changes)
    env.run_until_idle()
    return auth_error_id


def _set(env: Environment, *data: dict[str, Any]) -> int:
    found = policies.as_data(read_policies(list(data)))
    return env.using(store.insert_policies, found, "kim", "for a test")


class TestOperators:
    """An operator's decision takes effect once."""

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_decision_leads_to_its_status(self, env: Environment, decision_type: DecisionType) -> None:
        auth_error_id = _analyzed(env)
        decided = decide(_decision(decision_type), auth_error_id, env.database, env.now)
        assert decided.made
        whole = env.details(auth_error_id)
        assert whole.error.status is DECIDED[decision_type]
        assert (whole.error.escalated_at is not None) == (decision_type is DecisionType.ESCALATE)
        (stored,) = whole.decisions
        assert (stored.actor, stored.reason, stored.decided_by) == ("kim", "known", "OPERATOR")
        assert stored.inputs["status"] == "ANALYSIS_COMPLETED"
        assert [one["errorCount"] for one in stored.inputs["clusters"]] == [1]
        if decision_type is not DecisionType.ESCALATE:
            assert whole.transitions[-1].actor == "kim"

    def test_repeated_decision_is_made_once(self, env: Environment) -> None:
        auth_error_id, requested = _analyzed(env), _decision()
        first = decide(requested, auth_error_id, env.database)
        again = decide(requested, auth_error_id, env.database)
        assert (again.made, again.decision) == (False, first.decision)
        assert len(env.details(auth_error_id).decisions) == 1

    def test_different_decision_with_the_same_id_is_rejected(self, env: Environment) -> None:
        one, other, requested = _analyzed(env), _analyzed(env), _decision()
        decide(requested, one, env.database)
        for auth_error_id, changed in (
            (one, _decision(decision_id=requested.decision_id, reason="another")),
            (one, _decision(DecisionType.IGNORE, decision_id=requested.decision_id)),
            (other, requested),
        ):
            with pytest.raises(DecisionConflict):
                decide(changed, auth_error_id, env.database)
        assert env.status(other) is AuthErrorStatus.ANALYSIS_COMPLETED

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_terminal_error_rejects_decisions(self, env: Environment, decision_type: DecisionType) -> None:
        auth_error_id = _analyzed(env)
        decide(_decision(), auth_error_id, env.database)
        with pytest.raises(DecisionRefused, match="RESOLVED"):
            decide(_decision(decision_type), auth_error_id, env.database)

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_error_without_analysis_can_only_be_closed(self, env: Environment, decision_type: DecisionType) -> None:
        auth_error_id = env.post()
        if decision_type in {DecisionType.PROCESS, DecisionType.ESCALATE}:
            with pytest.raises(DecisionRefused):
                decide(_decision(decision_type), auth_error_id, env.database)
        else:
            decide(_decision(decision_type), auth_error_id, env.database)
            assert env.status(auth_error_id) in TERMINAL

    def test_concurrent_decisions_take_effect_once(self, env: Environment) -> None:
        auth_error_id = _analyzed(env)
        outcomes = list[str]()

        def work(decision_type: DecisionType, database: Database) -> None:
            try:
                decide(_decision(decision_type), auth_error_id, database)
                outcomes.append("made")
            except DecisionRefused:
                outcomes.append("refused")

        at_once(env.url, partial(work, DecisionType.RESOLVE), partial(work, DecisionType.IGNORE))
        assert sorted(outcomes) == ["made", "refused"]
        assert len(env.details(auth_error_id).decisions) == 1

    def test_unknown_errors_and_clusters_are_not_found(self, env: Environment) -> None:
        for auth_error_id in (uuid4(), None):
            with pytest.raises(AuthErrorNotFound):
                decide(_decision(), auth_error_id, env.database)
            with pytest.raises(ClusterNotFound):
                decide_cluster(_decision(), auth_error_id, env.database)

    def test_cluster_is_decided_in_batches(self, env: Environment) -> None:
        ids = [_analyzed(env) for _ in range(5)]
        apart = _analyzed(env, stacktrace=OTHER_TRACE, exception_class="com.example.auth.BadSignature")
        decide(_decision(DecisionType.IGNORE), ids[1], env.database)
        (cluster,) = env.details(ids[0]).clusters
        first = decide_cluster(_decision(), cluster.cluster_id, env.database, limit=3)
        assert (first.decided, first.more) == (3, True)
        second = decide_cluster(_decision(), cluster.cluster_id, env.database, limit=3)
        assert (second.decided, second.more) == (1, False)
        assert [env.status(one) for one in ids] == ["RESOLVED", "IGNORED", *["RESOLVED"] * 3]
        assert env.status(apart) is AuthErrorStatus.ANALYSIS_COMPLETED


class TestPolicies:
    """Policies decide in the transaction of the analysis, with stored inputs."""

    def test_frequent_failure_after_a_deployment_is_escalated_once(self, env: Environment) -> None:
        version = _set(env, BURST)
        env.using(store.insert_deploy, uuid4(), service=None, label="v2", actor="kim", now=env.now)
        ids = []
        for _ in range(5):
            env.pass_time(60)
            ids.append(_analyzed(env))
        decisions = [env.details(one).decisions for one in ids]
        assert [len(one) for one in decisions] == [0, 0, 1, 0, 0]
        (made,) = decisions[2]
        assert (made.decided_by, made.actor) == ("SYSTEM", "POLICY/burst-after-deploy")
        assert (made.policy_version, made.policy_name) == (version, "burst-after-deploy")
        assert made.inputs["seen"] == {"10": 3}
        assert made.inputs["minutesSinceDeploy"] == 3
        error = env.error(ids[2])
        assert (error.status, error.escalated_at is not None) == (AuthErrorStatus.ANALYSIS_COMPLETED, True)

    def test_slow_failure_or_no_deployment_is_not_escalated(self, env: Environment) -> None:
        _set(env, BURST)
        ids = [_analyzed(env) for _ in range(4)]
        env.using(store.insert_deploy, uuid4(), service="other", label="v2", actor="kim", now=env.now)
        env.pass_time(660)
        env.using(store.insert_deploy, uuid4(), service=None, label="v2", actor="kim", now=env.now)
        ids += [_analyzed(env) for _ in range(2)]
        assert not any(env.details(one).decisions for one in ids)

    def test_first_matching_policy_decides(self, env: Environment) -> None:
        ignore = {"name": "first", "when": {"httpStatus": [401]}, "decide": "IGNORE", "reason": "noise"}
        _set(env, ignore, ignore | {"name": "second", "decide": "FAIL"})
        one, other = _analyzed(env), _analyzed(env, http_status=403)
        assert env.status(one) is AuthErrorStatus.IGNORED
        assert env.details(one).decisions[0].policy_name == "first"
        assert env.status(other) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_decisions_are_replayed_from_stored_inputs(self, env: Environment) -> None:
        """The same inputs and policies give the same decision, also after the policies have changed."""
        _set(env, {"name": "noise", "when": {"httpStatus": [401]}, "decide": "IGNORE", "reason": "noise"})
        _analyzed(env)
        _set(env)
        (stored,) = env.using(store.system_decisions, 2**63 - 1, 10)
        policy = first_match(read_policies(stored.policies), Inputs.from_data(stored.inputs))
        assert policy is not None
        assert (policy.name, policy.decide) == (stored.policy_name, stored.decision_type)

    def test_unreadable_policies_do_not_stop_analyses(self, env: Environment, caplog: pytest.LogCaptureFixture) -> None:
        env.using(store.insert_policies, [{"name": "x", "when": {"gone": 1}}], "kim", "old")
        auth_error_id = _analyzed(env)
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED
        assert "policies can't be read" in caplog.text


INPUTS = st.builds(
    Inputs,
    exception_class=st.sampled_from(["A", "B"]),
    http_status=st.sampled_from([401, 403]),
    service=st.sampled_from([None, "login"]),
    cluster_id=st.just("c"),
    cluster_age_minutes=st.integers(0, 100),
    minutes_since_deploy=st.none() | st.integers(0, 100),
    minutes_since_escalation=st.none() | st.integers(0, 100),
    seen=st.dictionaries(st.sampled_from([5, 10]), st.integers(0, 50)),
)
WHENS = st.fixed_dictionaries(
    {},
    optional={
        "exceptionClass": st.lists(st.sampled_from(["A", "B"]), min_size=1),
        "httpStatus": st.lists(st.sampled_from([401, 403]), min_size=1),
        "service": st.just(["login"]),
        "seen": st.fixed_dictionaries({"atLeast": st.integers(1, 50), "withinMinutes": st.sampled_from([5, 10])}),
        "deployedWithinMinutes": st.integers(1, 100),
        "clusterYoungerThanMinutes": st.integers(1, 100),
        "notEscalatedWithinMinutes": st.integers(1, 100),
    },
)


class TestRules:
    """Pure rules, without clock and database."""

    @given(st.lists(WHENS, max_size=5), INPUTS)
    def test_same_inputs_give_the_same_decision(self, whens: list[dict[str, Any]], inputs: Inputs) -> None:
        found = self._policies(whens)
        decided = first_match(found, inputs)
        assert first_match(read_policies(policies.as_data(found)), Inputs.from_data(inputs.as_data())) == decided

    @given(WHENS, WHENS, INPUTS)
    def test_a_stricter_condition_never_matches_more_inputs(
        self, one: dict[str, Any], other: dict[str, Any], inputs: Inputs
    ) -> None:
        both = first_match(self._policies([{**one, **other}]), inputs)
        overridden = {name: value for name, value in one.items() if name not in other}
        apart = [first_match(self._policies([when]), inputs) for when in (overridden, other)]
        assert (both is not None) == all(apart)

    def test_windows_have_the_highest_count_of_the_policies(self) -> None:
        whens = [{"seen": {"atLeast": n, "withinMinutes": m}} for n, m in ((3, 10), (7, 10), (2, 5))]
        assert windows(self._policies([*whens, {}])) == {10: 7, 5: 2}

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            ([{}], "name"),
            ([BURST, BURST], "used more than once: burst-after-deploy"),
            ([BURST | {"decide": "DELETE"}], "decide"),
            ([BURST | {"when": {"seen": {"atLeast": 0, "withinMinutes": 1}}}], "atLeast"),
            ([BURST | {"when": {"seen": {"atLeast": 1}}}], "withinMinutes"),
            ([BURST | {"when": {"httpStatus": []}}], "httpStatus"),
            ([BURST | {"when": {"httpStatus": ["401"]}}], "httpStatus"),
            ([BURST | {"when": {"sometimes": True}}], "sometimes"),
            ([BURST | {"name": "has space"}], "name"),
            ({"name": "no list"}, "policies"),
            ([BURST | {"name": f"p{n}"} for n in range(101)], "policies"),
        ],
    )
    def test_invalid_policies_are_rejected_with_the_place(self, data: object, place: str) -> None:
        with pytest.raises(PoliciesRefused, match=place):
            read_policies(data)

    def test_every_decision_has_a_transition(self) -> None:
        for kind, target in DECIDED.items():
            assert ERROR_MACHINE.allows(AuthErrorStatus.ANALYSIS_COMPLETED, target), kind

    @staticmethod
    def _policies(whens: list[dict[str, Any]]) -> tuple[Policy, ...]:
        return read_policies(
            [
                {"name": f"p{number}", "when": when, "decide": "IGNORE", "reason": "r"}
                for number, when in enumerate(whens)
            ]
        )
