"""`dpp lifecycle status`, `events`, `tasks`, `answer`, `messages` and `sources`, as an operator types them."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.answer import MAX_ANSWER
from dpp.lifecycle.flow.errors import TaskRunsUnavailable
from dpp.lifecycle.flow.intake import source_rows
from dpp.lifecycle.flow.machine import EventStatus, TaskStatus
from dpp.lifecycle.flow.model import Source
from dpp.lifecycle.flow.ports import OutsideReply, Role
from dpp.lifecycle.flow.wake import WakeByInvocation
from operate import handler as operate
from tests.lifecycle.environment import ASKS, AT_WORK, FAILED, NOON, SUCCEEDED, Environment, open_environment
from tests.local.shell import OperatorShell
from tests.support.api import lambda_context
from tests.support.world import World

NOBODY = "task-20200101-001"
ODD = "\x1b[2J[red]odd[/red] \x9b31m"


@pytest.fixture
def env(world: World) -> Iterator[Environment]:
    """An environment whose clock is three hours behind."""
    with open_environment(world.database_url) as opened:
        opened.clock.seconds = (world.now() - NOON).total_seconds() - 3 * 3_600
        yield opened


def asked(env: Environment, title: str = "unclear") -> str:
    """A task whose question is with a person."""
    task_id = env.started(title, plan=[ASKS, SUCCEEDED], ticks=2)
    env.notify()
    return task_id


def record_heartbeat(world: World, *roles: Role, seconds_ago: float = 0) -> None:
    for role in roles:
        world.using(heartbeat.record, role, world.now() - timedelta(seconds=seconds_ago))


class TestEvents:
    """events list, events show (LIFE-1, LIFE-6)."""

    def test_a_list_has_the_newest_first_with_the_task_of_each(self, shell: OperatorShell, env: Environment) -> None:
        assert shell.out("lifecycle", "events", "list") == "no events found\n"
        assert shell.data("lifecycle", "events", "list") == []
        task_id = env.started("older", ticks=3)
        env.dispatch()
        env.emit("newer")
        newer, older = shell.data("lifecycle", "events", "list")
        assert (newer["event_id"], newer["status"], newer["task_id"]) == ("github-newer", "PENDING", None)
        assert (older["event_id"], older["status"], older["task_id"]) == ("github-older", "COMPLETED", task_id)
        assert older["subject"]["title"] == "older"
        lines = shell.out("lifecycle", "events", "list").splitlines()
        assert f"POLL  COMPLETED  MENTIONED  {task_id}  github-older  a/repo: older" in lines[2]
        [only] = shell.data("lifecycle", "events", "list", "--status", "PENDING")
        assert only["event_id"] == "github-newer"
        cut = shell.run("lifecycle", "events", "list", "--limit", "1")
        assert (cut.exit_code, cut.stderr) == (0, "there are more; raise --limit\n")
        assert "github-older" not in cut.stdout
        for status in EventStatus:
            assert shell.run("lifecycle", "events", "list", "--status", status).exit_code == 0
        for wrong in (("--status", "SENT"), ("--limit", "0")):
            assert shell.run("lifecycle", "events", "list", *wrong).exit_code == 2

    def test_an_event_is_shown_with_what_it_said_and_what_became_of_it(
        self, shell: OperatorShell, env: Environment
    ) -> None:
        task_id = env.started("deps", plan=[FAILED])
        env.run_ticks()
        shown = shell.out("lifecycle", "events", "show", "github-deps")
        assert shown.startswith(
            "event github-deps\n  about       a/repo: deps\n  kind        MENTIONED, arrived by POLL\n"
        )
        assert "status      FAILED: PACK_FAILED: as planned" in shown
        assert f"task        {task_id}, COMPLETED, FAILED" in shown
        assert shown.endswith("  text\n    x\n")
        printed = shell.data("lifecycle", "events", "show", "github-deps")
        assert (printed["status"], printed["reason"]) == ("FAILED", "PACK_FAILED: as planned")
        assert (printed["task"]["task_id"], printed["subject"]["body"]) == (task_id, "x")

    def test_an_unknown_event_differs_from_one_that_is_deleted(self, shell: OperatorShell, env: Environment) -> None:
        """LIFE-6: the reason why it is not accepted again."""
        assert (
            shell.refused("lifecycle", "events", "show", "github:a/b")
            == "event github:a/b does not exist; `dpp lifecycle events list` shows all"
        )
        assert shell.run("lifecycle", "events", "show", "github:a/b", "--json").exit_code == 1
        env.admin.execute("INSERT INTO lifecycle_seen VALUES ('github:a/b', '2026-01-01T00:00:00Z')")
        assert shell.refused("lifecycle", "events", "show", "github:a/b") == (
            "event github:a/b arrived 2026-01-01 09:00:00+0900 and was deleted after its retention period;"
            " its id is still remembered so that it is not accepted again"
        )

    def test_nothing_that_somebody_wrote_moves_the_cursor(self, shell: OperatorShell, env: Environment) -> None:
        event_id = env.emit("odd", place=ODD, actor=ODD, body=f"{ODD}\nsecond", url=f"https://e/{ODD}")
        env.dispatch()
        [task] = shell.data("lifecycle", "tasks", "list")
        asked_for = (
            ("events", "list"),
            ("events", "show", event_id),
            ("tasks", "list"),
            ("tasks", "show", task["task_id"]),
        )
        for words in asked_for:
            for more in ((), ("--json",)):
                shown = shell.run("lifecycle", *words, *more)
                assert shown.exit_code == 0
                assert not {"\x1b", "\x9b"} & set(shown.stdout), words
                assert "[red]" in shown.stdout
        assert "    second\n" in shell.out("lifecycle", "events", "show", event_id)
        assert "\x1b" not in shell.refused("lifecycle", "events", "show", ODD)
        assert "\x1b" not in shell.refused("lifecycle", "tasks", "show", ODD)

    def test_a_row_that_this_version_can_not_read_hides_no_other(self, shell: OperatorShell, env: Environment) -> None:
        """As king and general leave it: a later version's, say."""
        env.emit("later", of_a_later_version="x")
        env.emit("ours")
        ours, later = shell.data("lifecycle", "events", "list")
        assert (ours["subject"]["title"], later["event_id"]) == ("ours", "github-later")
        assert "this version can't read" in shell.out("lifecycle", "events", "show", "github-later")


