"""The attributes of a function: `table.py` sets them, `function.py` builds the function."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from importlib import import_module

from dpp.platform.config import Settings
from dpp_cdk.settings.sizes import Size
from dpp_cdk.settings.timings import (
    DeployTiming,
    InvokedTiming,
    OperatorTiming,
    QueueTiming,
    RequestTiming,
    ScheduleTiming,
    Timing,
)

LIVE = "live"
"""The alias that callers use where releases are gradual."""


class Resource(Enum):
    """The resources that a grant may name; the stack maps each to its ARNs."""

    RUN_QUEUE = auto()
    DEAD_LETTERS = auto()
    AUTH_ERROR_QUEUE = auto()
    AUTH_ERROR_DEAD_LETTERS = auto()
    AUTH_ERROR_WAKE = auto()
    RESULTS_BUCKET = auto()
    RESULT_OBJECTS = auto()
    INPUT_OBJECTS = auto()
    REPORT_OBJECTS = auto()
    STATE_OBJECTS = auto()
    PACK_OUTSIDE = auto()
    DECISION_MODEL = auto()
    WORKSPACE_OBSERVE_QUEUE = auto()
    WORKSPACE_WORK_QUEUE = auto()
    ARCHIVES_BUCKET = auto()
    ARCHIVE_OBJECTS = auto()
    KING = auto()
    GENERAL = auto()
    ENVOY = auto()
    LIFECYCLE_OUTSIDE = auto()


class Part(Enum):
    """The optional parts of a deployment."""

    WORKSPACES = auto()
    LIFECYCLE = auto()


class LayerName(Enum):
    """The layers; the value is the construct's id."""

    DEPS = "Deps"
    DOMAIN = "Domain"
    MIGRATIONS = "Migrations"
    OPERATE = "Operate"
    OCR = "Ocr"
    URL = "Url"
    API_DOCS = "ApiDocs"


@dataclass(frozen=True)
class Grant:
    """Permission for these actions on one resource."""

    resource: Resource
    actions: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.actions or any("*" in action for action in self.actions):
            raise ValueError(f"a grant must list its actions, each without a wildcard: {self}")


@dataclass(frozen=True)
class FunctionSpec:
    """One folder of `functions/`.

    `alone`: at most one invocation at a time, where the size reserves concurrency, because two would do the same work
    twice. `in_network` false: the function is outside of the VPC, with the internet and without access to the
    databases. `mounts_homes`: the function mounts the file system of workspaces, where the deployment has one, and gets
    the variables of the AWS provider. `part`: the part of a deployment to which the function belongs, if not to all.

    Grants do not list what an event source or a secret needs: the event source mapping grants its queue, and a secret
    is granted to the functions that get its variable. A grant on a resource that a deployment lacks is dropped.
    """

    name: str
    timing: Timing
    memory_mib: int = 512
    grants: tuple[Grant, ...] = ()
    alone: bool = False
    in_network: bool = True
    layers: tuple[LayerName, ...] = (LayerName.DEPS, LayerName.DOMAIN)
    mounts_homes: bool = False
    part: Part | None = None

    def __post_init__(self) -> None:
        if self.mounts_homes and not self.in_network:
            raise ValueError(f"{self.name} mounts a file system, so it must be in the network")
        if not 128 <= self.memory_mib <= 10_240:
            raise ValueError(f"{self.name} has {self.memory_mib} MiB; Lambda gives 128 to 10240")
        if self.alone and not isinstance(self.timing, ScheduleTiming):
            raise ValueError(f"{self.name} can't run alone: only scheduled functions can, others have callers")

    @property
    def construct_id(self) -> str:
        """`runs_submit` as `RunsSubmit`."""
        return self.name.title().replace("_", "")

    @property
    def settings(self) -> type[Settings]:
        """The settings model in the function's handler module, such as `RunsSubmitSettings`."""
        model: type[Settings] = getattr(import_module(f"{self.name}.handler"), f"{self.construct_id}Settings")
        return model

    @property
    def async_retries(self) -> int | None:
        """The number of Lambda's retries of an asynchronous call; None for its default.

        0 for scheduled functions (the next tick does the work), for migrations (CloudFormation has its answer already,
        or has timed out), and for operator commands (the operator decides whether to repeat one).
        """
        return 0 if isinstance(self.timing, ScheduleTiming | DeployTiming | OperatorTiming) else None

    @property
    def has_releases(self) -> bool:
        """False for a migration, which runs once, and for operator commands, which run the latest deployment."""
        return not isinstance(self.timing, DeployTiming | OperatorTiming)

    @property
    def is_shifted_gradually(self) -> bool:
        """True if clients wait for it. A job that fails is repeated at its next tick, and cannot have two versions."""
        return isinstance(self.timing, RequestTiming | QueueTiming | InvokedTiming)

    def is_of(self, parts: Collection[Part]) -> bool:
        """True if a deployment with these parts has the function."""
        return self.part is None or self.part in parts

    def function_name(self, stage: str) -> str:
        """The function's name in its account and region."""
        return f"dpp-{stage}-{self.name}"

    def callable_name(self, stage: str, *, gradual: bool) -> str:
        """The name that callers use: the function's, with the alias where releases are gradual."""
        return f"{self.function_name(stage)}:{LIVE}" if gradual else self.function_name(stage)

    def reserved_concurrency(self, size: Size) -> int | None:
        """The maximum of concurrent invocations; None for no reservation."""
        return 1 if self.alone and size.reserves_concurrency else None
