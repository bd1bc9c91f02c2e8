"""Has LocalStack's CloudFormation fail an update of which a resource failed, as AWS does.

LocalStack stops such an update where it is and then takes it for done: the command ends well, the next deployment
finds no change, and what the update had not come to yet is forgotten, so that a layer among it can't be deleted any
more. Here the update fails, and the stack is remembered as it was before: the next deployment does it all again.
Nothing is rolled back: what was changed before the failure stays changed until then.
"""

from localstack.aws.api.cloudformation import StackStatus
from localstack.runtime import hooks
from localstack.services.cloudformation.engine.v2.change_set_model_executor import (
    ChangeSetModelExecutor,
    ChangeSetModelExecutorResult,
)


class UpdateFailedError(Exception):
    """A resource could not be updated; the message says why, and goes to LocalStack's log."""


@hooks.on_infra_start()  # type: ignore[untyped-decorator]  # LocalStack ships no types
def let_updates_fail() -> None:
    """Wrap the one method through which every update goes; called once, by LocalStack at its start."""
    execute = ChangeSetModelExecutor.execute

    def failed(self: ChangeSetModelExecutor) -> ChangeSetModelExecutorResult:
        updates = self._change_set.stack.status == StackStatus.UPDATE_IN_PROGRESS
        result = execute(self)
        if updates and result.failure_message:
            # What calls it sets UPDATE_FAILED on any exception, and only without one the new template.
            raise UpdateFailedError(result.failure_message)
        return result

    ChangeSetModelExecutor.execute = failed