class TestTasks:
    """tasks list, tasks show (LIFE-2, LIFE-3, LIFE-4, LIFE-10)."""

    def test_a_list_says_what_each_task_waits_for(self, shell: OperatorShell, env: Environment) -> None:
        assert shell.out("lifecycle", "tasks", "list") == "no tasks found\n"
        done, waits = env.started("done", ticks=3), asked(env)
        busy = env.started("busy", plan=[AT_WORK])
        env.task_runs.refusal = TaskRunsUnavailable("The budget is empty.")
        poor = env.started("poor")
        env.emit("fresh")
        env.dispatch()
        fresh = shell.data("lifecycle", "tasks", "list")[0]["task_id"]
        lines = shell.out("lifecycle", "tasks", "list").splitlines()
        for task_id, printed in (
            (done, "COMPLETED, SUCCEEDED        1"),
            (waits, "IN_PROGRESS                 1  a person, 2 h 5"),
            (busy, "IN_PROGRESS                 1  its run"),
            (poor, "IN_PROGRESS                 1  a run to start"),
            (fresh, "PENDING                     0  the general, 2 h"),
        ):
            assert printed in next(line for line in lines if line.startswith(task_id))
        assert "The budget is empty." in shell.out("lifecycle", "tasks", "list", "--status", "IN_PROGRESS")
        assert len(shell.data("lifecycle", "tasks", "list", "--status", "IN_PROGRESS")) == 3
        for status in TaskStatus:
            assert shell.run("lifecycle", "tasks", "list", "--status", status).exit_code == 0
        assert shell.run("lifecycle", "tasks", "list", "--status", "FAILED").exit_code == 2
        cut = shell.run("lifecycle", "tasks", "list", "--limit", "2")
        assert (cut.exit_code, cut.stderr) == (0, "there are more; raise --limit\n")

    def test_those_that_wait_for_a_person_come_the_longest_first(self, shell: OperatorShell, env: Environment) -> None:
        """LIFE-10: and one whose question is not delivered says so."""
        assert shell.out("lifecycle", "tasks", "list", "--waiting") == "no tasks found\n"
        first = asked(env, "first")
        env.started("busy", plan=[AT_WORK])
        second = env.started("second", plan=[ASKS], ticks=2)
        found = shell.data("lifecycle", "tasks", "list", "--waiting")
        assert [one["task_id"] for one in found] == [first, second]
        assert found[0]["question"]["body"].startswith("No answer is reliable enough: first")
        assert found[0]["question"]["told_at"] > found[0]["question"]["asked_at"]
        assert found[1]["question"]["told_at"] is None
        table = shell.out("lifecycle", "tasks", "list", "--waiting")
        assert "min, question not sent yet" in next(line for line in table.splitlines() if second in line)
        cut = shell.run("lifecycle", "tasks", "list", "--waiting", "--limit", "1")
        assert (first in cut.stdout, second in cut.stdout, cut.stderr) == (
            True,
            False,
            "there are more; raise --limit\n",
        )
        assert "tasks that wait for a person are IN_PROGRESS" in shell.refused(
            "lifecycle", "tasks", "list", "--waiting", "--status", "COMPLETED"
        )

    def test_a_task_is_shown_with_all_that_belongs_to_it(self, shell: OperatorShell, env: Environment) -> None:
        task_id = asked(env)
        shown = shell.run("lifecycle", "tasks", "show", task_id)
        assert shown.stderr == f"to answer it: `dpp lifecycle answer {task_id} TEXT`\n"
        thread = env.thread(task_id)
        for printed in (
            "event         github-unclear, DISPATCHED",
            f"run           {env.task(task_id).run_id} (deleted)",
            "waits for     a person, 2 h 5",
            ", sent 20",
            "last failure  PACK_RELIABILITY_BELOW_MINIMUM: as planned",
            f"thread        {thread.channel} {thread.thread_ts}",
            "    Reply in this thread with the missing information",
            "  HUMAN_INPUT_REQUEST  ",
            f"state/prompts/{task_id}.md",
        ):
            assert printed in shown.stdout
        printed = shell.data("lifecycle", "tasks", "show", task_id)
        assert (printed["task_id"], printed["attempt"], printed["run"]) == (task_id, 1, None)
        assert printed["event"]["event_id"] == "github-unclear"
        assert printed["thread"]["channel"] == thread.channel
        assert [one["kind"] for one in printed["messages"]] == ["THREAD_START", "HUMAN_INPUT_REQUEST"]
        assert {one["object_key"] for one in printed["objects"]} == set(env.bucket.objects)

    def test_the_run_of_a_task_is_shown_as_it_stands(
        self, shell: OperatorShell, env: Environment, world: World
    ) -> None:
        run = world.submit(world.tenant()).run
        task_id = env.started("busy", plan=[AT_WORK], ticks=0)
        env.admin.execute("SET session_replication_role = replica")
        env.admin.execute(
            "UPDATE lifecycle_tasks SET status = 'IN_PROGRESS', attempt = 1, started_at = created_at, run_id = %s",
            (run.run_id,),
        )
        shown = shell.out("lifecycle", "tasks", "show", task_id)
        assert f"run           {run.run_id}, QUEUED, RESERVED, paid by {run.tenant_id}" in shown
        assert "next check    due for 3 h" in shown
        printed = shell.data("lifecycle", "tasks", "show", task_id)
        assert (printed["run"]["status"], printed["run"]["tenant_id"]) == ("QUEUED", run.tenant_id)

    def test_a_question_is_known_when_its_message_is_deleted_and_so_is_the_event(
        self, shell: OperatorShell, env: Environment
    ) -> None:
        """A message is kept for a week once it is sent; the person may take longer."""
        task_id = asked(env)
        env.admin.execute("SET session_replication_role = replica")
        env.admin.execute("DELETE FROM lifecycle_messages")
        env.admin.execute("DELETE FROM lifecycle_events")
        shown = shell.run("lifecycle", "tasks", "show", task_id).stdout
        assert "event         github-unclear (deleted)" in shown
        assert "waits for     a person, 2 h 5" in shown
        printed = shell.data("lifecycle", "tasks", "show", task_id)
        assert (printed["event"], printed["question"]["body"], printed["messages"]) == (None, None, [])
        assert printed["question"]["asked_at"] == printed["question"]["told_at"]

    def test_an_unknown_task_is_a_sentence(self, shell: OperatorShell) -> None:
        for words in (("tasks", "show", NOBODY), ("answer", NOBODY, "yes")):
            assert (
                shell.refused("lifecycle", *words)
                == f"task {NOBODY} does not exist; `dpp lifecycle tasks list` shows all"
            )
            assert shell.run("lifecycle", *words).exit_code == 1


