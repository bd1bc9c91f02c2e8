"""Announces the executor to LocalStack; chosen by `LAMBDA_RUNTIME_EXECUTOR=dpp-process`."""

from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor


class ProcessExecutorPlugin(RuntimeExecutorPlugin):  # type: ignore[misc]  # LocalStack ships no types
    """Entry point of `localstack.lambda.runtime_executor`."""

    name = "dpp-process"

    def load(self, *_args: object, **_kwargs: object) -> type[RuntimeExecutor]:
        """The executor class; imported late, since plugin discovery imports this module in every tool."""
        from dpp_localstack.executor import ProcessExecutor  # noqa: PLC0415

        return ProcessExecutor
