"""`dpp workspaces`, as an operator types it, on real servers (WS-1 … WS-14)."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from dpp.platform.ids import new_id
from dpp.workspaces.api.create import OWNER
from dpp.workspaces.api.owner import CONNECT
from dpp.workspaces.control.message import Collect, Observe, parse
from dpp.workspaces.control.tick import TTL
from dpp.workspaces.model import archive_key_of
from dpp.workspaces.providers.s3_archives import S3Archives, proof_key_of
from tests.auth_errors.api import Queues
from tests.local.operator import InProcessLambda
from tests.local.shell import OperatorShell, named_rows
from tests.support.world import World
from tests.workspaces.conftest import env, fleet
from tests.workspaces.environment import TENANT, Environment
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.memory_provider import MemoryProvider

__all__ = ["env", "fleet"]  # fixtures

AN_ID = "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"
NO_WORKSPACES = "this deployment has no workspaces: {} is not set"


@pytest.fixture
def queues(world: World) -> Queues:
    """Those of looks and of long work: the first two of three."""
    return Queues.made()


@pytest.fixture
def archives(world: World, env: Environment) -> S3Archives:
    """The desk's archives, in a bucket."""
    made = S3Archives(world.bucket, lambda: boto3.client("s3"))
    env.provider = replace(env.provider, archives=made)
    return made


