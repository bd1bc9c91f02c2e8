"""What an operator says of a deployment: `deploy/<stage>.json`, and `-c name=value` over it (docs/deploy.md).

The file is what a second deployment can't forget. An unknown name in it is refused, since a misspelled one would
take away what it was meant to keep.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.config import (
    ChannelSettings,
    CredentialSettings,
    SourcesSettings,
    TaskLimitSettings,
    TaskSettings,
)
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import ConfigurationError, Settings
from dpp.tickets.config import ReaperSettings
from dpp.workspaces.config import LimitSettings
from dpp.workspaces.providers.aws_settings import ContainerSizeSettings
from dpp_cdk.settings.sizes import SIZES

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")


class DeploymentError(Exception):
    """The deployment can't be described: the message names what is missing or wrong, and how to get it right."""


def _matching(pattern: str, what: str) -> AfterValidator:
    def checked(value: str) -> str:
        if value and not re.fullmatch(pattern, value):
            raise PydanticCustomError("form", "{told}", {"told": f"not {what}"})
        return value

    return AfterValidator(checked)


def _one_of(*choices: str) -> AfterValidator:
    def checked(value: str) -> str:
        if value not in choices:
            raise PydanticCustomError("choice", "{told}", {"told": f"choose one of {', '.join(choices)}"})
        return value

    return AfterValidator(checked)


