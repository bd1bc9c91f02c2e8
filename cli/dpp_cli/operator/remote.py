"""`dpp --stage NAME …`: runs an operator command in the function `operate` of a deployment.

A deployment's servers cannot be reached from outside its network, so the command runs inside it; IAM decides who may
invoke it. `--stage local` invokes the function of the running local stack.
"""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from typer.core import TyperCommand, TyperGroup

from dpp_cli.errors import StackError
from dpp_cli.local.localstack import client_session
from dpp_cli.local.state import running_state
from dpp_cli.operator.app import TOP, refusal

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

LOCAL = "local"
"""The stage name that means the running local stack, whatever its own name is."""

REPLY_SECONDS = 150
"""Longer than the function's timeout plus its cold start (`cdk/dpp_cdk/settings/timings.py`)."""

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")
_CHECK_FIRST = (
    "the command may have been executed: check before you repeat it (`key list`, `ledger show`, `tickets list`). Every"
    " command is safe to repeat: a credit with the same --credit-id, a ticket with the same --id"
)
_MESSAGES: Mapping[str, str] = {
    "ResourceNotFoundException": "function {name} does not exist in {region}: check the stage name, the AWS account and"
    " the region; a deployment older than the function `operate` must be deployed again",
    "AccessDeniedException": "these credentials may not invoke {name} in {region}: grant lambda:InvokeFunction on it",
    "TooManyRequestsException": "{name} was throttled by Lambda's concurrency limit and did nothing: try again",
}


class StageGroup(TyperGroup):
    """Commands that run locally, or with `--stage` on a deployment. `top` always draws its page locally."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command, or with `--stage` one that forwards all words unchanged."""
        stage = ctx.params.get("stage")
        if stage is None or args[:1] == [TOP]:
            return super().resolve_command(ctx, args)
        return "operate", _Forwarded(stage), args


class _Forwarded(TyperCommand):
    """Forwards all words unchanged; only the function parses their options."""

    def __init__(self, stage: str) -> None:
        super().__init__("operate", add_help_option=False)
        self._stage = stage

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept all arguments unparsed."""
        ctx.args = list(args)
        return []

    def invoke(self, ctx: Any) -> None:
        """Run the command on the deployment and exit with its exit code."""
        raise typer.Exit(run_on(self._stage, ctx.args))


def function_name(stage: str) -> str:
    """Return the name of a stage's `operate` function."""
    return f"dpp-{stage}-operate"


class OperateFunction:
    """The function `operate` of a deployment. Raises StackError for an invalid stage name or a failed invocation."""

    def __init__(self, stage: str, *, reply_seconds: int = REPLY_SECONDS) -> None:
        if not _STAGE.fullmatch(stage):
            raise StackError(
                f"--stage {stage}: not a valid stage name; it has 1 to 20 of a-z, 0-9 and -, and begins with a letter"
            )
        self._reply_seconds = reply_seconds
        self._client, self._name = _client(stage, reply_seconds)

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Run `dpp WORDS…` on the deployment; return exit code, stdout and stderr. Raises StackError."""
        if (refused := refusal(list(words))) is not None:
            raise StackError(refused)
        event = {"words": list(words), "columns": _columns()}
        answer = _invoke(self._client, self._name, event, self._reply_seconds)
        return int(answer["exit_code"]), str(answer["stdout"]), str(answer["stderr"])


def run_on(stage: str, words: Sequence[str]) -> int:
    """Run `dpp WORDS…` on a deployment, print its output and return its exit code. Raises StackError."""
    if (refused := refusal(list(words))) is not None:
        raise StackError(refused)
    exit_code, stdout, stderr = OperateFunction(stage).run(words)
    typer.echo(stdout, nl=False)
    typer.echo(stderr, nl=False, err=True)
    return exit_code


def _client(stage: str, reply_seconds: int) -> tuple["LambdaClient", str]:
    # One attempt only: a second one would run the command twice.
    config = Config(connect_timeout=10, read_timeout=reply_seconds, retries={"total_max_attempts": 1})
    if stage == LOCAL:
        state = running_state()
        session = client_session(state.aws_endpoint_url)
        name = function_name(state.outputs["Stage"])
        return session.client("lambda", endpoint_url=state.aws_endpoint_url, config=config), name
    import boto3  # noqa: PLC0415 - every `dpp` command imports this module, and few need AWS

    try:
        return boto3.client("lambda", config=config), function_name(stage)
    except BotoCoreError as error:
        raise StackError(_no_aws(error)) from None


def _invoke(client: "LambdaClient", name: str, event: Mapping[str, Any], reply_seconds: int) -> Mapping[str, Any]:
    """Invoke the function and return its reply. Raises StackError."""
    try:
        reply = client.invoke(FunctionName=name, Payload=json.dumps(event).encode())
        body = reply["Payload"].read()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        region = client.meta.region_name
        raise StackError(_MESSAGES.get(code, str(error)).format(name=name, region=region)) from None
    except ReadTimeoutError:
        raise StackError(f"{name} did not answer within {reply_seconds} s; {_CHECK_FIRST}") from None
    except BotoCoreError as error:
        raise StackError(_no_aws(error)) from None
    if reply.get("FunctionError"):
        failed = json.loads(body)
        reason = f"{failed.get('errorType', 'Error')}: {failed.get('errorMessage', '')}"
        raise StackError(f"{name} failed ({reason}); see its log. {_CHECK_FIRST.capitalize()}")
    answer: Mapping[str, Any] = json.loads(body)
    return answer


def _no_aws(error: BotoCoreError) -> str:
    """Combine botocore's message (no credentials, no region, expired session) with the remedy."""
    return f"can't reach AWS: {error}. Set AWS_PROFILE and AWS_REGION as for `aws sts get-caller-identity`"


def _columns() -> int:
    """Return the terminal's width, or 160 if the output is not a terminal."""
    width = shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 160
    return min(max(width, 40), 1_000)
