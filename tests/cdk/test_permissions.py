"""Each role has exactly the permissions of its function, on exactly its resources (PLAT-1)."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.cdk.template import Assembly, Stack
from tests.cdk.test_stack import FUNCTIONS

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

OWN_LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
IN_NETWORK = {
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
}
INVOKING = {"lambda:InvokeFunction"}
SECRETS = {"secretsmanager:GetSecretValue"}
CONSUMING = {
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
}
REDRIVING = CONSUMING - {"sqs:GetQueueUrl"}
# Containers and access points of homes; tests/cdk/test_workspaces.py tests the resources and conditions.
ON_NO_RESOURCE = {
    "ecs:ListTasks",
    "ecs:RegisterTaskDefinition",
    "ecs:DeregisterTaskDefinition",
    "ecs:DescribeTaskDefinition",
    "ecs:ListTaskDefinitions",
}
CONTROLLING = ON_NO_RESOURCE | {
    "ecs:CreateService",
    "ecs:UpdateService",
    "ecs:DeleteService",
    "ecs:DescribeServices",
    "ecs:DescribeTasks",
    "iam:PassRole",
    "elasticfilesystem:CreateAccessPoint",
    "elasticfilesystem:TagResource",
    "elasticfilesystem:DescribeAccessPoints",
    "elasticfilesystem:DeleteAccessPoint",
    "elasticfilesystem:ClientMount",
    "elasticfilesystem:ClientWrite",
    "elasticfilesystem:ClientRootAccess",
}
ALLOWED = {
    "runs_submit": {"sqs:SendMessage"} | SECRETS | IN_NETWORK,
    "runs_read": {"s3:GetObject", "sts:AssumeRole"} | SECRETS | IN_NETWORK,
    "runs_mcp": {"sqs:SendMessage"} | SECRETS | IN_NETWORK,
    "health": {"sqs:GetQueueAttributes", "s3:ListBucket"} | SECRETS | IN_NETWORK,
    "api_docs": set[str](),
    "tickets_api": {"s3:PutObject"} | SECRETS | IN_NETWORK,
    "auth_errors_api": {"sqs:SendMessage"} | SECRETS | IN_NETWORK,
    "auth_errors_publish": {"sqs:SendMessage"} | CONSUMING | SECRETS | IN_NETWORK,
    "auth_errors_consume": {"sqs:SendMessage"} | CONSUMING | SECRETS | IN_NETWORK,
    "workspaces_api": {"sqs:SendMessage"} | SECRETS | IN_NETWORK,
    "workspaces_control": {"sqs:SendMessage", "s3:GetObject", "s3:ListBucket"}
    | CONSUMING
    | CONTROLLING
    | SECRETS
    | IN_NETWORK,
    "workspaces_storage": {"sqs:SendMessage", "s3:ListBucket", "s3:GetObject", "s3:PutObject"}
    | {"s3:DeleteObject", "s3:AbortMultipartUpload"}
    | CONSUMING
    | CONTROLLING
    | SECRETS
    | IN_NETWORK,
    "run_worker": {"s3:PutObject", "s3:GetObject", "lambda:InvokeFunction"} | CONSUMING | SECRETS | IN_NETWORK,
    "pack_outside": set[str](),
    "run_reaper": CONSUMING | SECRETS | IN_NETWORK,  # its half-minute queue
    "run_sweeper": SECRETS | IN_NETWORK,
    "run_reconcile": {"sqs:SendMessage", "s3:GetObject", "s3:ListBucket"} | SECRETS | IN_NETWORK,
    "run_retention": SECRETS | IN_NETWORK,
    "ops_cycle": {"sqs:SendMessage", "s3:PutObject"} | REDRIVING | SECRETS | IN_NETWORK,
    "lifecycle_chamberlain": {"s3:DeleteObject"} | INVOKING | SECRETS | IN_NETWORK,
    "lifecycle_sentinel": INVOKING | SECRETS | IN_NETWORK,
    "lifecycle_king": INVOKING | SECRETS | IN_NETWORK,
    "lifecycle_general": {"sqs:SendMessage", "s3:GetObject", "s3:ListBucket", "s3:PutObject"}
    | CONSUMING  # its half-minute queue
    | INVOKING
    | SECRETS
    | IN_NETWORK,
    "lifecycle_envoy": INVOKING | SECRETS | IN_NETWORK,
    "lifecycle_webhook": INVOKING | SECRETS | IN_NETWORK,
    "lifecycle_outside": SECRETS,
    "migrate": SECRETS | IN_NETWORK,
    "operate": {"sqs:SendMessage", "s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObject"}
    | INVOKING
    | REDRIVING
    | SECRETS
    | IN_NETWORK,
}
READABLE_SECRETS = dict.fromkeys(FUNCTIONS, 2) | {
    "run_retention": 1,
    "lifecycle_chamberlain": 1,
    "lifecycle_sentinel": 1,
    "lifecycle_king": 1,
    "lifecycle_envoy": 1,
    "lifecycle_outside": 1,
    "tickets_api": 1,
    "auth_errors_api": 1,
    "auth_errors_publish": 1,
    "auth_errors_consume": 1,
    "workspaces_api": 1,
    "workspaces_control": 1,
    "workspaces_storage": 1,
    "migrate": 1,
    "pack_outside": 0,
    "api_docs": 0,
}


def allowing(stack: Stack, name: str) -> list[dict[str, object]]:
    return [dict(s) for s in stack.statements(name) if s["Effect"] == "Allow"]


def listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def actions(stack: Stack, name: str) -> set[object]:
    return {action for statement in allowing(stack, name) for action in listed(statement["Action"])}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_has_exactly_the_actions_of_its_function(prod: Assembly, dev: Assembly, name: str) -> None:
    for assembly in (prod, dev):
        assert actions(assembly.whole, name) == ALLOWED[name] | OWN_LOGS


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_has_its_own_role_without_managed_policies(stack: Stack, name: str) -> None:
    (role, _) = stack.function(name)["Role"]["Fn::GetAtt"]
    users = [f for f in stack.all("AWS::Lambda::Function").values() if f["Role"] == {"Fn::GetAtt": [role, "Arn"]}]
    assert len(users) == 1
    assert "ManagedPolicyArns" not in stack.all("AWS::IAM::Role")[role]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_writes_to_its_own_log_group_only(stack: Stack, name: str) -> None:
    (statement,) = (s for s in allowing(stack, name) if "logs:PutLogEvents" in listed(s["Action"]))
    log_group = stack.function(name)["LoggingConfig"]["LogGroup"]["Ref"]
    assert statement["Resource"] == {"Fn::GetAtt": [log_group, "Arn"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_permissions_name_their_resources_except_lambdas_network_interfaces(stack: Stack, name: str) -> None:
    """Their ARNs are not known beforehand; the function's own code is denied them."""
    for statement in allowing(stack, name):
        if statement["Resource"] == "*":
            done = set(map(str, listed(statement["Action"])))
            assert done == IN_NETWORK or done <= ON_NO_RESOURCE
    denied = [s for s in stack.statements(name) if s["Effect"] == "Deny"]
    for refusal in denied:
        assert set(listed(refusal["Action"])) == IN_NETWORK
        assert f"dpp-prod-{name}" in json.dumps(refusal["Condition"])
    assert len(denied) == (0 if name in {"pack_outside", "lifecycle_outside", "api_docs"} else 1)