class TestAnswer:
    """answer (LIFE-10)."""

    def test_an_answer_goes_to_the_next_attempt(self, shell: OperatorShell, env: Environment, world: World) -> None:
        task_id = asked(env)
        record_heartbeat(world, Role.GENERAL)
        done = shell.run("lifecycle", "answer", task_id, " take the second one ")
        assert (done.exit_code, done.stdout) == (0, f"task {task_id} is answered; attempt 2 gets the answer\n")
        assert done.stderr == "the general (runner) continues the task within a minute\n"
        assert env.task(task_id).answer == "take the second one"
        shown = shell.out("lifecycle", "tasks", "show", task_id)
        assert "  answer\n    take the second one\n" in shown
        assert "waits for     a run to start" in shown
        again = shell.refused("lifecycle", "answer", task_id, "take the second one")
        assert again == f"task {task_id} is already answered and continues"
        env.clock.seconds += 3 * 3_600
        env.run_ticks(3)
        assert env.task(task_id).outcome == "SUCCEEDED"
        late = shell.refused("lifecycle", "answer", task_id, "late")
        assert late == f"task {task_id} has no open question; its status is COMPLETED, SUCCEEDED"

    def test_it_says_where_no_general_goes_on(self, shell: OperatorShell, env: Environment, world: World) -> None:
        task_id = asked(env)
        printed = shell.run("lifecycle", "answer", task_id, "yes", "--json")
        assert '"answer": "yes"' in printed.stdout
        assert "the general (runner) has sent no heartbeat for 2 h" in printed.stderr
        another = asked(env, "another")
        env.admin.execute("DELETE FROM lifecycle_heartbeats")
        printed = shell.run("lifecycle", "answer", another, "yes")
        assert (printed.exit_code, "has no general (runner)" in printed.stderr) == (0, True)

    def test_the_general_is_woken_where_his_function_is_known(
        self, shell: OperatorShell, env: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As after an answer in Slack; nobody is woken for an answer that was not taken."""
        woken: list[tuple[str, str]] = []

        class Waker(WakeByInvocation):
            def __call__(self, role: str) -> None:
                woken.append((role, self._functions[role]))

        monkeypatch.setattr("dpp_cli.lifecycle.tasks.WakeByInvocation", Waker)
        monkeypatch.setenv("DPP_LIFECYCLE_GENERAL_FUNCTION", "dpp-x-lifecycle_general")
        task_id = asked(env)
        for _ in range(2):
            shell.run("lifecycle", "answer", task_id, "yes")
        assert woken == [("GENERAL", "dpp-x-lifecycle_general")]

    def test_what_is_no_answer_is_refused_and_the_task_waits_on(self, shell: OperatorShell, env: Environment) -> None:
        task_id = asked(env)
        assert shell.refused("lifecycle", "answer", task_id, " ") == "the answer must not be empty"
        long = "x" * (MAX_ANSWER + 1)
        assert (
            shell.refused("lifecycle", "answer", task_id, long)
            == "the answer has 4,001 characters; at most 4,000 are allowed"
        )
        assert env.task(task_id).waits_for_person
        assert shell.run("lifecycle", "answer", task_id, long[:-1]).exit_code == 0

    def test_a_deployment_takes_it_and_its_log_has_no_word_of_it(
        self, env: Environment, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """RUN-31: the function that runs an operator's commands logs their words, but not what people say."""
        caplog.set_level(logging.INFO)
        for name, value in world.environ().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DPP_RUN_DEAD_LETTER_QUEUE_URL", world.queue_url)
        operate.wiring.cache_clear()
        task_id = asked(env)
        for words in (("answer", task_id, "it's a s3cret"), ("answer", "--json", "another s3cret", task_id)):
            operate.handler({"words": ["lifecycle", *words]}, lambda_context())
        answer = operate.handler({"words": ["lifecycle", "tasks", "show", task_id]}, lambda_context())
        assert (answer["exit_code"], "    it's a s3cret\n" in answer["stdout"]) == (0, True)
        logged = caplog.text + str([record.__dict__ for record in caplog.records])
        assert f"['lifecycle', 'answer', '{task_id}', '…']" in logged
        assert "s3cret" not in logged


class TestStatus:
    """status, messages, sources (LIFE-5, LIFE-7, LIFE-10, LIFE-11)."""

    def test_an_empty_deployment_says_that_it_has_no_roles(self, shell: OperatorShell, world: World) -> None:
        record_heartbeat(world, Role.CHAMBERLAIN)
        shown = shell.run("lifecycle", "status")
        assert shown.exit_code == 0
        assert shown.stderr == (
            "no heartbeat of any role but the chamberlain: this deployment has no event flow (docs/lifecycle.md)\n"
        )
        printed = shell.data("lifecycle", "status")
        assert {one["role"]: one["is_dead"] for one in printed["roles"]} == dict.fromkeys(Role, False)
        assert set(printed["open"].values()) == {0}

    def test_who_is_silent_and_what_is_open_is_seen_at_once(
        self, shell: OperatorShell, env: Environment, world: World
    ) -> None:
        asked(env)
        env.emit("new")
        record_heartbeat(world, Role.SENTINEL)
        env.admin.execute("DELETE FROM lifecycle_heartbeats WHERE role = 'KING'")
        world.using(source_rows.failed, Source.JIRA, "JIRA_401", world.now(), 960)
        env.slack.replies = lambda _printed: OutsideReply(status=503)
        env.started("another", ticks=0)
        record_heartbeat(world, Role.GENERAL, seconds_ago=599)
        env.admin.execute("DELETE FROM lifecycle_heartbeats WHERE role = 'KING'")
        shown = shell.run("lifecycle", "status")
        rows = {" ".join(line.split()) for line in shown.stdout.splitlines()}
        assert {"KING never", "GENERAL 9 min ago"} <= rows
        assert any(row.startswith("ENVOY 2 h") and row.endswith("ago, DEAD") for row in rows)
        assert any(row.startswith("tasks waiting for a person 1 2 h") for row in rows)
        assert any(row.startswith("unsent messages 2 2 h") for row in rows)
        assert shown.stderr.splitlines() == [
            "ENVOY: no heartbeat for over 600 s (docs/runbook.md#role-dead)",
            "KING: no heartbeat yet, so the function was never invoked",
            "JIRA failed 1 times in a row (JIRA_401); see `dpp lifecycle sources`",
            "open questions: `dpp lifecycle tasks list --waiting`",
            "unsent messages: `dpp lifecycle messages`",
        ]
        printed = {one["role"]: one for one in shell.data("lifecycle", "status")["roles"]}
        assert (printed["ENVOY"]["is_dead"], printed["GENERAL"]["is_dead"]) == (True, False)
        assert printed["KING"]["silent_seconds"] is None

    def test_a_message_that_is_not_sent_says_why_and_what_waits_behind_it(
        self, shell: OperatorShell, env: Environment
    ) -> None:
        """LIFE-5: those of a task go in their order."""
        assert shell.out("lifecycle", "messages") == "all messages are sent\n"
        env.slack.replies = lambda _printed: OutsideReply(
            status=200, body='{"ok": false, "error": "channel_not_found"}'
        )
        task_id = env.started("done")
        env.notify()
        env.run_tasks()
        first, second = shell.data("lifecycle", "messages")
        assert (first["kind"], first["attempts"], first["last_error"], first["behind"]) == (
            "THREAD_START",
            1,
            "slack: channel_not_found",
            None,
        )
        assert (second["kind"], second["task_id"], second["behind"]) == ("TASK_RESULT", task_id, first["message_id"])
        table = shell.out("lifecycle", "messages").splitlines()
        assert "PENDING, due for 2 h" in table[1]
        assert f"behind {first['message_id']}" in table[2]
        cut = shell.run("lifecycle", "messages", "--limit", "1")
        assert (second["message_id"] in cut.stdout, cut.stderr) == (False, "there are more; raise --limit\n")

        assert shell.out("lifecycle", "messages", "--sent") == "no sent messages are kept\n"
        env.slack.replies = lambda _printed: None
        env.pass_time(130)
        env.notify()
        assert shell.out("lifecycle", "messages") == "all messages are sent\n"
        assert [one["message_id"] for one in shell.data("lifecycle", "messages", "--sent")] == [
            second["message_id"],
            first["message_id"],
        ]
        assert "  SENT 20" in shell.out("lifecycle", "messages", "--sent", "--limit", "2")

    def test_a_source_says_what_fails_and_until_when_it_is_left_alone(self, shell: OperatorShell, world: World) -> None:
        """LIFE-7."""
        assert shell.out("lifecycle", "sources").startswith("no source was ever polled")
        now = world.now()
        world.using(source_rows.polled, Source.GITHUB, 'W/"a"', now, 60)
        for _ in range(4):
            world.using(source_rows.failed, Source.JIRA, "JIRA_401", now, 960)
        lines = shell.out("lifecycle", "sources").splitlines()
        assert [" ".join(line.split()[-2:]) for line in lines[1:]][1] == "4 JIRA_401"
        assert ("in 5" in lines[1], "in 15 min  never" in lines[2]) == (True, True)
        github, jira = shell.data("lifecycle", "sources")
        assert (github["source"], github["etag"], github["failures"]) == ("GITHUB", 'W/"a"', 0)
        assert (jira["complete_until"], jira["last_error"]) == (None, "JIRA_401")


def test_an_id_is_not_read_as_a_pattern_nor_as_sql(shell: OperatorShell, env: Environment) -> None:
    asked(env)
    for odd in ("%", "' OR ''='", str(uuid4())):
        assert (
            shell.refused("lifecycle", "tasks", "show", odd)
            == f"task {odd} does not exist; `dpp lifecycle tasks list` shows all"
        )
