"""Writes throw-away functions and runs them in a sandbox."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from dpp_localstack.runtime_api import Invocation
from dpp_localstack.sandbox import FunctionSpec, Outcome, Sandbox


@dataclass(frozen=True)
class Workbench:
    """A folder for functions, and the interpreter they run under."""

    folder: Path
    python: Path
    made: list[Sandbox] = field(default_factory=list)

    def stop_all(self) -> None:
        """End every sandbox that was made here."""
        for sandbox in self.made:
            sandbox.stop()

    def sandbox(
        self,
        source: str,
        *,
        layers: tuple[dict[str, str], ...] = (),
        timeout_seconds: float = 10,
        memory_mib: int = 256,
        environment: dict[str, str] | None = None,
        init_seconds: float = 20,
    ) -> Sandbox:
        """A sandbox for a function with this source as `app.py`; a layer maps modules to their sources."""
        here = self.folder / uuid4().hex
        (here / "code").mkdir(parents=True)
        (here / "code" / "app.py").write_text(source)
        roots: list[Path] = []
        for number, modules in enumerate(layers):
            root = here / f"layer{number}"
            (root / "python").mkdir(parents=True)
            for module, text in modules.items():
                (root / "python" / f"{module}.py").write_text(text)
            roots.append(root)
        spec = FunctionSpec(
            name="app",
            code=here / "code",
            layers=tuple(roots),
            handler="app.handler",
            timeout_seconds=timeout_seconds,
            memory_mib=memory_mib,
            environment={"AWS_LAMBDA_FUNCTION_NAME": "app", "AWS_REGION": "us-east-1", **(environment or {})},
        )
        sandbox = Sandbox(spec, python=self.python, home=here / "home", init_seconds=init_seconds)
        self.made.append(sandbox)
        return sandbox


def invoke(sandbox: Sandbox, event: object = None) -> Outcome:
    """Invoke with `event`."""
    return sandbox.invoke(Invocation(str(uuid4()), "arn:aws:lambda:test", json.dumps(event).encode()))


def answer(outcome: Outcome) -> Any:
    """The decoded answer; a failed invocation fails the test with its output."""
    assert not outcome.failed, f"{outcome.body!r}\n{outcome.output}"
    return json.loads(outcome.body)
