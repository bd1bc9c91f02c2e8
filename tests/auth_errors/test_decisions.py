"""Decisions by operators and by policies: kept, explained, replayable (AUTH-11)."""

import threading
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.auth_errors import store
from dpp.auth_errors.decisions import policies
from dpp.auth_errors.decisions.decide import OperatorDecision, decide, decide_cluster
from dpp.auth_errors.decisions.policies import (
    Inputs,
    PoliciesRefused,
    Policy,
    first_match,
    read_policies,
    windows,
)
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound, DecisionConflict, DecisionRefused
from dpp.auth_errors.machine import DECIDED, ERROR_MACHINE, TERMINAL, AuthErrorStatus, DecisionType
from dpp.platform.db.postgres import Database
from tests.auth_errors.environment import OTHER_TRACE, Environment

BURST: dict[str, Any] = {
    "name": "burst-after-deploy",
    "when": {
        "seen": {"atLeast": 3, "withinMinutes": 10},
        "deployedWithinMinutes": 30,
        "notEscalatedWithinMinutes": 60,
    },
    "decide": "ESCALATE",
    "reason": "the same failure three times in ten minutes after a deployment",
}


def _order(decision_type: DecisionType = DecisionType.RESOLVE, **changes: Any) -> OperatorDecision:
    values: dict[str, Any] = {
        "decision_id": uuid4(),
        "decision_type": decision_type,
        "actor": "kim",
        "reason": "known",
    }
    return OperatorDecision(**values | changes)


def _analyzed(env: Environment, **changes: Any) -> UUID:
    auth_error_id = env.post(**changes)
    env.run_until_idle()
    return auth_error_id


def _set(env: Environment, *data: dict[str, Any]) -> int:
    found = policies.as_data(read_policies(list(data)))
    with env.database.connection() as connection:
        return store.insert_policies(connection, found, "kim", "for a test")


