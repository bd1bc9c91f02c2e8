"""`dpp --stage NAME …`: an operator command, run by the function `operate` of a deployment.

The servers of a deployment stand where nothing outside reaches them, so the command goes to them, and IAM says who
may send it. `--stage local` is the function of the running local stack.
"""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import boto3
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
"""The stage that is the running local stack, whatever that one is called."""

REPLY_SECONDS = 150
"""Longer than the function may take, with its start (`cdk/dpp_cdk/settings/timings.py`)."""

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")
_LOOK_FIRST = (
    "what was asked may have been done: look before you repeat it (`key list`, `ledger show`, `tickets list`); every"
    " command may be repeated, a credit with --credit-id, a ticket with --id"
)
_SAID: Mapping[str, str] = {
    "ResourceNotFoundException": "there is no function {name} in {region}: is it the stage's name, account and region,"
    " and was it deployed since `operate` came",
    "AccessDeniedException": "these credentials may not invoke {name} in {region}: they need"
    " lambda:InvokeFunction on it",
    "TooManyRequestsException": "{name} was refused for lack of concurrency, and did nothing: try again",
}


class StageGroup(TyperGroup):
    """Commands that run here, or, after `--stage`, on a deployment; the page of `top` is drawn here in either case."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words name, or the one that sends them away whole."""
        stage = ctx.params.get("stage")
        if stage is None or args[:1] == [TOP]:
            return super().resolve_command(ctx, args)
        return "operate", _Sent(stage), args


class _Sent(TyperCommand):
    """All words as they are: only the function knows their options."""

    def __init__(self, stage: str) -> None:
        super().__init__("operate", add_help_option=False)
        self._stage = stage

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take everything."""
        ctx.args = list(args)
        return []

    def invoke(self, ctx: Any) -> None:
        """Send it, and end as it ended there."""
        raise typer.Exit(run_on(self._stage, ctx.args))


def function_name(stage: str) -> str:
    """What the function is called in its account and region."""
    return f"dpp-{stage}-operate"


class OperateFunction:
    """The function `operate` of a deployment. Raises StackError for what is no stage's name, or can't be asked."""

    def __init__(self, stage: str, *, reply_seconds: int = REPLY_SECONDS) -> None:
        if not _STAGE.fullmatch(stage):
            raise StackError(f"--stage {stage}: not the name of a stage")
        self._reply_seconds = reply_seconds
        self._client, self._name = _client(stage, reply_seconds)

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Run `dpp WORDS…` there; its exit code, and what it printed to each stream. Raises StackError."""
        if (refused := refusal(list(words))) is not None:
            raise StackError(refused)
        event = {"words": list(words), "columns": _columns()}
        answer = _asked(self._client, self._name, event, self._reply_seconds)
        return int(answer["exit_code"]), str(answer["stdout"]), str(answer["stderr"])


def run_on(stage: str, words: Sequence[str]) -> int:
    """Run `dpp WORDS…` on a deployment, print what it printed, return its exit code. Raises StackError."""
    if (refused := refusal(list(words))) is not None:
        raise StackError(refused)
    exit_code, stdout, stderr = OperateFunction(stage).run(words)
    typer.echo(stdout, nl=False)
    typer.echo(stderr, nl=False, err=True)
    return exit_code


def _client(stage: str, reply_seconds: int) -> tuple["LambdaClient", str]:
    # Asked once: a second try would be a second command.
    config = Config(connect_timeout=10, read_timeout=reply_seconds, retries={"total_max_attempts": 1})
    if stage == LOCAL:
        state = running_state()
        session = client_session(state.aws_endpoint_url)
        name = function_name(state.outputs["Stage"])
        return session.client("lambda", endpoint_url=state.aws_endpoint_url, config=config), name
    try:
        return boto3.client("lambda", config=config), function_name(stage)
    except BotoCoreError as error:
        raise StackError(_no_aws(error)) from None


def _asked(
    client: "LambdaClient", name: str, event: Mapping[str, Any], reply_seconds: int
) -> Mapping[str, Any]:
    """The function's answer. Raises StackError."""
    try:
        reply = client.invoke(FunctionName=name, Payload=json.dumps(event).encode())
        body = reply["Payload"].read()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        region = client.meta.region_name
        raise StackError(_SAID.get(code, str(error)).format(name=name, region=region)) from None
    except ReadTimeoutError:
        raise StackError(f"{name} did not answer within {reply_seconds} s; {_LOOK_FIRST}") from None
    except BotoCoreError as error:
        raise StackError(_no_aws(error)) from None
    if reply.get("FunctionError"):
        failed = json.loads(body)
        told = f"{failed.get('errorType', 'Error')}: {failed.get('errorMessage', '')}"
        raise StackError(f"{name} failed ({told}); its log says where. {_LOOK_FIRST}")
    answer: Mapping[str, Any] = json.loads(body)
    return answer


def _no_aws(error: BotoCoreError) -> str:
    """botocore's own sentence (no credentials, no region, an expired session), and where they come from."""
    return f"can't ask AWS: {error}. Set AWS_PROFILE and AWS_REGION as for `aws sts get-caller-identity`"


def _columns() -> int:
    """As wide as the terminal; wide where the output goes elsewhere."""
    width = shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 160
    return min(max(width, 40), 1_000)
