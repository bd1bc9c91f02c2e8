"""The options of a deployment: `deploy/<stage>.json`, overridden by `-c name=value` (docs/deploy.md).

The file keeps options for the next deployment. An unknown name is refused, because a misspelled option would silently
remove what it was meant to keep.
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
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.config import ChannelSettings, CredentialSettings, SourcesSettings, TaskLimitSettings, TaskSettings
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import ConfigurationError, ModelSettings, Settings
from dpp.tickets.config import ReaperSettings
from dpp.workspaces.config import LimitSettings
from dpp.workspaces.providers.aws_settings import ContainerSizeSettings
from dpp_cdk.settings.sizes import SIZES

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")


class DeploymentError(Exception):
    """The deployment is not valid. The message names what is missing or wrong, and how to correct it."""


def _failure(kind: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{message}", {"message": message})


def _matching(pattern: str, description: str) -> AfterValidator:
    def checked(value: str) -> str:
        if value and not re.fullmatch(pattern, value):
            raise _failure("form", f"not {description}")
        return value

    return AfterValidator(checked)


def _one_of(*choices: str) -> AfterValidator:
    def checked(value: str) -> str:
        if value not in choices:
            raise _failure("choice", f"choose one of {', '.join(choices)}")
        return value

    return AfterValidator(checked)


def _as_text(value: object) -> object:
    """A JSON file may have a number; `-c` gives text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_json(value: object) -> object:
    """A JSON file may have an object; `-c` gives its text."""
    return json.dumps(value) if isinstance(value, dict) else value


def variable_of(option: str) -> str:
    """The environment variable of an option, in functions and on the local stack."""
    return f"DPP_{option.upper()}"


_OPTIONAL: tuple[type[Settings], ...] = (
    ReaperSettings,
    RetrySettings,
    RetentionSettings,
    LimitSettings,
    TaskLimitSettings,
    SourcesSettings,
    ChannelSettings,
)
_CHECKED_ALONE: tuple[type[Settings], ...] = (*_OPTIONAL, TaskSettings)
RULES: tuple[type[Settings], ...] = (*_OPTIONAL, ContainerSizeSettings, CredentialSettings, ModelSettings)
"""The functions' models of the settings that an operator may set. They are loaded as a whole, too, because some check
combinations of values."""