def test_no_policy_has_a_wildcard_action(prod: Assembly, dev: Assembly) -> None:
    """Except the CDK's own function that empties dev's buckets."""
    for assembly in (prod, dev):
        for id, policy in assembly.whole.all("AWS::IAM::Policy").items():
            for statement in policy["PolicyDocument"]["Statement"]:
                assert not any("*" in str(action) for action in listed(statement["Action"])), id


@pytest.mark.parametrize("name", ["runs_read", "run_worker", "run_reconcile", "operate"])
def test_objects_are_accessible_only_below_the_results_prefix(stack: Stack, name: str) -> None:
    statements = [
        s for s in allowing(stack, name) if "Object" in json.dumps(s["Action"]) and s not in _reporting(stack)
    ]
    assert statements
    results = stack.bucket_given("run_worker", "DPP_RESULTS_BUCKET")
    reached = [
        (json.dumps(resource), statement["Action"])
        for statement in statements
        for resource in listed(statement["Resource"])
        if f'"{results}"' in json.dumps(resource)
    ]
    assert reached
    for resource, action in reached:
        # Only the worker reads clients' input objects (RUN-27).
        inputs = name == "run_worker" and action == "s3:GetObject"
        assert resource.endswith('"/inputs/*"]]}' if inputs else '"/dpp/*"]]}')