def _as_text(value: object) -> object:
    """A number as a file of JSON has it; `-c` gives text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_json(value: object) -> object:
    """A section as a file of JSON has it; `-c` gives its text."""
    return json.dumps(value) if isinstance(value, dict) else value


def _held_to(model: type[Settings], variable: str) -> AfterValidator:
    """Held to the very model that the functions read `variable` with."""

    def checked(value: str) -> str:
        try:
            model.load({variable: value})
        except ConfigurationError as error:
            told = re.sub(rf"^.*?{variable}(: |\.)", "", str(error)).replace(f"{variable}.", "")
            raise PydanticCustomError("setting", "{told}", {"told": told}) from None
        return value

    return AfterValidator(checked)


_Arn = Annotated[str, _matching(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d*:\S+", "an ARN")]


class Options(BaseModel):
    """One deployment's options. An empty string is the same as none.

    `alarm_email`: who is told of alarms. `domain_name` with `certificate_arn`: the API under a name of one's own.
    `tracing`: X-Ray, which costs by request. `decision_…`: the model that answers, as the variables of the same
    name say it; the key of an OpenAI-compatible endpoint stands in the secret `openai_secret_arn`.
    `time_zone`: which reports and receipts write their times in. `ticket_reaper_…`: the reaper's rules (TIX-1), and
    `auth_error_…`: the retries of the events of authentication errors (AUTH-8), as the variables of the same name say
    them. `retention`: for how long what is kept (LIFE-8), an object, of which only what differs need be said.
    `workspace_image`: what the containers of workspaces run, from ECR; without it there are no workspaces.
    `workspace_cpu`, `workspace_memory_mib`: their size, one that Fargate gives. `workspaces_per_tenant`: how many.
    `lifecycle_tenant`: who pays for what GitHub and Jira ask for; without it nobody carries events to answers. What
    opens these and Slack stands in the secret `lifecycle_secret_arn`. `github_…`, `jira_…`, `slack_channel`: whose
    notifications, which issues, which channel; `lifecycle_task_…`: what a task may cost (docs/lifecycle.md).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Annotated[str, _one_of(*SIZES)] = "dev"
    alarm_email: Annotated[str, _matching(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")] = ""
    domain_name: Annotated[str, _matching(r"([a-z0-9-]+\.)+[a-z]{2,}", "a host name")] = ""
    certificate_arn: _Arn = ""
    openai_secret_arn: _Arn = ""
    tracing: Annotated[str, _one_of("on", "off")] = "off"
    decision_bedrock_model_id: Annotated[str, _matching(r"\S+", "a model's id")] = ""
    decision_openai_base_url: Annotated[str, _matching(r"https://\S+", "a URL of https")] = ""
    decision_openai_model: Annotated[str, _matching(r"\S+", "a model's name")] = ""
    time_zone: Annotated[str, _held_to(ReaperSettings, "DPP_TIME_ZONE")] = ""
    ticket_reaper_threshold_seconds: Annotated[
        str, BeforeValidator(_as_text), _held_to(ReaperSettings, "DPP_TICKET_REAPER_THRESHOLD_SECONDS")
    ] = ""
    ticket_reaper_max_clean: Annotated[
        str, BeforeValidator(_as_text), _held_to(ReaperSettings, "DPP_TICKET_REAPER_MAX_CLEAN")
    ] = ""
    ticket_reaper_excluded_types: Annotated[
        str, _held_to(ReaperSettings, "DPP_TICKET_REAPER_EXCLUDED_TYPES")
    ] = ""
    ticket_reaper_breaker_count: Annotated[
        str, BeforeValidator(_as_text), _held_to(ReaperSettings, "DPP_TICKET_REAPER_BREAKER_COUNT")
    ] = ""
    ticket_reaper_breaker_share: Annotated[
        str, BeforeValidator(_as_text), _held_to(ReaperSettings, "DPP_TICKET_REAPER_BREAKER_SHARE")
    ] = ""
    auth_error_max_retries: Annotated[
        str, BeforeValidator(_as_text), _held_to(RetrySettings, "DPP_AUTH_ERROR_MAX_RETRIES")
    ] = ""
    retention: Annotated[str, BeforeValidator(_as_json), _held_to(RetentionSettings, "DPP_RETENTION")] = ""
    workspace_image: Annotated[str, _matching(r"\S+", "the name of an image")] = ""
    workspace_cpu: Annotated[str, BeforeValidator(_as_text)] = ""
    workspace_memory_mib: Annotated[str, BeforeValidator(_as_text)] = ""
    workspaces_per_tenant: Annotated[
        str, BeforeValidator(_as_text), _held_to(LimitSettings, "DPP_WORKSPACES_PER_TENANT")
    ] = ""
    lifecycle_tenant: Annotated[str, _held_to(TaskSettings, "DPP_LIFECYCLE_TENANT")] = ""
    lifecycle_secret_arn: _Arn = ""
    lifecycle_task_max_cost_usd: Annotated[
        str, BeforeValidator(_as_text), _held_to(TaskLimitSettings, "DPP_LIFECYCLE_TASK_MAX_COST_USD")
    ] = ""
    lifecycle_task_timebox_sec: Annotated[
        str, BeforeValidator(_as_text), _held_to(TaskLimitSettings, "DPP_LIFECYCLE_TASK_TIMEBOX_SEC")
    ] = ""
    lifecycle_task_min_reliability: Annotated[
        str, BeforeValidator(_as_text), _held_to(TaskLimitSettings, "DPP_LIFECYCLE_TASK_MIN_RELIABILITY")
    ] = ""
    lifecycle_task_max_attempts: Annotated[
        str, BeforeValidator(_as_text), _held_to(TaskLimitSettings, "DPP_LIFECYCLE_TASK_MAX_ATTEMPTS")
    ] = ""
    github_login: Annotated[str, _held_to(SourcesSettings, "DPP_GITHUB_LOGIN")] = ""
    github_url: Annotated[str, _matching(r"https://\S+", "a URL of https")] = ""
    jira_url: Annotated[str, _matching(r"https://\S+", "a URL of https")] = ""
    jira_jql: Annotated[str, _held_to(SourcesSettings, "DPP_JIRA_JQL")] = ""
    slack_channel: Annotated[str, _held_to(ChannelSettings, "DPP_SLACK_CHANNEL")] = ""

    @model_validator(mode="after")
    def _lifecycle_is_whole(self) -> Self:
        """What belongs to the roles says nothing where there are none."""
        given = [name for name in _OF_LIFECYCLE if getattr(self, name)]
        if given and not self.lifecycle_tenant:
            told = f"{given[0]} says nothing without lifecycle_tenant, who pays for the tasks"
            raise PydanticCustomError("whole", "{told}", {"told": told})
        if self.jira_jql and not self.jira_url:
            told = "jira_jql says nothing without jira_url"
            raise PydanticCustomError("whole", "{told}", {"told": told})
        return self

    @property
    def function_variables(self) -> Mapping[str, str]:
        """What goes on to the functions, by its name in their environment."""
        named = {variable_of(name): getattr(self, name) for name in PASSED_ON}
        return {variable: value for variable, value in named.items() if value}


_OF_LIFECYCLE = tuple(
    name
    for name in Options.model_fields
    if name != "lifecycle_tenant" and name.startswith(("lifecycle_", "github_", "jira_", "slack_"))
)


def variable_of(option: str) -> str:
    """The environment variable by which a function, or the local stack, is told of an option."""
    return f"DPP_{option.upper()}"


RULES: tuple[type[Settings], ...] = (
    ReaperSettings,
    RetrySettings,
    RetentionSettings,
    LimitSettings,
    ContainerSizeSettings,
    TaskLimitSettings,
    SourcesSettings,
    ChannelSettings,
    CredentialSettings,
)
"""The rules that an operator may set, by the models that read them: whole, since some say how values must fit."""

PASSED_ON = tuple(
    name
    for name in Options.model_fields
    if name == "lifecycle_tenant"
    or name.startswith("decision_")
    or any(variable_of(name) in rules.variables() for rules in RULES)
)
"""The options that a function is told of."""


def read_options(get: Callable[[str], object], folder: Path | None) -> tuple[str, Options]:
    """The stage and its options: `get` gives the value of `-c name=value`, `folder` has the stages' files, if any.

    Raises DeploymentError for a wrong value, for an unknown name in the file, and where the two name another size.
    """
    said = {name: _as_said(value) for name in Options.model_fields if (value := get(name)) is not None}
    stage = str(get("stage") or said.get("size") or "dev")
    if not _STAGE.fullmatch(stage):
        raise DeploymentError(f"-c stage={stage}: not a short name in lower case")
    path = folder / f"{stage}.json" if folder else None
    kept = _read(path) if path and path.exists() else {}
    if path and "size" in said and kept.get("size", said["size"]) != said["size"]:
        raise DeploymentError(f"-c size={said['size']}: {_named(path)} says that {stage} is {kept['size']}")
    options = _validated({**kept, **said}, "-c ")
    if stage in SIZES and stage != options.size:
        raise DeploymentError(
            f"the stage {stage} would be of size {options.size}: say size={stage}, or choose another name"
        )
    return stage, options


def _as_said(value: object) -> str:
    """Text, as `-c` gives it; the context of a cdk.json may have an object."""
    text = _as_json(value)
    return text if isinstance(text, str) else str(text)


def _read(path: Path) -> dict[str, object]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DeploymentError(f"{_named(path)}: not JSON: {error}") from None
    if not isinstance(kept, dict):
        raise DeploymentError(f"{_named(path)}: not an object of names and values")
    _validated(kept, f"{_named(path)}: ")
    return kept


def _validated(values: Mapping[str, object], where: str) -> Options:
    try:
        return Options.model_validate(values)
    except ValidationError as error:
        found = error.errors()[0]
        if not found["loc"]:  # of several together, which the message names
            raise DeploymentError(f"{where}{found['msg']}") from None
        name = ".".join(str(part) for part in found["loc"])
        if found["type"] == "extra_forbidden":
            known = ", ".join(Options.model_fields)
            raise DeploymentError(f"{where}{name}: there is no such option; there are {known}") from None
        raise DeploymentError(f"{where}{name}={found['input']}: {found['msg']}") from None


def _named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