@pytest.fixture
def shell(world: World, queues: Queues, archives: S3Archives, monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    """A shell whose environment names the database, the queues and the archives."""
    monkeypatch.setenv("DPP_WORKSPACE_LOOK_QUEUE_URL", queues.events)
    monkeypatch.setenv("DPP_WORKSPACE_WORK_QUEUE_URL", queues.dead_letters)
    monkeypatch.setenv("DPP_ARCHIVES_BUCKET", archives.bucket)
    return named_rows(monkeypatch, world.database_url)


def sent(queues: Queues, url: str) -> list[object]:
    """Return the messages of a queue and remove them."""
    return [parse(one["Body"]) for one in queues.waiting(url)]


def lost(env: Environment, fleet: MemoryProvider) -> UUID:
    """A workspace whose volume vanished with its home."""
    workspace_id = env.create_in("STANDBY")
    del fleet.volumes.volumes[workspace_id]
    for _ in range(4):
        env.observe(workspace_id)
        env.pass_time(20)
    assert env.phase(workspace_id) == "ERROR"
    return workspace_id


class TestLooking:
    """list, show, explain."""

    def test_a_list_is_narrowed_and_says_where_it_was_cut(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider
    ) -> None:
        assert shell.out("workspaces", "list") == "no workspaces found\n"
        assert shell.data("workspaces", "list") == []
        runs, waits, new = env.create_in("RUNNING"), lost(env, fleet), env.create("RUNNING")
        assert [one["workspace_id"] for one in shell.data("workspaces", "list")] == [str(new), str(waits), str(runs)]
        table = shell.out("workspaces", "list")
        assert f"{runs}  RUNNING  RUNNING" in table
        assert f"{waits}  ERROR    STANDBY" in table
        assert "DataLost" in table
        assert "never" in table
        for words, wanted in {
            ("--error",): waits,
            ("--phase", "ERROR"): waits,
            ("--phase", "RUNNING"): runs,
            ("--phase", "PENDING", "--tenant", TENANT): new,
        }.items():
            [only] = shell.data("workspaces", "list", *words)
            assert (only["workspace_id"], only["tenant_id"]) == (str(wanted), TENANT), words
        assert shell.data("workspaces", "list", "--tenant", "t_other") == []
        assert "give only one of" in shell.refused("workspaces", "list", "--error", "--phase", "RUNNING")
        cut = shell.run("workspaces", "list", "--limit", "2")
        assert (cut.exit_code, cut.stderr) == (0, "there are more; raise --limit\n")

    def test_a_deleted_one_is_listed_until_nothing_is_left_of_it(self, shell: OperatorShell, env: Environment) -> None:
        workspace_id = env.create_in("ARCHIVED")
        env.delete(workspace_id)
        [only] = shell.data("workspaces", "list", "--tenant", TENANT)
        assert only["desired_state"] == "DELETED"
        for _ in range(5):
            env.observe(workspace_id)
            env.pass_time(20)
        assert shell.data("workspaces", "list") == []
        assert "cleaned" in shell.out("workspaces", "show", str(workspace_id))
        printed = shell.out("workspaces", "explain", str(workspace_id))
        assert "The workspace is deleted, and nothing of it is left." in printed
        assert "there is nothing to observe" in shell.refused("workspaces", "look", str(workspace_id))

    @pytest.mark.parametrize("wrong", [("--phase", "GONE"), ("--limit", "0"), ("show", "1"), ("explain",)])
    def test_what_is_no_filter_and_no_id_is_reported_as_usage(
        self, shell: OperatorShell, wrong: tuple[str, ...]
    ) -> None:
        words = wrong if not wrong[0].startswith("-") else ("list", *wrong)
        assert shell.run("workspaces", *words).exit_code == 2

    def test_one_is_shown_whole(self, shell: OperatorShell, env: Environment) -> None:
        workspace_id = env.create_in("RUNNING")
        stands = env.get(workspace_id)
        shown = shell.out("workspaces", "show", str(workspace_id))
        for said in (
            f"workspace {workspace_id}",
            TENANT,
            "RUNNING, requested by owner",
            "The workspace is RUNNING, as desired.",
            str(stands.archive_key),
            "SHA-256",
            "storage.volume_ready",
            "VolumeProvisioned",
            "policy.healthy",
            "COMPLETED",
            "PROVISIONING",
            "reconciler",
        ):
            assert said in shown, said
        printed = shell.data("workspaces", "show", str(workspace_id))
        assert printed["home"]["restore_marker"] == printed["archive_key"] == stands.archive_key
        assert (printed["phase"], printed["op_id"]) == ("RUNNING", str(stands.op_id))
        assert printed["events"][-1]["kind"] == "CREATED"
        few = shell.out("workspaces", "show", str(workspace_id), "--events", "1")
        assert "CREATED" not in few

    def test_what_an_owner_called_it_moves_no_cursor(self, shell: OperatorShell, env: Environment) -> None:
        workspace_id = env.create()
        env.rows("BEGIN; SET LOCAL ROLE dpp_workspace_api; UPDATE workspaces SET name = E'\\x1b[2J[red]mine'; COMMIT")
        for words in (("list",), ("show", str(workspace_id))):
            assert "\x1b" not in (printed := shell.out("workspaces", *words))
            assert "[red]mine" in printed

    def test_what_comes_next_is_reported_in_the_planners_words(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider
    ) -> None:
        new = env.create("RUNNING")
        printed = shell.out("workspaces", "explain", str(new))
        assert "desired      RUNNING, requested by owner\n" in printed
        assert "observed     not observed yet\n" in printed
        assert "in progress  nothing\n" in printed
        assert "next         The workspace has not been observed yet.\n" in printed
        workspace_id = lost(env, fleet)
        blocked = shell.run("workspaces", "explain", str(workspace_id))
        assert "blocked      yes, it needs an operator\n" in blocked.stdout
        assert "next         DataLost: The volume that held the home is gone" in blocked.stdout
        assert f"`dpp workspaces recover {workspace_id} --way …`" in blocked.stderr
        data = shell.data("workspaces", "explain", str(workspace_id))
        assert (data["blocked"], data["next_kind"], data["observed"]) == (True, "BLOCKED", "ERROR")
        assert data["conditions"]["storage.volume_ready"]["status"] is False

    def test_an_unknown_id_is_said_to_be_unknown(self, shell: OperatorShell) -> None:
        for words in (
            ("show", AN_ID),
            ("explain", AN_ID),
            ("look", AN_ID),
            ("recover", AN_ID, "--way", "retry", "--reason", "x"),
        ):
            assert (
                shell.refused("workspaces", *words)
                == f"workspace {AN_ID} does not exist; `dpp workspaces list` shows all"
            )


class TestActing:
    """look, recover, collect."""

    def test_a_look_is_sent_for(self, shell: OperatorShell, env: Environment, queues: Queues) -> None:
        workspace_id = env.create()
        printed = shell.out("workspaces", "look", str(workspace_id))
        assert printed == f"workspace {workspace_id} will be observed next\n"
        assert sent(queues, queues.events) == [Observe(workspace_id)]

    def test_a_lost_home_goes_on_from_an_archive_once_that_is_confirmed(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider, queues: Queues
    ) -> None:
        """WS-14: and the event says who, how and why."""
        workspace_id = lost(env, fleet)
        words = ("workspaces", "recover", str(workspace_id))
        assert "The home is lost: recover it from an archive" in shell.refused(
            *words, "--way", "retry", "--reason", "x"
        )
        asked = shell.run(*words, "--way", "from-archive", "--reason", "the disk is gone")
        assert asked.exit_code == 1  # nobody answers
        assert f"archive: {env.get(workspace_id).archive_key}" in asked.stdout
        assert "Everything newer than the archive will be lost. Continue?" in asked.stdout
        assert env.phase(workspace_id) == "ERROR"
        assert "add --yes" in shell.refused(*words, "--way", "empty", "--reason", "x", "--json")
        done = shell.run(*words, "--way", "from-archive", "--reason", "the disk is gone", "--yes")
        assert (done.exit_code, done.stdout) == (0, f"workspace {workspace_id} recovers: from-archive\n")
        assert "it will be observed now" in done.stderr
        assert sent(queues, queues.events) == [Observe(workspace_id)]
        env.drive_to(workspace_id, "STANDBY")
        events = shell.data("workspaces", "show", str(workspace_id))["events"]
        [recovered] = [one for one in events if one["kind"] == "RECOVERED"]
        assert (recovered["actor"], recovered["message"]) == ("kim", "FROM_ARCHIVE: the disk is gone")
        assert recovered["reason"] == "DataLost"

    def test_it_begins_empty_where_that_is_said(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a queue of looks, too."""
        monkeypatch.delenv("DPP_WORKSPACE_LOOK_QUEUE_URL")
        workspace_id = lost(env, fleet)
        done = shell.run(
            "workspaces", "recover", str(workspace_id), "--way", "empty", "--reason", "x", "--yes", "--json"
        )
        assert json.loads(done.stdout) == {"workspace_id": str(workspace_id), "way": "EMPTY", "archive_key": None}
        assert "within half a minute" in done.stderr
        env.drive_to(workspace_id, "STANDBY")

    def test_an_archive_that_vanished_is_given_up_for_the_home_that_stands_and_that_is_on_record(
        self, shell: OperatorShell, env: Environment, archives: S3Archives
    ) -> None:
        """WS-4: its health alone makes it an ERROR, with no error of an operation."""
        workspace_id = env.create_in("STANDBY")
        key = str(env.get(workspace_id).archive_key)
        archives.delete([key])
        env.observe(workspace_id)
        assert env.get(workspace_id).error_info is None
        assert "ArchiveAccessError" in shell.run("workspaces", "explain", str(workspace_id)).stdout
        words = ("workspaces", "recover", str(workspace_id), "--reason", "deleted by hand")
        assert "has a volume" in shell.refused(*words, "--way", "empty", "--yes")
        assert shell.run(*words, "--way", "keep-volume", "--yes").exit_code == 0
        env.observe(workspace_id)
        assert env.phase(workspace_id) == "STANDBY"
        events = shell.data("workspaces", "show", str(workspace_id))["events"]
        [recovered] = [one for one in events if one["kind"] == "RECOVERED"]
        assert (recovered["actor"], recovered["reason"]) == ("kim", "ArchiveAccessError")

    def test_what_can_not_be_recovered_is_refused_in_a_sentence(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider
    ) -> None:
        well, waits = str(env.create_in("STANDBY")), str(lost(env, fleet))
        refused: dict[tuple[str, ...], str] = {
            (
                well,
                "--way",
                "retry",
            ): "The workspace has no error to recover from. The workspace is STANDBY, and no operation is in progress.",
            (waits, "--way", "keep-volume", "--yes"): "The workspace has no volume with a complete home.",
            (waits, "--way", "retry", "--archive-key", "x"): "--archive-key can only be used with --way from-archive",
            **{
                (waits, "--way", "retry", "--as", ours): f"{ours} is reserved for the platform"
                for ours in (OWNER, CONNECT, TTL, "monitor", "reconciler")
            },
            (waits, "--way", "retry", "--as", "no body"): "an operator's name must have",
        }
        for key in (AN_ID, archive_key_of(UUID(AN_ID), new_id()), archive_key_of(UUID(waits), new_id())):
            unknown = (waits, "--way", "from-archive", "--archive-key", key, "--yes")
            refused[unknown] = "The workspace has no proved archive under this key."
        for words, printed in refused.items():
            assert printed in shell.refused("workspaces", "recover", *words, "--reason", "x"), words
        assert "--reason" in shell.refused("workspaces", "recover", waits, "--way", "retry", "--reason", " ")
        assert shell.run("workspaces", "recover", waits, "--way", "hope", "--reason", "x").exit_code == 2

    def test_a_collection_is_counted_in_place_and_nothing_deleted(
        self, shell: OperatorShell, env: Environment, archives: S3Archives
    ) -> None:
        """WS-13."""
        empty = shell.run("workspaces", "collect", "--dry-run")
        assert empty.stdout == "no archives\n"
        workspace_id = env.create_in("ARCHIVED")
        archives.write(archive_key_of(uuid4(), uuid4()), iter([b"x"]), no_heartbeat)
        printed = shell.run("workspaces", "collect", "--dry-run")
        assert "3  YOUNG" in printed.stdout
        assert printed.stderr == "dry run: would delete 0 objects, 0 bytes; nothing was deleted\n"
        data = shell.data("workspaces", "collect", "--dry-run")
        assert (data["by_verdict"], data["would_delete"]) == ({"YOUNG": 3}, 0)
        key = str(env.get(workspace_id).archive_key)
        assert archives.head(key) is not None
        assert archives.head(proof_key_of(key)) is not None

    def test_a_dry_run_says_what_a_run_would_delete(
        self, shell: OperatorShell, env: Environment, archives: S3Archives, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dpp.workspaces.archives.garbage.GRACE_SECONDS", -60)
        workspace_id = env.create_in("ARCHIVED")
        archives.write(archive_key_of(workspace_id, new_id()), iter([b"old"]), no_heartbeat)
        archives.write(archive_key_of(uuid4(), new_id()), iter([b"whose"]), no_heartbeat)
        printed = shell.run("workspaces", "collect", "--dry-run")
        assert "1  GARBAGE" in printed.stdout
        assert "1  UNKNOWN_WORKSPACE" in printed.stdout
        assert "2  ARCHIVE_KEY" in printed.stdout
        assert "dry run: would delete 1 objects, 3 bytes" in printed.stderr
        assert len(archives.page(None, 100)) == 4

    def test_a_collection_is_sent_for(self, shell: OperatorShell, queues: Queues) -> None:
        done = shell.run("workspaces", "collect")
        assert (done.exit_code, done.stdout) == (0, "collection requested\n")
        assert "workspaces_storage" in done.stderr
        assert shell.data("workspaces", "collect") == {"dry_run": False, "sent": True}
        assert sent(queues, queues.dead_letters) == [Collect(None), Collect(None)]


class TestElsewhere:
    """Deployments without workspaces, servers that are away, and the function `operate`."""

    def test_a_deployment_without_workspaces_says_so(
        self, world: World, env: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell = named_rows(monkeypatch, world.database_url)
        workspace_id = str(env.create())
        for words, variable in (
            (("look", AN_ID), "DPP_WORKSPACE_LOOK_QUEUE_URL"),
            (("recover", workspace_id, "--way", "retry", "--reason", "x"), "DPP_ARCHIVES_BUCKET"),
            (("collect",), "DPP_WORKSPACE_WORK_QUEUE_URL"),
            (("collect", "--dry-run"), "DPP_ARCHIVES_BUCKET"),
        ):
            assert shell.refused("workspaces", *words) == NO_WORKSPACES.format(variable)
        assert workspace_id in shell.out("workspaces", "list")

    def test_a_queue_that_does_not_answer_is_named(
        self, shell: OperatorShell, env: Environment, fleet: MemoryProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workspace_id = str(lost(env, fleet))
        monkeypatch.setenv("DPP_WORKSPACE_LOOK_QUEUE_URL", "http://sqs.us-east-1.amazonaws.com/1/none")
        assert shell.refused("workspaces", "look", workspace_id).startswith("sqs is unavailable")
        done = shell.run("workspaces", "recover", workspace_id, "--way", "empty", "--reason", "x", "--yes")
        assert done.exit_code == 0
        assert "within half a minute" in done.stderr

    def test_the_function_operate_has_the_same_commands(
        self, shell: OperatorShell, world: World, env: Environment, queues: Queues, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        there = InProcessLambda()
        monkeypatch.setattr("boto3.client", _answering(there))
        for name, value in world.environ().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DPP_RUN_DEAD_LETTER_QUEUE_URL", world.queue_url)
        workspace_id = env.create()
        on_stage = OperatorShell("--stage", "dev")
        assert str(workspace_id) in on_stage.run("workspaces", "list").stdout
        assert on_stage.run("workspaces", "look", str(workspace_id)).exit_code == 0
        assert sent(queues, queues.events) == [Observe(workspace_id)]
        asking = ["workspaces", "recover", str(workspace_id), "--way", "empty", "--reason", "x", "--as", "kim"]
        answer = there.invoke(FunctionName="", Payload=json.dumps({"words": asking}).encode())
        assert "add --yes" in json.loads(answer["Payload"].read())["stderr"]


def _answering(there: InProcessLambda) -> Any:
    """`boto3.client` of Lambda alone: what else the function asks for is moto's."""
    real = boto3.client
    return lambda service, *args, **more: there if service == "lambda" else real(service, *args, **more)