def _reporting(stack: Stack) -> list[object]:
    """Every statement on the bucket of reports."""
    reports = stack.bucket_given("ops_cycle", "DPP_REPORTS_BUCKET")
    return [s for name in FUNCTIONS for s in stack.statements(name) if f'"{reports}"' in json.dumps(s)]


def test_reports_are_written_below_their_prefix_and_never_read_or_deleted(stack: Stack) -> None:
    """TIX-4: reports are evidence. Requests are answered from Postgres."""
    reports = stack.bucket_given("ops_cycle", "DPP_REPORTS_BUCKET")
    below = [{"Fn::GetAtt": [reports, "Arn"]}, "/reports/ops/tickets/reaper/*"]
    statement = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": {"Fn::Join": ["", below]}}
    assert _reporting(stack) == [statement] * 3
    reporters = [name for name in FUNCTIONS if statement in stack.statements(name)]
    assert reporters == ["tickets_api", "ops_cycle", "operate"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_reads_the_secrets_of_the_servers_that_it_uses(stack: Stack, name: str) -> None:
    readable = [
        resource
        for statement in allowing(stack, name)
        if SECRETS & set(map(str, listed(statement["Action"])))
        for resource in listed(statement["Resource"])
    ]
    assert len(readable) == READABLE_SECRETS[name]
    assert "*" not in readable


@pytest.mark.parametrize("name", ["ops_cycle", "operate"])
def test_a_redrive_receives_dead_letters_and_sends_to_the_run_queue(stack: Stack, name: str) -> None:
    """Events are sent again from the outbox, so a redrive of events only wakes the publisher (AUTH-8)."""
    counting = {"sqs:GetQueueAttributes"} if name == "operate" else set()  # `dpp top`
    of_runs = {
        queue_of(stack, "run_worker"): {"sqs:SendMessage"} | counting,
        dead_letters_of(stack, "run_worker"): REDRIVING,
    }
    of_events = {
        queue_of(stack, "auth_errors_publish"): {"sqs:SendMessage"},
        dead_letters_of(stack, "auth_errors_consume"): REDRIVING,
    }
    of_workspaces = {  # an observation requested by an operator, and a collection
        queue_of(stack, "workspaces_control"): {"sqs:SendMessage"},
        queue_of(stack, "workspaces_storage"): {"sqs:SendMessage"},
    }
    assert of_queues(stack, name) == of_runs | (of_events | of_workspaces if name == "operate" else {})


@pytest.mark.parametrize("name", ["auth_errors_api", "auth_errors_publish", "auth_errors_consume"])
def test_functions_of_events_send_only_to_the_next_queue(stack: Stack, name: str) -> None:
    """AUTH-4, AUTH-7: a consumer's permissions on its queue come from the event source."""
    wake, events = queue_of(stack, "auth_errors_publish"), queue_of(stack, "auth_errors_consume")
    dead = dead_letters_of(stack, "auth_errors_consume")
    sending = {"sqs:SendMessage"}
    assert (
        of_queues(stack, name)
        == {
            "auth_errors_api": {wake: sending},
            "auth_errors_publish": {wake: CONSUMING, events: sending},
            "auth_errors_consume": {events: CONSUMING, dead: sending, wake: sending},
        }[name]
    )


def queue_of(stack: Stack, name: str) -> str:
    """Logical id of the queue that the function consumes."""
    (queue, _) = stack.event_source(name)["EventSourceArn"]["Fn::GetAtt"]
    return str(queue)


def dead_letters_of(stack: Stack, name: str) -> str:
    """Logical id of that function's dead-letter queue."""
    redrive = stack.queue_of_function(name)["RedrivePolicy"]
    return str(redrive["deadLetterTargetArn"]["Fn::GetAtt"][0])


def of_queues(stack: Stack, name: str) -> dict[str, set[str]]:
    """A function's permitted actions by queue."""
    reached: dict[str, set[str]] = {}
    for statement in allowing(stack, name):
        done = {str(action) for action in listed(statement["Action"]) if str(action).startswith("sqs:")}
        for resource in listed(statement["Resource"]) if done else []:
            assert isinstance(resource, dict)
            reached.setdefault(resource["Fn::GetAtt"][0], set()).update(done)
    return reached


def test_operate_is_reachable_only_by_iam_invocation(prod: Assembly, dev: Assembly, local: Assembly) -> None:
    """No API route, rule, queue, URL or other function invokes it; the command invokes it by name."""
    from dpp_cli.operator.remote import REPLY_SECONDS, function_name

    for assembly, stage in ((prod, "prod"), (dev, "dev"), (local, "local")):
        whole = assembly.whole
        assert whole.function("operate")["FunctionName"] == function_name(stage)
        assert whole.function("operate")["Timeout"] + 10 <= REPLY_SECONDS
        users = {
            id
            for id, resource in whole.template["Resources"].items()
            if f'"{whole.function_id("operate")}"' in json.dumps(resource)
        }
        assert {whole.template["Resources"][id]["Type"] for id in users} == {"AWS::Lambda::EventInvokeConfig"}
        assert not any("dpp-" in json.dumps(s) and "operate" in json.dumps(s) for s in _invoking(whole))


def _invoking(stack: Stack) -> list[object]:
    """Every statement that permits a role to invoke a function."""
    return [
        statement
        for policy in stack.all("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if "lambda:InvokeFunction" in listed(statement["Action"])
    ]


def test_the_worker_may_invoke_only_pack_outside(stack: Stack) -> None:
    (statement,) = (s for s in allowing(stack, "run_worker") if s["Action"] == "lambda:InvokeFunction")
    assert json.dumps(statement["Resource"]).endswith(':function:dpp-prod-pack_outside:live"]]}')
    given = stack.function("run_worker")["Environment"]["Variables"]
    assert given["DPP_PACK_OUTSIDE_FUNCTION"] == "dpp-prod-pack_outside:live"


def test_each_role_may_wake_its_successors_and_call_outside_only_if_needed(prod: Assembly, dev: Assembly) -> None:
    """LIFE-1 … LIFE-5, PLAT-2."""
    expected = {
        "lifecycle_sentinel": {"outside", "king"},
        "lifecycle_webhook": {"king", "general"},
        "lifecycle_king": {"general", "envoy"},
        "lifecycle_general": {"king", "envoy"},
        "lifecycle_envoy": {"outside"},
        "lifecycle_chamberlain": {"envoy"},
        "operate": {"general"},
    }
    for assembly, alias in ((prod, ":live"), (dev, "")):
        stage = "prod" if assembly is prod else "dev"
        for name, called in expected.items():
            functions = {f"dpp-{stage}-lifecycle_{one}{alias}" for one in called}
            reached = {
                json.dumps(resource).rpartition(":function:")[2].rstrip('"]}')
                for statement in allowing(assembly.whole, name)
                if statement["Action"] == "lambda:InvokeFunction"
                for resource in listed(statement["Resource"])
            }
            assert reached == functions, name
            given = assembly.whole.function(name)["Environment"]["Variables"]
            named = {str(value) for variable, value in given.items() if variable.endswith("_FUNCTION")}
            assert named == functions


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("", []),
        ("anthropic.x-v1:0", ["arn:p:bedrock:r::foundation-model/anthropic.x-v1:0"]),
        (
            "eu.anthropic.x-v1:0",
            [
                "arn:p:bedrock:r:a:inference-profile/eu.anthropic.x-v1:0",
                "arn:p:bedrock:*::foundation-model/anthropic.x-v1:0",
            ],
        ),
        ("arn:aws:bedrock:r:a:x/y", ["arn:aws:bedrock:r:a:x/y"]),
    ],
)
def test_only_the_configured_model_may_be_invoked(deployment: "Deployment", model_id: str, expected: list[str]) -> None:
    """RUN-25. The fixture `deployment` imports the CDK."""
    from types import SimpleNamespace
    from typing import Any

    from dpp_cdk.settings.models import model_arns

    stack: Any = SimpleNamespace(partition="p", region="r", account="a")
    assert list(model_arns(stack, model_id)) == expected


