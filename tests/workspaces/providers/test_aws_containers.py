"""Containers on Fargate, against moto (WS-9)."""

import shutil
from collections.abc import Callable
from functools import partial
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Containers, Observation
from dpp.workspaces.providers.aws_failures import MESSAGE_CHARACTERS
from dpp.workspaces.providers.fargate_containers import FargateContainers
from tests.workspaces.providers.aws_account import FAULTS, Account, Fault, home_path

MAX_CALLS = 30


class TestStart:
    def test_one_task_runs_on_the_home_through_its_access_point(self, account: Account) -> None:
        account.start()
        (point,) = account.efs.describe_access_points(FileSystemId=account.settings.efs_id)["AccessPoints"]
        assert point["RootDirectory"] == {"Path": home_path(account.workspace_id)}
        assert point["PosixUser"] == {"Uid": 1000, "Gid": 1000}
        tags = {"Name": f"ws-{account.workspace_id}-home", "dpp:generation": "g1"}
        assert {tag["Key"]: tag["Value"] for tag in point["Tags"]} == tags
        service = account.service()
        assert (service.status, service.desired_count, service.launch_type) == ("ACTIVE", 1, "FARGATE")
        network = service.network_configuration["awsvpcConfiguration"]
        assert network["assignPublicIp"] == "DISABLED"
        assert network["subnets"] == list(account.settings.subnets)
        assert network["securityGroups"] == [account.settings.security_group]
        (volume,) = account.current_definition()["volumes"]
        assert volume["efsVolumeConfiguration"] == {
            "fileSystemId": account.settings.efs_id,
            "rootDirectory": "/",  # of the access point
            "transitEncryption": "ENABLED",
            "authorizationConfig": {"accessPointId": point["AccessPointId"], "iam": "ENABLED"},
        }
        assert observed(account).ready

    def test_two_containers_never_share_the_home(self, account: Account) -> None:
        """A rolling update would start the next task before it stops the last, and so would zone rebalancing."""
        account.start("g1")
        account.start("g2")
        sent = {call: params for call, params in account.sent if call in ("CreateService", "UpdateService")}
        assert sent["CreateService"]["availabilityZoneRebalancing"] == "DISABLED"
        assert [params["deploymentConfiguration"] for params in sent.values()] == [
            {"minimumHealthyPercent": 0, "maximumPercent": 100}
        ] * 2

    def test_start_of_a_running_container_changes_nothing(self, account: Account) -> None:
        volume = account.start()
        before = account.state()
        account.calls.clear()
        account.provider.start(account.workspace_id, volume)
        account.containers(image="other:2").start(account.workspace_id, volume)  # does not replace it either
        assert account.state() == before
        assert not {"CreateService", "UpdateService", "RegisterTaskDefinition"} & set(account.calls)

    def test_container_that_does_not_start_gets_the_current_settings(self, account: Account) -> None:
        account.starts = False
        volume = account.start()
        account.starts = True
        account.containers(image="fixed:2").start(account.workspace_id, volume)
        assert account.current_definition()["containerDefinitions"][0]["image"] == "fixed:2"

    def test_container_of_another_generation_is_moved_to_this_one(self, account: Account) -> None:
        account.start("g1")
        first = account.service().task_definition
        account.start("g2")
        assert account.service().task_definition != first
        assert account.roots() == [home_path(account.workspace_id, g) for g in ("g1", "g2")]

    def test_service_scaled_to_zero_is_scaled_up_again(self, account: Account) -> None:
        volume = account.start()
        account.scale_to_zero()
        account.provider.start(account.workspace_id, volume)
        assert account.service().desired_count == 1
        assert len(account.definitions()) == 1

    def test_start_waits_for_a_draining_service(self, account: Account) -> None:
        """A service drains if another caller deleted it."""
        account.lingers = True
        volume = account.start()
        account.delete_service()
        with pytest.raises(ProviderUnavailable, match="draining"):
            account.provider.start(account.workspace_id, volume)
        account.settle()
        account.provider.start(account.workspace_id, volume)
        assert observed(account).ready

    def test_each_service_is_created_with_its_own_token(self, account: Account) -> None:
        """With the same token ECS would treat the second creation as a repetition, and create nothing."""
        for _ in range(2):
            account.start()
            account.provider.stop(account.workspace_id)
        tokens = {params["clientToken"] for call, params in account.sent if call == "CreateService"}
        assert len(tokens) == 2

    def test_missing_or_replaced_volume_is_refused_before_anything_is_created(self, account: Account) -> None:
        old = account.lay_volume(generation="old")
        account.lay_volume(generation="new")
        with pytest.raises(OperationFailed, match="VolumeGone"):
            account.provider.start(account.workspace_id, old)
        gone = account.lay_volume(generation="gone")
        shutil.rmtree(gone.home.resolve().parent)
        with pytest.raises(OperationFailed, match="VolumeGone"):
            account.provider.start(account.workspace_id, gone)
        assert account.calls == []

    def test_one_of_a_concurrent_start_and_deletion_detects_the_other(self, account: Account) -> None:
        def unlink(**_: object) -> None:
            assert not account.provider.in_use(account.workspace_id)  # checked before the service exists
            (account.root / f"ws-{account.workspace_id}-home").unlink()

        account.ecs.meta.events.register_first("before-parameter-build.ecs.CreateService", unlink)
        with pytest.raises(OperationFailed, match="VolumeGone"):
            account.start()
        assert account.state()[1:] == (0, None)


