"""`dpp auth-errors`, as an operator types it, on real servers (AUTH-1 … AUTH-11)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from dpp.auth_errors.api.record import record
from dpp.auth_errors.decisions import decide as deciding
from dpp.auth_errors.decisions.decide import decide_cluster
from dpp.auth_errors.model import AuthError, AuthErrorReport
from dpp.auth_errors.outbox.publish import Waker
from dpp.money.credits import create_tenant
from dpp.platform.errors import PostgresUnavailable
from dpp_cli.paths import ROOT
from tests.auth_errors.api import TRACE, Machinery, Queues
from tests.local.shell import OperatorShell, named_rows
from tests.support.world import World

AN_ID = "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"
NOON = datetime(2026, 2, 13, 12, tzinfo=UTC)
EXAMPLE = str(ROOT / "docs" / "auth-errors-policies.json")


@pytest.fixture
def queues(world: World, monkeypatch: pytest.MonkeyPatch) -> Queues:
    """The queues that the environment names."""
    monkeypatch.setattr("dpp.auth_errors.outbox.dead_letters.WAIT_SECONDS", 0)
    made = Queues.made()
    monkeypatch.setenv("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", made.dead_letters)
    monkeypatch.setenv("DPP_AUTH_ERROR_WAKE_QUEUE_URL", made.wake)
    return made


@pytest.fixture
def machinery(world: World, queues: Queues) -> Machinery:
    return Machinery(world.database, queues)


@pytest.fixture
def shell(world: World, queues: Queues, monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    """A shell whose environment names the database and both queues."""
    return named_rows(monkeypatch, world.database_url)


def reported(world: World, occurred_at: datetime = NOON, **changes: Any) -> AuthError:
    values: dict[str, Any] = {
        "request_id": f"req-{uuid4()}",
        "occurred_at": occurred_at,
        "http_status": 401,
        "exception_class": "a.Refused",
        "stacktrace": TRACE,
        "service": "web",
    }
    world.using(create_tenant, "acme", "Acme", 60)
    return record(AuthErrorReport(**values | changes), "acme", world.database, Waker(None)).error


class TestLooking:
    """list, show, clusters."""

    def test_a_list_is_narrowed_and_says_where_it_was_cut(
        self, shell: OperatorShell, world: World, machinery: Machinery
    ) -> None:
        assert shell.out("auth-errors", "list") == "no errors found\n"
        old = reported(world, NOON - timedelta(days=1))
        machinery.run()
        new = reported(world, exception_class="b.\x1b[2J[red]Other", service=None)
        assert [one["authErrorId"] for one in shell.data("auth-errors", "list")] == [
            str(new.auth_error_id),
            str(old.auth_error_id),
        ]
        table = shell.out("auth-errors", "list")
        assert f"{old.auth_error_id}  02-12 21:00:00  401   ANALYSIS_COMPLETED  web" in table
        assert "\x1b" not in table
        assert "[red]" in table
        [cluster] = machinery.clusters_of(str(old.auth_error_id))
        asked = {
            ("--status", "ANALYSIS_COMPLETED"): old,
            ("--status", "NEW"): new,
            ("--class", "a.Refused"): old,
            ("--cluster", str(cluster)): old,
            ("--since", "2026-02-13T21:00:00+09:00"): new,
            ("--before", "2026-02-13T12:00:00Z"): old,
        }
        for words, wanted in asked.items():
            [only] = shell.data("auth-errors", "list", *words)
            assert only["authErrorId"] == str(wanted.auth_error_id), words
        assert shell.data("auth-errors", "list", "--before", "30min") != []
        assert shell.data("auth-errors", "list", "--since", "2h") == []
        cut = shell.run("auth-errors", "list", "--limit", "1")
        assert (cut.exit_code, cut.stderr) == (0, "there are more; raise --limit\n")

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--status", "OPEN"),
            ("--since", "2026-02-13T12:00:00"),
            ("--since", "yesterday"),
            ("--before", "-2h"),
            ("--cluster", "1"),
            ("--limit", "0"),
        ],
    )
    def test_what_is_no_filter_is_reported_as_usage(self, shell: OperatorShell, wrong: tuple[str, ...]) -> None:
        assert shell.run("auth-errors", "list", *wrong).exit_code == 2

    def test_an_error_is_shown_whole(self, shell: OperatorShell, world: World, machinery: Machinery) -> None:
        error = reported(
            world,
            exception_message="no\x1b session",
            root_cause_class="a.Root",
            http_method="POST",
            request_path="/login",
        )
        machinery.run()
        found = str(error.auth_error_id)
        shell.out("auth-errors", "decide", found, "RESOLVE", "--reason", "renewed")
        shown = shell.out("auth-errors", "show", found)
        for said in (
            "RESOLVED",
            "no\ufffd session",
            "a.Root",
            "POST /login",
            "renewed",
            "PLATFORM/CONSUMER",
            "received, DONE",
        ):
            assert said in shown, said
        assert "Auth.java:42" not in shown
        assert "Auth.java:42" in shell.out("auth-errors", "show", found, "--trace")
        assert "normal form (v1)" in shell.out("auth-errors", "show", found, "--normal-form")
        printed = shell.data("auth-errors", "show", found)
        assert (printed["stacktrace"], printed["status"]) == (TRACE, "RESOLVED")
        assert [one["processedStatus"] for one in printed["events"]] == ["DONE", "DONE"]
        assert "give only one of the two options" in shell.refused(
            "auth-errors", "show", found, "--json", "--normal-form"
        )
        assert "authentication error" in shell.refused("auth-errors", "show", AN_ID)

    def test_clusters(self, shell: OperatorShell, world: World, machinery: Machinery) -> None:
        """AUTH-10."""
        assert shell.out("auth-errors", "clusters") == "no cluster yet\n"
        for _ in range(2):
            error = reported(world)
        machinery.run()
        [cluster] = shell.data("auth-errors", "clusters")
        assert (cluster["errorCount"], cluster["exceptionClass"]) == (2, "a.Refused")
        assert [UUID(cluster["clusterId"])] == machinery.clusters_of(str(error.auth_error_id))
        assert f"{cluster['clusterId']}       2  " in shell.out("auth-errors", "clusters")


class TestDeciding:
    """decide (AUTH-11)."""

    def test_an_error_is_decided_once_for_an_id(self, shell: OperatorShell, world: World) -> None:
        found = str(reported(world).auth_error_id)
        words = ("auth-errors", "decide", found, "IGNORE", "--reason", "noise", "--id", AN_ID)
        assert shell.out(*words) == f"error {found} decided: IGNORE, NEW -> IGNORED\n"
        again = shell.out(*words, "--as", "lee")
        assert again == f"error {found} already decided by kim: IGNORE, NEW -> IGNORED\n"
        assert shell.data(*words)["decisionId"] == AN_ID
        other = ("auth-errors", "decide", found, "IGNORE", "--reason", "other", "--id", AN_ID)
        assert "belongs to another decision" in shell.refused(*other)
        late = ("auth-errors", "decide", found, "RESOLVE", "--reason", "x")
        assert shell.refused(*late) == "The decision RESOLVE is not allowed in status IGNORED."

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ((AN_ID, "FAIL", "--reason", "x"), "authentication error"),
            (("--cluster", AN_ID, "FAIL", "--reason", "x"), "cluster 8a7f4e52"),
            ((AN_ID, "FAIL", "--reason", " "), "--reason: String should have at least 1"),
            ((AN_ID, "FAIL", "--reason", "x", "--as", "no body"), "an operator's name must have"),
            ((AN_ID, "FAIL", "--reason", "x", "--as", "PLATFORM/CONSUMER"), "an operator's name must have"),
            (("--cluster", AN_ID, "FAIL", "--reason", "x", "--id", AN_ID), "--id cannot be used with --cluster"),
        ],
    )
    def test_what_can_not_be_is_refused_in_a_sentence(
        self, shell: OperatorShell, words: tuple[str, ...], message: str
    ) -> None:
        assert message in shell.refused("auth-errors", "decide", *words)

    @pytest.mark.parametrize(
        "words",
        [
            ("FAIL",),
            (AN_ID,),
            (AN_ID, "CLOSE"),
            ("1", "FAIL"),
            (AN_ID, "FAIL", "x"),
            ("--cluster", AN_ID, AN_ID, "FAIL"),
            ("--cluster", "1", "FAIL"),
        ],
    )
    def test_wrong_words_are_reported_as_usage(self, shell: OperatorShell, words: tuple[str, ...]) -> None:
        assert shell.run("auth-errors", "decide", *words, "--reason", "x").exit_code == 2
        assert shell.run("auth-errors", "decide", AN_ID, "FAIL").exit_code == 2  # no reason

    def test_a_decision_whose_outcome_is_unknown_says_how_to_repeat_it(
        self, shell: OperatorShell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object) -> None:
            raise PostgresUnavailable

        words = ("auth-errors", "decide", AN_ID, "FAIL", "--reason", "x", "--id", AN_ID)
        with monkeypatch.context() as patch:
            patch.setattr("dpp_cli.auth_errors.commands.decide", lost)
            assert shell.refused(*words).endswith(
                f"the decision may have been made; repeat the command with --id {AN_ID}"
            )

    @pytest.mark.parametrize("decision", ["PROCESS", "ESCALATE"])
    def test_a_cluster_is_decided_to_its_end(
        self, shell: OperatorShell, world: World, machinery: Machinery, monkeypatch: pytest.MonkeyPatch, decision: str
    ) -> None:
        """Call after call; of an escalation, too, which leaves its errors where they are."""
        monkeypatch.setitem(decide_cluster.__kwdefaults__ or {}, "limit", 2)
        error = [reported(world) for _ in range(5)].pop()
        machinery.run()
        [cluster] = machinery.clusters_of(str(error.auth_error_id))
        words = ("auth-errors", "decide", "--cluster", str(cluster), decision, "--reason", "known")
        assert shell.out(*words) == f"5 errors of cluster {cluster} decided: {decision}\n"
        assert shell.data(*words) == {"decided": 0, "more": False}

    def test_a_cluster_half_decided_says_so(
        self, shell: OperatorShell, world: World, machinery: Machinery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(decide_cluster.__kwdefaults__ or {}, "limit", 1)
        error = [reported(world) for _ in range(3)].pop()
        machinery.run()
        [cluster] = machinery.clusters_of(str(error.auth_error_id))
        calls, one = [], deciding.decide

        def lost_at_the_third(*words: Any) -> Any:
            calls.append(words)
            if len(calls) == 3:
                raise PostgresUnavailable
            return one(*words)

        monkeypatch.setattr(deciding, "decide", lost_at_the_third)
        printed = shell.refused("auth-errors", "decide", "--cluster", str(cluster), "FAIL", "--reason", "x")
        assert printed.endswith("at least 2 were decided; repeat the command for the rest")


class TestPolicies:
    """policy, deployed (AUTH-11)."""

    def test_policies_are_set_as_versions_and_shown(self, shell: OperatorShell, tmp_path: Path) -> None:
        none = shell.run("auth-errors", "policy", "show")
        assert (none.exit_code, "only operators decide" in none.stderr) == (0, True)
        assert shell.out("auth-errors", "policy", "check", EXAMPLE) == "4 policies, no errors\n"
        setting = ("auth-errors", "policy", "set", EXAMPLE, "--reason", "to begin with")
        assert shell.out(*setting) == "version 1 is active: 4 policies\n"
        assert shell.out(*setting) == "version 1 with the same policies is already active\n"
        shown = shell.out("auth-errors", "policy", "show")
        assert "kim, " in shown
        assert "100 or more within 5 min" in shown
        kept = shell.data("auth-errors", "policy", "show")
        assert kept == json.loads(Path(EXAMPLE).read_text(encoding="utf-8"))
        other = tmp_path / "other.json"
        other.write_text(json.dumps(kept[:1]), encoding="utf-8")
        asked = ("auth-errors", "policy", "set", str(other), "--reason", "fewer", "--as", "lee")
        assert shell.out(*asked) == "version 2 is active: 1 policy\n"
        assert len(shell.data("auth-errors", "policy", "show", "--version", "1")) == 4
        assert shell.refused("auth-errors", "policy", "show", "--version", "3") == "policy version 3 does not exist"
        emptied = shell.out("auth-errors", "policy", "set", "[]", "--reason", "none")  # the array itself
        assert emptied == "version 3 is active: 0 policies\n"

    @pytest.mark.parametrize(
        ("data", "faults"),
        [
            ("[", ["invalid policies: not JSON"]),
            ('[{"name": "a", "name": "b"}]', ["names a member twice"]),
            ('[{"name": "a b", "when": {}, "decide": "CLOSE"}]', ["0.name: ", "0.decide: ", "0.reason: "]),
            ('[{"name": "a", "when": {"colour": 1}, "decide": "FAIL", "reason": "x"}]', ["0.when.colour: "]),
        ],
    )
    @pytest.mark.parametrize("command", [("check",), ("set", "--reason", "x")])
    def test_every_fault_of_policies_is_named_and_nothing_set(
        self, shell: OperatorShell, command: tuple[str, ...], data: str, faults: list[str]
    ) -> None:
        printed = shell.refused("auth-errors", "policy", command[0], data, *command[1:])
        assert all(fault in printed for fault in faults), printed
        assert shell.data("auth-errors", "policy", "show") == []

    def test_a_file_that_can_not_be_read_and_no_reason(self, shell: OperatorShell) -> None:
        assert shell.refused("auth-errors", "policy", "check", "/nowhere") == (
            "can't read /nowhere: No such file or directory"
        )
        blank = shell.refused("auth-errors", "policy", "set", EXAMPLE, "--reason", " ")
        assert blank.startswith("--reason: String should have at least 1")

    def test_decisions_of_policies_are_replayed(
        self, shell: OperatorShell, world: World, machinery: Machinery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """AUTH-11: each from its kept inputs by the kept version."""
        policy = [{"name": "known", "when": {"service": ["web"]}, "decide": "IGNORE", "reason": "x"}]
        shell.out("auth-errors", "policy", "set", json.dumps(policy), "--reason", "x")
        error = reported(world)
        reported(world, service=None)
        machinery.run()
        shell.out("auth-errors", "policy", "set", "[]", "--reason", "none")
        printed = shell.out("auth-errors", "policy", "replay")
        assert printed == "1 decision replayed: none differ\n"
        assert "POLICY/known" in shell.out("auth-errors", "show", str(error.auth_error_id))
        monkeypatch.setattr("dpp.auth_errors.decisions.replay.first_match", lambda *_: None)
        differs = shell.run("auth-errors", "policy", "replay")
        assert differs.exit_code == 1
        assert "IGNORE by known" in differs.stdout
        assert differs.stdout.endswith("1 decision replayed: 1 differ\n")
        [one] = shell.data("auth-errors", "policy", "replay")["differing"]
        assert (one["kept"], one["now"]) == ({"policyName": "known", "decisionType": "IGNORE"}, None)

    def test_a_deployment_is_noted_for_a_service_or_for_all(self, shell: OperatorShell, world: World) -> None:
        assert "of all services recorded at 20" in shell.out("auth-errors", "deployed", "v7")
        printed = shell.out("auth-errors", "deployed", " v8 ", "--service", "web", "--as", "ci")
        assert printed.startswith("deployment of web recorded at ")
        kept = world.sql("SELECT label, service, actor FROM auth_error_deploy ORDER BY label")
        assert kept == [("v7", None, "kim"), ("v8", "web", "ci")]
        assert "label: " in shell.refused("auth-errors", "deployed", " ")
        assert "service: " in shell.refused("auth-errors", "deployed", "v9", "--service", "a b")

    def test_a_rehash_puts_what_was_analysed_into_the_clusters_of_today(
        self, shell: OperatorShell, world: World, machinery: Machinery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """AUTH-10."""
        error = [reported(world) for _ in range(3)].pop()
        machinery.run()
        assert shell.out("auth-errors", "rehash") == "0 errors added to clusters of v1\n"
        monkeypatch.setattr("dpp.auth_errors.rehash.VERSION", "v2")
        monkeypatch.setattr("dpp.auth_errors.traces.stack_hash.VERSION", "v2")
        cut = shell.run("auth-errors", "rehash", "--limit", "2")
        assert (cut.stdout, cut.stderr) == (
            "2 errors added to clusters of v2\n",
            "there may be more; repeat the command\n",
        )
        assert shell.out("auth-errors", "rehash") == "1 error added to clusters of v2\n"
        versions = shell.data("auth-errors", "show", str(error.auth_error_id))["clusters"]
        assert [one["hashVersion"] for one in versions] == ["v2", "v1"]
