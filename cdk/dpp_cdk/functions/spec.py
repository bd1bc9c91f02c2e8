"""What may be said of a function: `functions.py` says it, `function.py` makes it."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

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
"""The alias of the version that callers get, where releases are gradual."""


class Resource(Enum):
    """What a grant may name; the stack knows the ARN of each."""

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
    WORKSPACE_LOOKS = auto()
    WORKSPACE_WORKS = auto()
    ARCHIVES_BUCKET = auto()
    ARCHIVE_OBJECTS = auto()
    KING = auto()
    GENERAL = auto()
    ENVOY = auto()
    LIFECYCLE_OUTSIDE = auto()


class Part(Enum):
    """What a deployment may have or not; everything else is in all of them."""

    WORKSPACES = auto()
    LIFECYCLE = auto()


class LayerName(Enum):
    """The layers there are; the value is the construct's id."""

    DEPS = "Deps"
    DOMAIN = "Domain"
    MIGRATIONS = "Migrations"
    OPERATE = "Operate"
    OCR = "Ocr"
    API_DOCS = "ApiDocs"


@dataclass(frozen=True)
class Grant:
    """Exactly these actions on exactly this resource."""

    resource: Resource
    actions: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.actions or any("*" in action for action in self.actions):
            raise ValueError(f"a grant lists its actions, each by its whole name: {self}")


@dataclass(frozen=True)
class FunctionSpec:
    """One folder of `functions/`.

    `alone`: two at once would only do the same work twice, so one may run at a time, where the size reserves
    concurrency. `in_network` false: the function stands outside of the VPC, with the internet and without a way
    to the database. What comes off a queue is not granted here: the event source grants it, on that queue. A
    secret is granted to whom its variable is given. A grant on a resource that a deployment lacks falls away.
    `mounts_homes`: the file system of workspaces is a folder of the function's, where the deployment has one; it is
    given what the provider on AWS reads, too. `part`: made where the deployment has that part.
    """

    name: str
    settings: type[Settings]
    timing: Timing
    memory_mib: int
    grants: tuple[Grant, ...] = ()
    alone: bool = False
    in_network: bool = True
    layers: tuple[LayerName, ...] = (LayerName.DEPS, LayerName.DOMAIN)
    mounts_homes: bool = False
    part: Part | None = None

    def __post_init__(self) -> None:
        if self.mounts_homes and not self.in_network:
            raise ValueError(
                f"a file system is mounted over the network, which this stands outside of: {self}"
            )
        if not 128 <= self.memory_mib <= 10_240:
            raise ValueError(f"Lambda gives 128 to 10240 MiB: {self}")
        if self.alone and not isinstance(self.timing, ScheduleTiming):
            raise ValueError(
                f"only what the clock fires may run alone; a client or a queue would wait: {self}"
            )

    @property
    def construct_id(self) -> str:
        """`runs_submit` as `RunsSubmit`."""
        return self.name.title().replace("_", "")

    @property
    def async_retries(self) -> int | None:
        """What the clock fires is not repeated when it fails, since the next firing does its work.

        A migration neither: its caller was told already, or is past waiting. Nor what an operator asks: whether to
        repeat a command is for who typed it.
        """
        return 0 if isinstance(self.timing, ScheduleTiming | DeployTiming | OperatorTiming) else None

    @property
    def has_releases(self) -> bool:
        """A migration is no release: it runs once, as it is. An operator gets what was deployed last, by its name."""
        return not isinstance(self.timing, DeployTiming | OperatorTiming)

    @property
    def is_shifted_gradually(self) -> bool:
        """What clients wait for; a job that fails is done by its next firing, and one at a time can't be two."""
        return isinstance(self.timing, RequestTiming | QueueTiming | InvokedTiming)

    def is_of(self, parts: Collection[Part]) -> bool:
        """Whether a deployment with these parts has it."""
        return self.part is None or self.part in parts

    def function_name(self, stage: str) -> str:
        """What the function is called in its account and region."""
        return f"dpp-{stage}-{self.name}"

    def callable_name(self, stage: str, *, gradual: bool) -> str:
        """What a caller calls by name: the function, or its alias where releases are gradual."""
        return f"{self.function_name(stage)}:{LIVE}" if gradual else self.function_name(stage)

    def reserved_concurrency(self, size: Size) -> int | None:
        """How many may run at once at most, or None for as many as the account has."""
        return 1 if self.alone and size.reserves_concurrency else None
