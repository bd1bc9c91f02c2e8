"""Refusals of AWS: failures of the operation, and outages (WS-9)."""

from uuid import uuid4

import pytest
from botocore.stub import Stubber

from dpp.platform.aws.clients import ecs_client, efs_client
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.providers.access_points import AccessPoints
from dpp.workspaces.providers.fargate_containers import FargateContainers
from tests.workspaces.providers.aws_account import Account, refusal


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("InvalidParameterException", "ContainerRejected"),
            ("ClientException", "ContainerRejected"),
            ("LimitExceededException", "ContainerLimitReached"),
        ],
    )
    def test_refusal_of_ecs_is_reported_without_account_ids(self, account: Account, code: str, reason: str) -> None:
        message = "Role arn:aws:iam::123456789012:role/task of 123456789012 is not valid"
        account.fail(3, lambda call: refusal(call, code, message), done=False)
        with pytest.raises(OperationFailed) as failed:
            account.start()
        assert account.calls[3] == "RegisterTaskDefinition"
        assert (failed.value.reason, failed.value.message) == (reason, "Role task of … is not valid")
        assert not failed.value.is_terminal

    def test_limit_of_access_points_is_reported(self, account: Account) -> None:
        account.fail(0, lambda call: refusal(call, "AccessPointLimitExceeded", "limit"), done=False)
        with pytest.raises(OperationFailed, match="AccessPointLimitReached") as failed:
            account.start()
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
    def test_fault_of_the_deployment_is_an_outage(self, account: Account, fault: Exception) -> None:
        account.fail(4, lambda _: fault, done=False)
        with pytest.raises(ProviderUnavailable):
            account.start()
        assert account.calls[4] == "CreateService"

    def test_service_returned_as_deleted_is_created_again_with_another_token(self, account: Account) -> None:
        def gone(parsed: dict[str, dict[str, str]], **_: object) -> None:
            parsed["service"]["status"] = "INACTIVE"

        volume = account.lay_volume()
        account.ecs.meta.events.register("after-call.ecs.CreateService", gone)
        with pytest.raises(ProviderUnavailable, match="deleted"):
            account.containers().start(account.workspace_id, volume)
        assert account.definitions() == []
        account.ecs.meta.events.unregister("after-call.ecs.CreateService", gone)
        account.settle()
        account.containers().start(account.workspace_id, volume)
        assert account.service().desired_count == 1

    def test_service_with_an_unknown_state_is_not_taken_for_missing(self, account: Account) -> None:
        client = ecs_client()
        with Stubber(client) as stub:
            stub.add_response("describe_services", {"services": [], "failures": [{"reason": "BUSY"}]})
            with pytest.raises(ProviderUnavailable, match="BUSY"):
                FargateContainers(account.settings, lambda: client).observe([uuid4()])


class TestAccessPoint:
    """Behaviour that moto lacks, by stubs of the service model."""

    @pytest.mark.parametrize(("state", "usable"), [("creating", True), ("available", True), ("deleting", False)])
    def test_existing_access_point_is_used_unless_it_is_being_deleted(
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
                assert points.ensure(uuid4(), "g1", "/home") == "fsap-1"
            else:
                with pytest.raises(ProviderUnavailable, match=state):
                    points.ensure(uuid4(), "g1", "/home")

    def test_failed_access_point_is_deleted(self, account: Account) -> None:
        client = efs_client()
        with Stubber(client) as stub:
            stub.add_response("create_access_point", {"AccessPointId": "fsap-1", "LifeCycleState": "error"})
            stub.add_response("delete_access_point", {}, {"AccessPointId": "fsap-1"})
            with pytest.raises(ProviderUnavailable, match="error"):
                AccessPoints(account.settings, lambda: client).ensure(uuid4(), "g1", "/home")
            stub.assert_no_pending_responses()

    def test_find_reads_all_pages(self, account: Account) -> None:
        workspace_id, client = uuid4(), efs_client()
        token = account.access_points_token(workspace_id, "g1")
        tags = [{"Key": "dpp:generation", "Value": "g1"}]
        file_system = {"FileSystemId": account.settings.efs_id}
        with Stubber(client) as stub:
            stub.add_response(
                "describe_access_points",
                {"AccessPoints": [{"AccessPointId": "fsap-1", "ClientToken": "other"}], "NextToken": "more"},
                {**file_system, "MaxResults": 100},
            )
            stub.add_response(
                "describe_access_points",
                {"AccessPoints": [{"AccessPointId": "fsap-2", "ClientToken": token, "Tags": tags}]},
                {**file_system, "MaxResults": 100, "NextToken": "more"},
            )
            assert AccessPoints(account.settings, lambda: client).find(workspace_id, "g1") == ["fsap-2"]
            stub.assert_no_pending_responses()

    def test_delete_of_a_missing_access_point_does_nothing(self, account: Account) -> None:
        client = efs_client()
        with Stubber(client) as stub:
            stub.add_client_error("delete_access_point", "AccessPointNotFound", http_status_code=404)
            AccessPoints(account.settings, lambda: client).delete("fsap-1")
            stub.assert_no_pending_responses()
