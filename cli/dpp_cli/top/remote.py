"""`dpp --stage NAME top`: each look is one invocation of the deployment's function `operate`, drawn here."""

from functools import cached_property

from pydantic import ValidationError

from dpp_cli.errors import StackError
from dpp_cli.operator import remote
from dpp_cli.top.model import Snapshot

_REPLY_SECONDS = 30
"""Longer than a look takes whose dependencies are all away, with the function's start."""


class StageLooks:
    """Snapshots of a deployment."""

    every_seconds = 10.0

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self.where = f"stage {stage}"

    def __call__(self) -> Snapshot:
        """Look once. Raises StackError where the function does not answer, or not with a snapshot."""
        exit_code, stdout, stderr = self._function.run(["top", "--json"])
        if not stdout:
            said = stderr.strip().removeprefix("error: ")
            raise StackError(said or f"the function ended with exit code {exit_code} and said nothing")
        try:
            return Snapshot.model_validate_json(stdout)
        except ValidationError:
            raise StackError(
                "the deployment tells its snapshot in another way: it is of another version than this command"
            ) from None

    @cached_property
    def _function(self) -> remote.OperateFunction:
        return remote.OperateFunction(self._stage, reply_seconds=_REPLY_SECONDS)