class TestSecrets:
    """RUN-31: no plain secret in a template or in an environment."""

    def test_no_environment_has_a_password_or_a_key(self, prod: Assembly, dev: Assembly) -> None:
        for assembly in (prod, dev):
            for name in FUNCTIONS:
                given = assembly.whole.function(name).get("Environment", {}).get("Variables", {})
                assert not {"DATABASE_URL", "REDIS_URL", "DPP_DECISION_OPENAI_API_KEY"} & set(given)
                assert "resolve:secretsmanager" not in json.dumps(given)

    def test_the_only_secret_value_in_a_template_is_a_reference(self, stack: Stack) -> None:
        token = stack.one("AWS::ElastiCache::ReplicationGroup")["AuthToken"]
        assert "{{resolve:secretsmanager:" in json.dumps(token)
        assert "MasterUserPassword" not in stack.one("AWS::RDS::DBInstance")

    def test_a_plain_key_fails_the_synthesis_and_names_the_secret_option(self, deployment: "Deployment") -> None:
        import dataclasses

        from dpp_cdk.settings.config import DeploymentError

        with pytest.raises(DeploymentError, match="openai_secret_arn") as refused:
            dataclasses.replace(deployment, variables={"DPP_DECISION_OPENAI_API_KEY": "hunter2"})
        assert "hunter2" not in str(refused.value)

    def test_plain_credentials_of_github_jira_and_slack_fail_the_synthesis(self, deployment: "Deployment") -> None:
        """PLAT-2: the flow has one secret, which the functions read themselves."""
        import dataclasses

        from dpp_cdk.settings.config import DeploymentError

        for name in (
            *("DPP_GITHUB_TOKEN", "DPP_JIRA_TOKEN", "DPP_SLACK_URL", "DPP_SLACK_TOKEN"),
            *("DPP_GITHUB_WEBHOOK_SECRET", "DPP_JIRA_WEBHOOK_SECRET", "DPP_SLACK_SIGNING_SECRET"),
        ):
            with pytest.raises(DeploymentError, match=f"^{name} would be readable.*secret_arn") as refused:
                dataclasses.replace(deployment, variables={**deployment.variables, name: "hunter2"})
            assert "hunter2" not in str(refused.value)

    def test_only_lifecycle_outside_and_webhooks_read_the_flows_secret(self, stack: Stack) -> None:
        from tests.cdk.conftest import LIFECYCLE

        arn = LIFECYCLE["DPP_LIFECYCLE_SECRET_ARN"]
        assert [name for name in FUNCTIONS if arn in json.dumps(allowing(stack, name))] == [
            "lifecycle_webhook",
            "lifecycle_outside",
        ]