_Number = Annotated[str, BeforeValidator(_as_text)]
_Arn = Annotated[str, _matching(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d*:\S+", "an ARN")]
_Https = Annotated[str, _matching(r"https://\S+", "a URL of https")]


class Options(BaseModel):
    """The options of one deployment. An empty string is the same as no value.

    `alarm_email`: receives alarms. `domain_name` with `certificate_arn`: the API's own host name. `tracing`: X-Ray,
    which costs by request. `openai_secret_arn`: the secret with the key of an OpenAI-compatible endpoint.
    `workspace_image`: the ECR image of workspaces' containers; without it there are no workspaces. `lifecycle_tenant`:
    the tenant that pays for tasks; without it the lifecycle roles are not deployed. `lifecycle_secret_arn`: the secret
    with the credentials of GitHub, Jira and Slack. `retention`: an object with the periods that differ from the default
    (LIFE-8). Every other option has the meaning of the environment variable of its name (docs/configuration.md), and is
    validated by the model that reads it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Annotated[str, _one_of(*SIZES)] = "dev"
    alarm_email: Annotated[str, _matching(r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address")] = ""
    domain_name: Annotated[str, _matching(r"([a-z0-9-]+\.)+[a-z]{2,}", "a host name")] = ""
    certificate_arn: _Arn = ""
    openai_secret_arn: _Arn = ""
    tracing: Annotated[str, _one_of("on", "off")] = "off"
    decision_bedrock_model_id: Annotated[str, _matching(r"\S+", "a model's id")] = ""
    decision_openai_base_url: _Https = ""
    decision_openai_model: Annotated[str, _matching(r"\S+", "a model's name")] = ""
    decision_bedrock_output: str = ""
    decision_openai_response_format: str = ""
    decision_openai_token_limit_field: str = ""
    decision_temperature: _Number = ""
    decision_thinking_tokens: _Number = ""
    time_zone: str = ""
    ticket_reaper_threshold_seconds: _Number = ""
    ticket_reaper_max_clean: _Number = ""
    ticket_reaper_excluded_types: str = ""
    ticket_reaper_breaker_count: _Number = ""
    ticket_reaper_breaker_share: _Number = ""
    auth_error_max_retries: _Number = ""
    retention: Annotated[str, BeforeValidator(_as_json)] = ""
    workspace_image: Annotated[str, _matching(r"\S+", "the name of an image")] = ""
    workspace_cpu: _Number = ""
    workspace_memory_mib: _Number = ""
    workspaces_per_tenant: _Number = ""
    lifecycle_tenant: str = ""
    lifecycle_secret_arn: _Arn = ""
    lifecycle_task_max_cost_usd: _Number = ""
    lifecycle_task_timebox_sec: _Number = ""
    lifecycle_task_min_reliability: _Number = ""
    lifecycle_task_max_attempts: _Number = ""
    github_login: str = ""
    github_url: _Https = ""
    jira_url: _Https = ""
    jira_jql: str = ""
    slack_channel: str = ""

    @field_validator("*")
    @classmethod
    def _valid_for_its_reader(cls, value: str, info: ValidationInfo) -> str:
        """Validate a value by the functions' own model of its variable."""
        variable = variable_of(info.field_name or "")
        for model in _CHECKED_ALONE:
            if variable in model.variables():
                try:
                    model.load({variable: value})
                except ConfigurationError as error:
                    message = re.sub(rf"^.*?{variable}(: |\.| )", "", str(error))
                    raise _failure("setting", message.replace(f"{variable}.", "")) from None
        return value

    @model_validator(mode="after")
    def _lifecycle_is_complete(self) -> Self:
        """Options of the lifecycle roles require these roles."""
        given = [name for name in _OF_LIFECYCLE if getattr(self, name)]
        if given and not self.lifecycle_tenant:
            raise _failure("whole", f"{given[0]} needs lifecycle_tenant, the tenant that pays for the tasks")
        if self.jira_jql and not self.jira_url:
            raise _failure("whole", "jira_jql needs jira_url")
        return self

    @property
    def function_variables(self) -> Mapping[str, str]:
        """The options that functions read, by environment variable."""
        named = {variable_of(name): getattr(self, name) for name in PASSED_ON}
        return {variable: value for variable, value in named.items() if value}


_OF_LIFECYCLE = tuple(
    name
    for name in Options.model_fields
    if name != "lifecycle_tenant" and name.startswith(("lifecycle_", "github_", "jira_", "slack_"))
)

PASSED_ON = tuple(
    name
    for name in Options.model_fields
    if name == "lifecycle_tenant" or any(variable_of(name) in rules.variables() for rules in RULES)
)
"""The options that functions read."""


def read_options(get: Callable[[str], object], folder: Path | None) -> tuple[str, Options]:
    """The stage and its options. `get` returns the value of `-c name=value`; `folder` has the stages' files, if any.

    Raises DeploymentError for a wrong value, for an unknown name in the file, and if the two have different sizes.
    """
    given = {name: _context_text(value) for name in Options.model_fields if (value := get(name)) is not None}
    stage = str(get("stage") or given.get("size") or "dev")
    if not _STAGE.fullmatch(stage):
        raise DeploymentError(f"-c stage={stage}: use a name of 1 to 20 lower-case letters, digits and hyphens")
    path = folder / f"{stage}.json" if folder else None
    kept = _read(path) if path and path.exists() else {}
    if path and "size" in given and kept.get("size", given["size"]) != given["size"]:
        raise DeploymentError(f"-c size={given['size']}: {_named(path)} has size {kept['size']}")
    options = _validated({**kept, **given}, "-c ")
    if stage in SIZES and stage != options.size:
        raise DeploymentError(
            f"the stage {stage} would have size {options.size}: set size={stage}, or choose another name"
        )
    return stage, options


def _context_text(value: object) -> str:
    """A context value as text; the context of a cdk.json may have an object."""
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
        if not found["loc"]:  # an error of a combination of options, named by the message
            raise DeploymentError(f"{where}{found['msg']}") from None
        name = ".".join(str(part) for part in found["loc"])
        if found["type"] == "extra_forbidden":
            known = ", ".join(Options.model_fields)
            raise DeploymentError(f"{where}{name}: no such option; the options are {known}") from None
        raise DeploymentError(f"{where}{name}={found['input']}: {found['msg']}") from None


def _named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
