"""Containers on Fargate, against moto (WS-9)."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Containers, Volume
from dpp.workspaces.providers.aws_failures import MESSAGE_CHARACTERS
from dpp.workspaces.providers.fargate_containers import FargateContainers
from tests.workspaces.providers.aws_account import (
    Account,
    Fault,
    aws_containers,
    home_path,
    lay_volume,
    throttled,
    unanswered,
    unreached,
)

WRONG = [(unreached, False), (throttled, False), (unanswered, True)]
ENOUGH = 30


@pytest.fixture
def account(aws: None) -> Account:
    """Of this test's own."""
    return Account()


@pytest.fixture
def containers(account: Account) -> FargateContainers:
    """Of that account."""
    return aws_containers(account)


@pytest.fixture
def workspace_id() -> UUID:
    """A workspace."""
    return uuid4()


class TestStart:
    def test_one_task_runs_on_the_home_behind_its_access_point(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        (point,) = account.efs.describe_access_points(FileSystemId=account.settings.efs_id)["AccessPoints"]
        assert point["RootDirectory"] == {"Path": home_path(workspace_id)}
        assert point["PosixUser"] == {"Uid": 1000, "Gid": 1000}
        assert {tag["Key"]: tag["Value"] for tag in point["Tags"]} == {
            "Name": f"ws-{workspace_id}-home",
            "dpp:generation": "g1",
        }
        service = account.service(workspace_id)
        assert (service.status, service.desired_count, service.launch_type) == ("ACTIVE", 1, "FARGATE")
        network = service.network_configuration["awsvpcConfiguration"]
        assert network["assignPublicIp"] == "DISABLED"
        assert network["subnets"] == list(account.settings.subnets)
        assert network["securityGroups"] == [account.settings.security_group]
        definition = account.ecs.describe_task_definition(taskDefinition=service.task_definition)
        (volume,) = definition["taskDefinition"]["volumes"]
        assert volume["efsVolumeConfiguration"] == {
            "fileSystemId": account.settings.efs_id,
            "rootDirectory": "/",  # of the access point
            "transitEncryption": "ENABLED",
            "authorizationConfig": {"accessPointId": point["AccessPointId"], "iam": "ENABLED"},
        }
        assert containers.observe([workspace_id])[workspace_id].ready

    def test_no_second_container_ever_shares_the_home(
        self, account: Account, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """A rolling update would start the next before it stops the last, and so would balancing of zones."""
        containers = account.containers()
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g1"))
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g2"))
        sent = {call: params for call, params in account.sent if call in ("CreateService", "UpdateService")}
        assert sent["CreateService"]["availabilityZoneRebalancing"] == "DISABLED"
        assert [params["deploymentConfiguration"] for params in sent.values()] == [
            {"minimumHealthyPercent": 0, "maximumPercent": 100}
        ] * 2

    def test_starting_what_runs_changes_nothing(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        before = account.state(workspace_id)
        account.calls.clear()
        containers.start(workspace_id, volume)
        account.containers(image="other:2").start(workspace_id, volume)  # a container at work isn't replaced
        assert account.state(workspace_id) == before
        assert not {"CreateService", "UpdateService", "RegisterTaskDefinition"} & set(account.calls)

    def test_one_that_does_not_come_up_gets_what_settings_say_now(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        account.starts = True
        account.containers(image="mended:2").start(workspace_id, volume)
        definition = account.ecs.describe_task_definition(
            taskDefinition=account.service(workspace_id).task_definition
        )
        assert definition["taskDefinition"]["containerDefinitions"][0]["image"] == "mended:2"

    def test_a_container_of_another_generation_is_moved_to_this_one(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g1"))
        first = account.service(workspace_id).task_definition
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g2"))
        assert account.service(workspace_id).task_definition != first
        assert account.roots() == [home_path(workspace_id, g) for g in ("g1", "g2")]

    def test_a_service_scaled_to_none_is_scaled_up_again(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        account.ecs.update_service(cluster=account.cluster, service=f"ws-{workspace_id}", desiredCount=0)
        containers.start(workspace_id, volume)
        assert account.service(workspace_id).desired_count == 1
        assert len(account.definitions(workspace_id)) == 1

    def test_a_service_that_drains_is_waited_for(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """As it does where somebody else deleted it."""
        volume = lay_volume(tmp_path, workspace_id)
        account.lingers = True
        containers.start(workspace_id, volume)
        account.ecs.delete_service(cluster=account.cluster, service=f"ws-{workspace_id}", force=True)
        with pytest.raises(ProviderUnavailable, match="draining"):
            containers.start(workspace_id, volume)
        account.settle(workspace_id)
        containers.start(workspace_id, volume)
        assert containers.observe([workspace_id])[workspace_id].ready

    def test_each_service_is_created_by_a_token_of_its_own(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """ECS would take the second for a repetition of the first, and make none."""
        volume = lay_volume(tmp_path, workspace_id)
        for _ in range(2):
            containers.start(workspace_id, volume)
            containers.stop(workspace_id)
        tokens = {params["clientToken"] for call, params in account.sent if call == "CreateService"}
        assert len(tokens) == 2

    def test_a_volume_that_is_gone_or_another_is_refused_before_anything_is_made(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        old = lay_volume(tmp_path, workspace_id, "old")
        lay_volume(tmp_path, workspace_id, "new")
        with pytest.raises(OperationFailed, match="VolumeGone"):
            containers.start(workspace_id, old)
        gone = lay_volume(tmp_path, workspace_id, "gone")
        shutil.rmtree(gone.home.resolve().parent)
        with pytest.raises(OperationFailed, match="VolumeGone"):
            containers.start(workspace_id, gone)
        assert account.calls == []

    def test_of_a_start_and_a_deletion_at_once_one_sees_the_other(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)

        def unlinked(**_: object) -> None:
            assert not containers.in_use(workspace_id)  # looked for before the service is there
            (tmp_path / f"ws-{workspace_id}-home").unlink()

        account.ecs.meta.events.register_first("before-parameter-build.ecs.CreateService", unlinked)
        with pytest.raises(OperationFailed, match="VolumeGone"):
            containers.start(workspace_id, volume)
        assert account.state(workspace_id)[1:] == (0, None)


class TestStop:
    def test_nothing_of_the_container_is_left(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        assert account.state(workspace_id) == ([home_path(workspace_id, "g1")], 0, None)
        assert containers.observe([workspace_id])[workspace_id].reason == "ContainerNotFound"

    def test_stopping_what_is_not_there_changes_nothing(
        self, account: Account, containers: FargateContainers, workspace_id: UUID
    ) -> None:
        containers.stop(workspace_id)
        assert account.calls == ["DescribeServices", "ListTaskDefinitions"]

    def test_another_that_deletes_it_meanwhile_is_no_failure(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))

        def meanwhile(**_: object) -> None:
            account.service(workspace_id).status = "DRAINING"

        account.ecs.meta.events.register_first("before-parameter-build.ecs.UpdateService", meanwhile)
        containers.stop(workspace_id)
        assert account.definitions(workspace_id) == []

    def test_a_container_is_observed_until_its_task_has_stopped_and_nothing_is_left_of_it(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """An archive that was made while a task had still to write would be the only copy of less than the home."""
        account.lingers = True
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        for happens in (lambda _: None, account.terminate):
            happens(workspace_id)
            containers.stop(workspace_id)
            seen = containers.observe([workspace_id])[workspace_id]
            assert (seen.ready, seen.reason) == (True, "ContainerStopping")
            assert containers.in_use(workspace_id)
        account.settle(workspace_id)
        assert not containers.in_use(workspace_id)
        assert containers.observe([workspace_id])[workspace_id].ready  # since it has still to be deleted
        containers.stop(workspace_id)
        assert account.state(workspace_id)[1:] == (0, None)
        assert not containers.observe([workspace_id])[workspace_id].ready

    def test_a_service_that_another_deleted_is_observed_while_its_task_runs(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.lingers = True
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        account.ecs.delete_service(cluster=account.cluster, service=f"ws-{workspace_id}", force=True)
        seen = containers.observe([workspace_id])[workspace_id]
        assert (seen.ready, seen.reason) == (True, "ContainerStopping")
        account.terminate(workspace_id)
        assert not containers.observe([workspace_id])[workspace_id].ready
        assert containers.in_use(workspace_id)
        containers.stop(workspace_id)
        assert account.definitions(workspace_id) == []


type Act = Callable[[FargateContainers], None]


def _start(workspace_id: UUID, volume: Volume, containers: FargateContainers) -> None:
    containers.start(workspace_id, volume)


def _stop(workspace_id: UUID, containers: FargateContainers) -> None:
    containers.stop(workspace_id)


class TestAnyCallMayFail:
    """Lost before it took effect or after, or refused for now: the next call goes on from there."""

    @pytest.mark.parametrize(("fault", "done"), WRONG)
    @pytest.mark.parametrize("stood", ["nothing", "stopped", "scaled to none", "another generation"])
    def test_of_a_start(self, account: Account, fault: Fault, done: bool, stood: str, tmp_path: Path) -> None:
        for number in range(ENOUGH):
            workspace_id = uuid4()
            self._stand(account, workspace_id, stood, tmp_path)
            volume = lay_volume(tmp_path, workspace_id)
            if self._fails_once(account, number, fault, done, partial(_start, workspace_id, volume)):
                break
            definitions, service = account.state(workspace_id)[1:]
            assert service == ("ACTIVE", 1, True)
            assert definitions == (2 if stood == "another generation" else 1)
            assert account.roots().count(home_path(workspace_id, "g1")) == 1
            assert account.containers().observe([workspace_id])[workspace_id].ready
        assert 3 < number < ENOUGH - 1

    @pytest.mark.parametrize(("fault", "done"), WRONG)
    @pytest.mark.parametrize("lingers", [True, False])
    def test_of_a_stop(
        self, account: Account, fault: Fault, done: bool, lingers: bool, tmp_path: Path
    ) -> None:
        account.lingers = lingers
        for number in range(ENOUGH):
            workspace_id = uuid4()
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
            if self._fails_once(account, number, fault, done, partial(_stop, workspace_id)):
                break
            if lingers:
                assert account.containers().observe([workspace_id])[workspace_id].ready
                account.settle(workspace_id)
                account.containers().stop(workspace_id)
            assert account.state(workspace_id)[1:] == (0, None)
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
            assert account.state(workspace_id)[1:] == (1, ("ACTIVE", 1, True))
        assert number == (3 if lingers else 8)

    @pytest.mark.parametrize(("fault", "done"), WRONG)
    def test_of_a_look(self, account: Account, fault: Fault, done: bool) -> None:
        account.fail(1, fault, done=done)
        with pytest.raises(ProviderUnavailable):
            account.containers().observe([uuid4() for _ in range(11)])

    @staticmethod
    def _stand(account: Account, workspace_id: UUID, stood: str, root: Path) -> None:
        containers = account.containers()
        if stood != "nothing":
            generation = "g0" if stood == "another generation" else "g1"
            containers.start(workspace_id, lay_volume(root, workspace_id, generation))
        if stood == "stopped":
            containers.stop(workspace_id)
        if stood == "scaled to none":
            account.ecs.update_service(cluster=account.cluster, service=f"ws-{workspace_id}", desiredCount=0)

    @staticmethod
    def _fails_once(account: Account, number: int, fault: Fault, done: bool, act: Act) -> bool:
        """Act with the call `number` going wrong, and again by a new process; True where there was no such call."""
        account.fail(number, fault, done=done)
        try:
            act(account.containers())
        except ProviderUnavailable:
            account.heal()
            act(account.containers())
            return False
        finally:
            account.heal()
        return True


class TestObserve:
    def test_each_is_told_and_ten_are_asked_for_a_call(
        self, account: Account, containers: FargateContainers, tmp_path: Path
    ) -> None:
        there = [uuid4() for _ in range(12)]
        for workspace_id in there:
            containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        missing = [uuid4() for _ in range(13)]
        account.calls.clear()
        seen = containers.observe([*there, *missing, there[0]])
        assert account.calls == ["DescribeServices"] * 3
        assert {id for id, found in seen.items() if found.ready} == set(there)
        assert {seen[id].reason for id in missing} == {"ContainerNotFound"}

    def test_nobody_is_asked_of_none(self, account: Account, containers: FargateContainers) -> None:
        assert containers.observe([]) == {}
        assert account.calls == []

    def test_one_on_its_way_is_starting(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        seen = containers.observe([workspace_id])[workspace_id]
        assert (seen.ready, seen.reason) == (False, "ContainerStarting")

    def test_one_that_fails_says_what_ecs_says_of_it_last_and_of_no_account(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        service = account.service(workspace_id)
        service.deployments[0]["failedTasks"] = 1
        arn = f"arn:aws:ecs:us-east-1:123456789012:service/{account.cluster}/x"
        service.events = [
            {"id": "2", "message": f"(service {arn}) can't pull for 123456789012 " + "x" * 300},
            {"id": "1", "message": "before"},
        ]
        seen = containers.observe([workspace_id])[workspace_id]
        assert (seen.ready, seen.reason) == (False, "ContainerFailing")
        assert seen.message.startswith("(service x) can't pull for … xxx")
        assert len(seen.message) == MESSAGE_CHARACTERS

    def test_what_is_not_ours_stays_as_it_is(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        other = uuid4()
        containers.start(other, lay_volume(tmp_path, other))
        before = account.state(other)[1:]
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        assert account.state(other)[1:] == before
        assert containers.observe([other])[other].ready

    def test_it_is_a_provider_of_containers(self, containers: FargateContainers) -> None:
        port: Containers = containers
        assert port.infra == "ecs"


class TestInUse:
    def test_nothing_runs_of_what_was_never_started(
        self, containers: FargateContainers, workspace_id: UUID
    ) -> None:
        assert not containers.in_use(workspace_id)

    def test_a_service_may_start_a_task_as_long_as_it_wants_one(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        assert containers.in_use(workspace_id)

    @pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "DEACTIVATING", "STOPPING"])
    def test_a_task_may_write_until_it_has_stopped(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, status: str
    ) -> None:
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", status]
        assert containers.in_use(workspace_id)
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", "STOPPED"]
        assert not containers.in_use(workspace_id)
