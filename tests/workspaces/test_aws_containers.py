"""Containers on Fargate, against moto (WS-9)."""

import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from botocore.stub import Stubber

from dpp.platform.aws import ecs_client, efs_client
from dpp.platform.config import ConfigurationError
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Containers, Volume
from dpp.workspaces.providers.access_points import AccessPoints, home_path
from dpp.workspaces.providers.aws_failures import MESSAGE_CHARACTERS
from dpp.workspaces.providers.aws_settings import FARGATE_SIZES, AwsWorkspaceSettings
from dpp.workspaces.providers.fargate_containers import FargateContainers
from tests.workspaces.aws import (
    ROLE,
    Account,
    Fault,
    aws_containers,
    lay_volume,
    refusal,
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
        assert point["RootDirectory"] == {"Path": f"/generations/{workspace_id}/g1/home"}
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
        volume = lay_volume(tmp_path, workspace_id)
        account.lingers = True
        containers.start(workspace_id, volume)
        containers.stop(workspace_id)
        with pytest.raises(ProviderUnavailable, match="drains"):
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

    def test_an_access_point_of_a_home_fits_what_efs_takes(self) -> None:
        assert len(home_path(uuid4(), str(uuid4()))) <= 100
        assert home_path(uuid4(), str(uuid4())).count("/") == 4


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

    def test_a_task_that_still_stops_counts_as_running(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.lingers = True
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        seen = containers.observe([workspace_id])[workspace_id]
        assert (seen.ready, seen.reason) == (True, "ContainerStopping")
        account.settle(workspace_id)
        assert not containers.observe([workspace_id])[workspace_id].ready


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
                account.settle(workspace_id)
            assert account.state(workspace_id)[1:] == (0, None)
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
            assert account.state(workspace_id)[1:] == (1, ("ACTIVE", 1, True))
        assert (
            number == 5
        )  # DescribeServices, UpdateService, List- and DeregisterTaskDefinition, DeleteService

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

    def test_a_service_that_drains_is_in_use_and_one_that_is_gone_is_not(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.lingers = True
        containers.start(workspace_id, lay_volume(tmp_path, workspace_id))
        containers.stop(workspace_id)
        assert containers.in_use(workspace_id)
        account.settle(workspace_id)
        assert not containers.in_use(workspace_id)

    @pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING", "DEACTIVATING", "STOPPING"])
    def test_a_task_may_write_until_it_has_stopped(
        self, account: Account, containers: FargateContainers, workspace_id: UUID, status: str
    ) -> None:
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", status]
        assert containers.in_use(workspace_id)
        account.tasks[f"ws-{workspace_id}"] = ["STOPPED", "STOPPED"]
        assert not containers.in_use(workspace_id)


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("InvalidParameterException", "ContainerRejected"),
            ("ClientException", "ContainerRejected"),
            ("LimitExceededException", "ContainerLimitReached"),
        ],
    )
    def test_what_ecs_refuses_is_told_without_the_account(
        self, account: Account, workspace_id: UUID, code: str, reason: str, tmp_path: Path
    ) -> None:
        message = "Role arn:aws:iam::123456789012:role/task of 123456789012 is not valid"
        account.fail(3, lambda call: refusal(call, code, message), done=False)
        with pytest.raises(OperationFailed) as failed:
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
        assert account.calls[3] == "RegisterTaskDefinition"
        assert (failed.value.reason, failed.value.message) == (reason, "Role task of … is not valid")
        assert not failed.value.is_terminal

    def test_a_file_system_full_of_access_points_says_so(
        self, account: Account, workspace_id: UUID, tmp_path: Path
    ) -> None:
        account.fail(0, lambda call: refusal(call, "AccessPointLimitExceeded", "limit"), done=False)
        with pytest.raises(OperationFailed, match="AccessPointLimitReached") as failed:
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
        assert not failed.value.is_terminal

    @pytest.mark.parametrize(
        "fault",
        [
            refusal("x", "AccessDeniedException", "not authorized"),
            refusal("x", "ClusterNotFoundException", "Cluster not found."),
            refusal("x", "ServerException", "Service Unavailable."),
            refusal("x", "InvalidParameterException", "Creation of service was not idempotent."),
            refusal("x", "InvalidParameterException", "Unable to Start a service that is still Draining."),
            refusal("x", "ClientException", "Too many concurrent attempts to create a new revision"),
        ],
    )
    def test_what_is_not_this_workspace_s_fault_is_not_held_against_it(
        self, account: Account, workspace_id: UUID, fault: Exception, tmp_path: Path
    ) -> None:
        account.fail(4, lambda _: fault, done=False)
        with pytest.raises(ProviderUnavailable):
            account.containers().start(workspace_id, lay_volume(tmp_path, workspace_id))
        assert account.calls[4] == "CreateService"

    def test_a_service_that_is_answered_from_before_is_made_by_another_token(
        self, account: Account, workspace_id: UUID, tmp_path: Path
    ) -> None:
        def gone(parsed: dict[str, dict[str, str]], **_: object) -> None:
            parsed["service"]["status"] = "INACTIVE"

        volume = lay_volume(tmp_path, workspace_id)
        account.ecs.meta.events.register("after-call.ecs.CreateService", gone)
        with pytest.raises(ProviderUnavailable, match="deleted"):
            account.containers().start(workspace_id, volume)
        assert account.definitions(workspace_id) == []
        account.ecs.meta.events.unregister("after-call.ecs.CreateService", gone)
        account.settle(workspace_id)
        account.containers().start(workspace_id, volume)
        assert account.service(workspace_id).desired_count == 1

    def test_a_service_that_cannot_be_told_is_not_taken_for_none(self, account: Account) -> None:
        """Only what is missing is missing."""
        client = ecs_client()
        with Stubber(client) as stub:
            stub.add_response("describe_services", {"services": [], "failures": [{"reason": "BUSY"}]})
            with pytest.raises(ProviderUnavailable, match="BUSY"):
                FargateContainers(account.settings, lambda: client).observe([uuid4()])


class TestAccessPoint:
    """What moto knows nothing of, by the service's own model."""

    @pytest.mark.parametrize(
        ("state", "usable"), [("creating", True), ("available", True), ("deleting", False)]
    )
    def test_one_that_is_there_is_taken_unless_it_goes(
        self, account: Account, state: str, usable: bool
    ) -> None:
        client = efs_client()
        with Stubber(client) as stub:
            stub.add_client_error(
                "create_access_point",
                "AccessPointAlreadyExists",
                modeled_fields={"ErrorCode": "AccessPointAlreadyExists", "AccessPointId": "fsap-1"},
            )
            stub.add_response(
                "describe_access_points",
                {"AccessPoints": [{"AccessPointId": "fsap-1", "LifeCycleState": state}]},
                {"AccessPointId": "fsap-1"},
            )
            points = AccessPoints(account.settings, lambda: client)
            if usable:
                assert points.ensure(uuid4(), "g1") == "fsap-1"
            else:
                with pytest.raises(ProviderUnavailable, match=state):
                    points.ensure(uuid4(), "g1")

    def test_one_that_failed_is_deleted(self, account: Account) -> None:
        client = efs_client()
        with Stubber(client) as stub:
            stub.add_response("create_access_point", {"AccessPointId": "fsap-1", "LifeCycleState": "error"})
            stub.add_response("delete_access_point", {}, {"AccessPointId": "fsap-1"})
            with pytest.raises(ProviderUnavailable, match="error"):
                AccessPoints(account.settings, lambda: client).ensure(uuid4(), "g1")
            stub.assert_no_pending_responses()


class TestSettings:
    GIVEN: ClassVar = {
        "DPP_WORKSPACE_ECS_CLUSTER": "homes",
        "DPP_WORKSPACE_EFS_ID": "fs-0a",
        "DPP_WORKSPACE_IMAGE": "homes:1",
        "DPP_WORKSPACE_SUBNETS": "subnet-0a, subnet-0b",
        "DPP_WORKSPACE_SECURITY_GROUP": "sg-0a",
        "DPP_WORKSPACE_TASK_ROLE_ARN": f"{ROLE}task",
        "DPP_WORKSPACE_EXECUTION_ROLE_ARN": f"{ROLE}execution",
        "DPP_WORKSPACE_LOG_GROUP": "workspaces",
    }

    def test_subnets_stand_between_commas(self) -> None:
        assert AwsWorkspaceSettings.load(self.GIVEN).subnets == ("subnet-0a", "subnet-0b")

    def test_every_size_of_fargate_is_taken(self) -> None:
        sizes = [(cpu, mib) for cpu, fitting in FARGATE_SIZES.items() for mib in fitting]
        for cpu, mib in sizes:
            given = {"DPP_WORKSPACE_CPU": str(cpu), "DPP_WORKSPACE_MEMORY_MIB": str(mib)}
            assert AwsWorkspaceSettings.load(self.GIVEN | given).cpu == cpu
        assert len(set(sizes)) == len(list(itertools.chain(*FARGATE_SIZES.values())))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("DPP_WORKSPACE_CPU", "1000"),
            ("DPP_WORKSPACE_MEMORY_MIB", "3000"),
            ("DPP_WORKSPACE_MEMORY_MIB", "16384"),
            ("DPP_WORKSPACE_IMAGE", "  "),
            ("DPP_WORKSPACE_SUBNETS", "subnet-0a,,"),
            ("DPP_WORKSPACE_SUBNETS", ","),
            ("DPP_WORKSPACE_UID", "0"),
            ("DPP_WORKSPACE_HOME", "/"),
            ("DPP_WORKSPACE_TASK_ROLE_ARN", "task"),
        ],
    )
    def test_a_wrong_value_fails_by_name(self, name: str, value: str) -> None:
        with pytest.raises(ConfigurationError, match=name):
            AwsWorkspaceSettings.load(self.GIVEN | {name: value})