class TestStop:
    def test_stop_leaves_nothing_of_the_container(self, account: Account) -> None:
        account.start()
        account.provider.stop(account.workspace_id)
        assert account.state() == ([home_path(account.workspace_id, "g1")], 0, None)
        assert observed(account).reason == "ContainerNotFound"

    def test_stop_of_a_missing_container_changes_nothing(self, account: Account) -> None:
        account.provider.stop(account.workspace_id)
        assert account.calls == ["DescribeServices", "ListTaskDefinitions"]

    def test_concurrent_deletion_is_no_failure(self, account: Account) -> None:
        account.start()

        def delete_meanwhile(**_: object) -> None:
            account.service().status = "DRAINING"

        account.ecs.meta.events.register_first("before-parameter-build.ecs.UpdateService", delete_meanwhile)
        account.provider.stop(account.workspace_id)
        assert account.definitions() == []

    def test_container_is_observed_until_its_task_has_stopped_and_it_is_deleted(self, account: Account) -> None:
        """An archive written while a task can still write would miss a part of the home."""
        account.lingers = True
        account.start()
        for terminates in (False, True):
            if terminates:
                account.terminate()
            account.provider.stop(account.workspace_id)
            assert (observed(account).ready, observed(account).reason) == (True, "ContainerStopping")
            assert account.provider.in_use(account.workspace_id)
        account.settle()
        assert not account.provider.in_use(account.workspace_id)
        assert observed(account).ready  # the service is not deleted yet
        account.provider.stop(account.workspace_id)
        assert account.state()[1:] == (0, None)
        assert not observed(account).ready

    def test_service_deleted_by_another_is_observed_while_its_task_runs(self, account: Account) -> None:
        account.lingers = True
        account.start()
        account.delete_service()
        assert (observed(account).ready, observed(account).reason) == (True, "ContainerStopping")
        account.terminate()
        assert not observed(account).ready
        assert account.provider.in_use(account.workspace_id)
        account.provider.stop(account.workspace_id)
        assert account.definitions() == []


