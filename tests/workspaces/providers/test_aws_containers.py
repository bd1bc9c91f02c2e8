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

FAULTS = [(unreached, False), (throttled, False), (unanswered, True)]
MAX_CALLS = 30


@pytest.fixture
def account(aws: None) -> Account:
    return Account()


@pytest.fixture
def containers(account: Account) -> FargateContainers:
    return aws_containers(account)


@pytest.fixture
def workspace_id() -> UUID:
    return uuid4()


class TestStart:
    def test_one_task_runs_on_the_home_through_its_access_point(
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

    def test_two_containers_never_share_the_home(
        self, account: Account, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """A rolling update would start the next task before it stops the last, and so would zone rebalancing."""
        containers = account.containers()
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g1"))
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g2"))
        sent = {call: params for call, params in account.sent if call in ("CreateService", "UpdateService")}
        assert sent["CreateService"]["availabilityZoneRebalancing"] == "DISABLED"
        assert [params["deploymentConfiguration"] for params in sent.values()] == [
            {"minimumHealthyPercent": 0, "maximumPercent": 100}
        ] * 2

    def test_start_of_a_running_container_changes_nothing(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        before = account.state(workspace_id)
        account.calls.clear()
        containers.start(workspace_id, volume)
        account.containers(image="other:2").start(workspace_id, volume)  # a running container isn't replaced
        assert account.state(workspace_id) == before
        assert not {"CreateService", "UpdateService", "RegisterTaskDefinition"} & set(account.calls)

    def test_container_that_does_not_start_gets_the_current_settings(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        account.starts = True
        account.containers(image="fixed:2").start(workspace_id, volume)
        definition = account.ecs.describe_task_definition(
            taskDefinition=account.service(workspace_id).task_definition
        )
        assert definition["taskDefinition"]["containerDefinitions"][0]["image"] == "fixed:2"

    def test_container_of_another_generation_is_moved_to_this_one(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g1"))
        first = account.service(workspace_id).task_definition
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id, "g2"))
        assert account.service(workspace_id).task_definition != first
        assert account.roots() == [home_path(workspace_id, g) for g in ("g1", "g2")]

    def test_service_scaled_to_zero_is_scaled_up_again(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)
        containers.start(workspace_id, volume)
        account.ecs.update_service(cluster=account.cluster, service=f"ws-{workspace_id}", desiredCount=0)
        containers.start(workspace_id, volume)
        assert account.service(workspace_id).desired_count == 1
        assert len(account.definitions(workspace_id)) == 1

    def test_start_waits_for_a_draining_service(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """A service drains if another caller deleted it."""
        volume = lay_volume(tmp_path, workspace_id)
        account.lingers = True
        containers.start(workspace_id, volume)
        account.ecs.delete_service(cluster=account.cluster, service=f"ws-{workspace_id}", force=True)
        with pytest.raises(ProviderUnavailable, match="draining"):
            containers.start(workspace_id, volume)
        account.settle(workspace_id)
        containers.start(workspace_id, volume)
        assert containers.observe([workspace_id])[workspace_id].ready

    def test_each_service_is_created_with_its_own_token(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """With the same token ECS would treat the second creation as a repetition, and create nothing."""
        volume = lay_volume(tmp_path, workspace_id)
        for _ in range(2):
            containers.start(workspace_id, volume)
            containers.stop(workspace_id)
        tokens = {params["clientToken"] for call, params in account.sent if call == "CreateService"}
        assert len(tokens) == 2

    def test_missing_or_replaced_volume_is_refused_before_anything_is_created(
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

    def test_one_of_a_concurrent_start_and_deletion_detects_the_other(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        volume = lay_volume(tmp_path, workspace_id)

        def unlinked(**_: object) -> None:
            assert not containers.in_use(workspace_id)  # checked before the service exists
            (tmp_path / f"ws-{workspace_id}-home").unlink()

        account.ecs.meta.events.register_first("before-parameter-build.ecs.CreateService", unlinked)
        with pytest.raises(OperationFailed, match="VolumeGone"):
            containers.start(workspace_id, volume)
        assert account.state(workspace_id)[1:] == (0, None)


class TestStop:
    def test_stop_leaves_nothing_of_the_container(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        assert account.state(workspace_id) == ([home_path(workspace_id, "g1")], 0, None)
        assert containers.observe([workspace_id])[workspace_id].reason == "ContainerNotFound"

    def test_stop_of_a_missing_container_changes_nothing(
        self, account: Account, containers: FargateContainers, workspace_id: UUID
    ) -> None:
        containers.stop(workspace_id)
        assert account.calls == ["DescribeServices", "ListTaskDefinitions"]

    def test_concurrent_deletion_is_no_failure(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))

        def meanwhile(**_: object) -> None:
            account.service(workspace_id).status = "DRAINING"

        account.ecs.meta.events.register_first("before-parameter-build.ecs.UpdateService", meanwhile)
        containers.stop(workspace_id)
        assert account.definitions(workspace_id) == []

    def test_container_is_observed_until_its_task_has_stopped_and_it_is_deleted(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        """An archive written while a task can still write would miss a part of the home."""
        account.lingers = True
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        for change in (lambda _: None, account.terminate):
            change(workspace_id)
            containers.stop(workspace_id)
            seen = containers.observe([workspace_id])[workspace_id]
            assert (seen.ready, seen.reason) == (True, "ContainerStopping")
            assert containers.in_use(workspace_id)
        account.settle(workspace_id)
        assert not containers.in_use(workspace_id)
        assert containers.observe([workspace_id])[workspace_id].ready  # the service is not deleted yet
        containers.stop(workspace_id)
        assert account.state(workspace_id)[1:] == (0, None)
        assert not containers.observe([workspace_id])[workspace_id].ready

    def test_service_deleted_by_another_is_observed_while_its_task_runs(
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
    """A call fails before or after it takes effect, or is refused; the next call continues from there."""

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    @pytest.mark.parametrize("before", ["nothing", "stopped", "scaled to zero", "another generation"])
    def test_during_a_start(
        self, account: Account, fault: Fault, done: bool, before: str, tmp_path: Path
    ) -> None:
        for number in range(MAX_CALLS):
            workspace_id = uuid4()
            self._prepare(account, workspace_id, before, tmp_path)
            volume = lay_volume(tmp_path, workspace_id)
            if self._fails_once(account, number, fault, done, partial(_start, workspace_id, volume)):
                break
            definitions, service = account.state(workspace_id)[1:]
            assert service == ("ACTIVE", 1, True)
            assert definitions == (2 if before == "another generation" else 1)
            assert account.roots().count(home_path(workspace_id, "g1")) == 1
            assert account.containers().observe([workspace_id])[workspace_id].ready
        assert 3 < number < MAX_CALLS - 1

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    @pytest.mark.parametrize("lingers", [True, False])
    def test_during_a_stop(
        self, account: Account, fault: Fault, done: bool, lingers: bool, tmp_path: Path
    ) -> None:
        account.lingers = lingers
        for number in range(MAX_CALLS):
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

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    def test_during_an_observation(self, account: Account, fault: Fault, done: bool) -> None:
        account.fail(1, fault, done=done)
        with pytest.raises(ProviderUnavailable):
            account.containers().observe([uuid4() for _ in range(11)])

    @staticmethod
    def _prepare(account: Account, workspace_id: UUID, before: str, root: Path) -> None:
        containers = account.containers()
        if before != "nothing":
            generation = "g0" if before == "another generation" else "g1"
            containers.start(workspace_id, lay_volume(root, workspace_id, generation))
        if before == "stopped":
            containers.stop(workspace_id)
        if before == "scaled to zero":
            account.ecs.update_service(cluster=account.cluster, service=f"ws-{workspace_id}", desiredCount=0)

    @staticmethod
    def _fails_once(account: Account, number: int, fault: Fault, done: bool, act: Act) -> bool:
        """Act with a failing call `number`, then again as a new process; True if there was no such call."""
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
    def test_observes_ten_services_per_call(
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

    def test_observing_no_workspaces_makes_no_call(
        self, account: Account, containers: FargateContainers
    ) -> None:
        assert containers.observe([]) == {}
        assert account.calls == []

    def test_starting_task_is_reported_as_starting(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        seen = containers.observe([workspace_id])[workspace_id]
        assert (seen.ready, seen.reason) == (False, "ContainerStarting")

    def test_failing_task_is_reported_with_the_latest_event_without_account_ids(
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

    def test_other_services_are_not_changed(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        other = uuid4()
        containers.start(other, lay_volume(tmp_path, other))
        before = account.state(other)[1:]
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        assert account.state(other)[1:] == before
        assert containers.observe([other])[other].ready

    def test_implements_the_port(self, containers: FargateContainers) -> None:
        port: Containers = containers
        assert port.infra == "ecs"


class TestInUse:
    def test_workspace_that_was_never_started_is_not_in_use(
        self, containers: FargateContainers, workspace_id: UUID
    ) -> None:
        assert not containers.in_use(workspace_id)

    def test_service_that_is_scaled_up_is_in_use(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.starts = False
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        assert containers.in_use(workspace_id)

    @pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "DEACTIVATING", "STOPPING"])
    def test_task_that_has_not_stopped_is_in_use(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, status: str
    ) -> None:
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", status]
        assert containers.in_use(workspace_id)
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", "STOPPED"]
        assert not containers.in_use(workspace_id)