class TestOperators:
    """An operator decides by a word, once."""

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_a_decision_leads_where_the_table_says(
        self, env: Environment, decision_type: DecisionType
    ) -> None:
        auth_error_id = _analyzed(env)
        decided = decide(_order(decision_type), auth_error_id, env.database, env.now)
        assert decided.made
        whole = env.details(auth_error_id)
        assert whole.error.status is DECIDED[decision_type]
        assert (whole.error.escalated_at is not None) == (decision_type is DecisionType.ESCALATE)
        (kept,) = whole.decisions
        assert (kept.actor, kept.reason, kept.decided_by) == ("kim", "known", "OPERATOR")
        assert kept.inputs["status"] == "ANALYSIS_COMPLETED"
        assert [one["errorCount"] for one in kept.inputs["clusters"]] == [1]
        if decision_type is not DecisionType.ESCALATE:
            assert whole.transitions[-1].actor == "kim"

    def test_the_same_decision_again_is_found_made(self, env: Environment) -> None:
        auth_error_id, order = _analyzed(env), _order()
        first = decide(order, auth_error_id, env.database)
        again = decide(order, auth_error_id, env.database)
        assert (again.made, again.decision) == (False, first.decision)
        assert len(env.details(auth_error_id).decisions) == 1

    def test_another_under_the_same_id_is_refused(self, env: Environment) -> None:
        one, other, order = _analyzed(env), _analyzed(env), _order()
        decide(order, one, env.database)
        for auth_error_id, changed in (
            (one, _order(decision_id=order.decision_id, reason="another")),
            (one, _order(DecisionType.IGNORE, decision_id=order.decision_id)),
            (other, order),
        ):
            with pytest.raises(DecisionConflict):
                decide(changed, auth_error_id, env.database)
        assert env.status(other) is AuthErrorStatus.ANALYSIS_COMPLETED

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_what_ended_is_decided_no_more(self, env: Environment, decision_type: DecisionType) -> None:
        auth_error_id = _analyzed(env)
        decide(_order(), auth_error_id, env.database)
        with pytest.raises(DecisionRefused, match="RESOLVED"):
            decide(_order(decision_type), auth_error_id, env.database)

    @pytest.mark.parametrize("decision_type", list(DecisionType))
    def test_what_is_not_analysed_may_only_be_closed(
        self, env: Environment, decision_type: DecisionType
    ) -> None:
        auth_error_id = env.post()
        if decision_type in {DecisionType.PROCESS, DecisionType.ESCALATE}:
            with pytest.raises(DecisionRefused):
                decide(_order(decision_type), auth_error_id, env.database)
        else:
            decide(_order(decision_type), auth_error_id, env.database)
            assert env.status(auth_error_id) in TERMINAL

    def test_of_two_operators_at_once_one_decides(self, env: Environment) -> None:
        auth_error_id = _analyzed(env)
        start, outcomes = threading.Barrier(2), list[str]()

        def work(decision_type: DecisionType) -> None:
            database = Database(env.url)
            start.wait()
            try:
                decide(_order(decision_type), auth_error_id, database)
                outcomes.append("made")
            except DecisionRefused:
                outcomes.append("refused")
            database.close()

        threads = [
            threading.Thread(target=work, args=(one,)) for one in (DecisionType.RESOLVE, DecisionType.IGNORE)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["made", "refused"]
        assert len(env.details(auth_error_id).decisions) == 1

    def test_nothing_is_decided_of_what_is_not_there(self, env: Environment) -> None:
        for auth_error_id in (uuid4(), None):
            with pytest.raises(AuthErrorNotFound):
                decide(_order(), auth_error_id, env.database)
            with pytest.raises(ClusterNotFound):
                decide_cluster(_order(), auth_error_id, env.database)

    def test_a_cluster_is_decided_a_batch_at_a_time(self, env: Environment) -> None:
        ids = [_analyzed(env) for _ in range(5)]
        apart = _analyzed(env, stacktrace=OTHER_TRACE, exception_class="com.example.auth.BadSignature")
        decide(_order(DecisionType.IGNORE), ids[1], env.database)
        (cluster,) = env.details(ids[0]).clusters
        first = decide_cluster(_order(), cluster.cluster_id, env.database, limit=3)
        assert (first.decided, first.more) == (3, True)
        second = decide_cluster(_order(), cluster.cluster_id, env.database, limit=3)
        assert (second.decided, second.more) == (1, False)
        assert [env.status(one) for one in ids] == [
            "RESOLVED",
            "IGNORED",
            "RESOLVED",
            "RESOLVED",
            "RESOLVED",
        ]
        assert env.status(apart) is AuthErrorStatus.ANALYSIS_COMPLETED


class TestSystem:
    """Policies decide in the transaction of the analysis, from inputs that are kept."""

    def test_the_same_failure_often_after_a_deployment_is_escalated_once(self, env: Environment) -> None:
        version = _set(env, BURST)
        with env.database.connection() as connection:
            store.insert_deploy(connection, uuid4(), service=None, label="v2", actor="kim", now=env.now)
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

    def test_without_a_deployment_or_too_slow_nothing_is(self, env: Environment) -> None:
        _set(env, BURST)
        ids = [_analyzed(env) for _ in range(4)]
        with env.database.connection() as connection:
            store.insert_deploy(connection, uuid4(), service="other", label="v2", actor="kim", now=env.now)
            env.pass_time(660)
            store.insert_deploy(connection, uuid4(), service=None, label="v2", actor="kim", now=env.now)
        ids += [_analyzed(env) for _ in range(2)]
        assert not any(env.details(one).decisions for one in ids)

    def test_the_first_policy_that_matches_decides(self, env: Environment) -> None:
        ignore = {"name": "first", "when": {"httpStatus": [401]}, "decide": "IGNORE", "reason": "noise"}
        _set(env, ignore, ignore | {"name": "second", "decide": "FAIL"})
        one, other = _analyzed(env), _analyzed(env, http_status=403)
        assert env.status(one) is AuthErrorStatus.IGNORED
        assert env.details(one).decisions[0].policy_name == "first"
        assert env.status(other) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_each_decision_is_replayed_from_what_was_kept(self, env: Environment) -> None:
        """The same inputs under the same policies: the same decision, whatever the policies are by now."""
        _set(env, {"name": "noise", "when": {"httpStatus": [401]}, "decide": "IGNORE", "reason": "noise"})
        _analyzed(env)
        _set(env)
        with env.database.connection() as connection:
            (kept,) = store.system_decisions(connection, 2**63 - 1, 10)
        policy = first_match(read_policies(kept.policies), Inputs.from_data(kept.inputs))
        assert policy is not None
        assert (policy.name, policy.decide) == (kept.policy_name, kept.decision_type)

    def test_policies_that_this_version_cannot_read_decide_nothing_and_stop_no_analysis(
        self, env: Environment, caplog: pytest.LogCaptureFixture
    ) -> None:
        with env.database.connection() as connection:
            store.insert_policies(connection, [{"name": "x", "when": {"gone": 1}}], "kim", "old")
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
        "seen": st.fixed_dictionaries(
            {"atLeast": st.integers(1, 50), "withinMinutes": st.sampled_from([5, 10])}
        ),
        "deployedWithinMinutes": st.integers(1, 100),
        "clusterYoungerThanMinutes": st.integers(1, 100),
        "notEscalatedWithinMinutes": st.integers(1, 100),
    },
)


class TestRules:
    """Pure: no clock, no database."""

    @given(st.lists(WHENS, max_size=5), INPUTS)
    def test_the_same_inputs_give_the_same_decision(
        self, whens: list[dict[str, Any]], inputs: Inputs
    ) -> None:
        found = self._policies(whens)
        decided = first_match(found, inputs)
        assert (
            first_match(read_policies(policies.as_data(found)), Inputs.from_data(inputs.as_data())) == decided
        )

    @given(WHENS, WHENS, INPUTS)
    def test_what_asks_for_more_holds_no_oftener(
        self, one: dict[str, Any], other: dict[str, Any], inputs: Inputs
    ) -> None:
        both = first_match(self._policies([{**one, **other}]), inputs)
        overridden = {name: value for name, value in one.items() if name not in other}
        apart = [first_match(self._policies([when]), inputs) for when in (overridden, other)]
        assert (both is not None) == all(apart)

    def test_what_is_to_be_counted_is_the_most_that_a_window_asks_for(self) -> None:
        whens = [{"seen": {"atLeast": n, "withinMinutes": m}} for n, m in ((3, 10), (7, 10), (2, 5))]
        assert windows(self._policies([*whens, {}])) == {10: 7, 5: 2}

    @pytest.mark.parametrize(
        ("data", "told"),
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
    def test_policies_that_cannot_be_read_are_refused_with_the_place(self, data: object, told: str) -> None:
        with pytest.raises(PoliciesRefused, match=told):
            read_policies(data)

    def test_no_decision_leads_where_the_machine_has_no_way(self) -> None:
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