class TestAnyCallMayFail:
    """A call fails before or after it takes effect, or is refused; the next call continues from there."""

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    @pytest.mark.parametrize("before", ["nothing", "stopped", "scaled to zero", "another generation"])
    def test_during_a_start(self, account: Account, fault: Fault, done: bool, before: str) -> None:
        for number in range(MAX_CALLS):
            account.workspace_id = workspace_id = uuid4()
            self._prepare(account, before)
            volume = account.lay_volume()
            start = partial(FargateContainers.start, workspace_id=workspace_id, volume=volume)
            if self._fails_once(account, number, fault, done, start):
                break
            definitions, service = account.state()[1:]
            assert service == ("ACTIVE", 1, True)
            assert definitions == (2 if before == "another generation" else 1)
            assert account.roots().count(home_path(workspace_id, "g1")) == 1
            assert observed(account).ready
        assert 3 < number < MAX_CALLS - 1

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    @pytest.mark.parametrize("lingers", [True, False])
    def test_during_a_stop(self, account: Account, fault: Fault, done: bool, lingers: bool) -> None:
        account.lingers = lingers
        for number in range(MAX_CALLS):
            account.workspace_id = workspace_id = uuid4()
            account.start()
            stop = partial(FargateContainers.stop, workspace_id=workspace_id)
            if self._fails_once(account, number, fault, done, stop):
                break
            if lingers:
                assert observed(account).ready
                account.settle()
                account.containers().stop(workspace_id)
            assert account.state()[1:] == (0, None)
            account.start()
            assert account.state()[1:] == (1, ("ACTIVE", 1, True))
        assert number == (3 if lingers else 8)

    @pytest.mark.parametrize(("fault", "done"), FAULTS)
    def test_during_an_observation(self, account: Account, fault: Fault, done: bool) -> None:
        account.fail(1, fault, done=done)
        with pytest.raises(ProviderUnavailable):
            account.containers().observe([uuid4() for _ in range(11)])

    @staticmethod
    def _prepare(account: Account, before: str) -> None:
        if before != "nothing":
            account.start("g0" if before == "another generation" else "g1")
        if before == "stopped":
            account.containers().stop(account.workspace_id)
        if before == "scaled to zero":
            account.scale_to_zero()

    @staticmethod
    def _fails_once(
        account: Account, number: int, fault: Fault, done: bool, act: Callable[[FargateContainers], None]
    ) -> bool:
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
    def test_observes_ten_services_per_call(self, account: Account) -> None:
        running = [uuid4() for _ in range(12)]
        for workspace_id in running:
            account.provider.start(workspace_id, account.lay_volume(workspace_id))
        missing = [uuid4() for _ in range(13)]
        account.calls.clear()
        found = account.provider.observe([*running, *missing, running[0]])
        assert account.calls == ["DescribeServices"] * 3
        assert {id for id, one in found.items() if one.ready} == set(running)
        assert {found[id].reason for id in missing} == {"ContainerNotFound"}

    def test_observing_no_workspaces_makes_no_call(self, account: Account) -> None:
        assert account.provider.observe([]) == {}
        assert account.calls == []

    def test_starting_task_is_reported_as_starting(self, account: Account) -> None:
        account.starts = False
        account.start()
        assert (observed(account).ready, observed(account).reason) == (False, "ContainerStarting")

    def test_failing_task_is_reported_with_the_latest_event_without_account_ids(self, account: Account) -> None:
        account.starts = False
        account.start()
        service = account.service()
        service.deployments[0]["failedTasks"] = 1
        arn = f"arn:aws:ecs:us-east-1:123456789012:service/{account.cluster}/x"
        latest = f"(service {arn}) can't pull for 123456789012 " + "x" * 300
        service.events = [{"id": "2", "message": latest}, {"id": "1", "message": "before"}]
        found = observed(account)
        assert (found.ready, found.reason) == (False, "ContainerFailing")
        assert found.message.startswith("(service x) can't pull for … xxx")
        assert len(found.message) == MESSAGE_CHARACTERS

    def test_other_services_are_not_changed(self, account: Account) -> None:
        other = uuid4()
        account.provider.start(other, account.lay_volume(other))
        before = account.state(other)[1:]
        account.start()
        account.provider.stop(account.workspace_id)
        assert account.state(other)[1:] == before
        assert observed(account, other).ready

    def test_implements_the_port(self, account: Account) -> None:
        port: Containers = account.provider
        assert port.infra == "ecs"


class TestInUse:
    def test_workspace_that_was_never_started_is_not_in_use(self, account: Account) -> None:
        assert not account.provider.in_use(account.workspace_id)

    def test_service_that_is_scaled_up_is_in_use(self, account: Account) -> None:
        account.starts = False
        account.start()
        assert account.provider.in_use(account.workspace_id)

    @pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "DEACTIVATING", "STOPPING"])
    def test_task_that_has_not_stopped_is_in_use(self, account: Account, status: str) -> None:
        account.tasks[f"ws-{account.workspace_id}"] = ["STOPPED", status]
        assert account.provider.in_use(account.workspace_id)
        account.tasks[f"ws-{account.workspace_id}"] = ["STOPPED", "STOPPED"]
        assert not account.provider.in_use(account.workspace_id)


def observed(account: Account, workspace_id: UUID | None = None) -> Observation:
    """The present observation of a container."""
    workspace_id = workspace_id or account.workspace_id
    return account.containers().observe([workspace_id])[workspace_id]
