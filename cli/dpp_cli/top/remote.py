"""`dpp --stage NAME top`: each snapshot is one invocation of the deployment's function `operate`."""

from functools import cached_property

from pydantic import ValidationError

from dpp_cli.errors import StackError
from dpp_cli.operator import remote
from dpp_cli.top.model import Snapshot

_REPLY_SECONDS = 30
"""Longer than a cold start plus a snapshot for which no dependency answers."""


class StageSnapshots:
    """Snapshots of a deployment."""

    every_seconds = 10.0

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self.where = f"stage {stage}"

    def __call__(self) -> Snapshot:
        """Take one snapshot. Raises StackError if the function does not answer with one."""
        exit_code, stdout, stderr = self._function.run(["top", "--json"])
        if not stdout:
            message = stderr.strip().removeprefix("error: ")
            raise StackError(message or f"the function `operate` ended with exit code {exit_code} and no output")
        try:
            return Snapshot.model_validate_json(stdout)
        except ValidationError:
            raise StackError(
                "this command can't read the deployment's snapshot: use the command of the deployment's version"
            ) from None

    @cached_property
    def _function(self) -> remote.OperateFunction:
        return remote.OperateFunction(self._stage, reply_seconds=_REPLY_SECONDS)
