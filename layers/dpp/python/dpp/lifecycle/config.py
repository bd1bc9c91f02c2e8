"""What the roles read from their environment."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from dpp.money.micros import AmountError, parse_usd
from dpp.platform.config import Settings

_TENANT = r"^[A-Za-z0-9_-]{1,64}$"


class StateSettings(Settings):
    """The S3 bucket that keeps what tasks leave: results, prompts, sessions' logs (LIFE-3, LIFE-4)."""

    state_bucket: str = Field(
        alias="DPP_STATE_BUCKET",
        min_length=3,
        max_length=63,
        description="The bucket of what tasks leave: results, prompts, logs.",
    )


class OutsideSettings(Settings):
    """The function outside of the network, by which sources and Slack are reached."""

    outside_function: str = Field(
        alias="DPP_LIFECYCLE_OUTSIDE_FUNCTION",
        min_length=1,
        description="The function by which GitHub, Jira and Slack are reached.",
    )


class WakeSettings(Settings):
    """Whom to wake; a role whose function is not named finds its work by its schedule."""

    @property
    def functions(self) -> Mapping[str, str]:
        """The function of each role that can be woken, by the role's name."""
        named = {
            role: getattr(self, f"{role.lower()}_function", None) for role in ("KING", "GENERAL", "ENVOY")
        }
        return {role: function for role, function in named.items() if function is not None}


class WakesKing(WakeSettings):
    """For who makes work for the king."""

    king_function: str | None = Field(
        default=None,
        alias="DPP_LIFECYCLE_KING_FUNCTION",
        min_length=1,
        description="The king's function, to wake; without it he finds the work by his schedule.",
    )


class WakesGeneral(WakeSettings):
    """For who makes work for the general; an operator is one, in deployments that have no general, too."""

    general_function: str | None = Field(
        default=None,
        alias="DPP_LIFECYCLE_GENERAL_FUNCTION",
        min_length=1,
        description="The general's function, likewise.",
    )


class WakesEnvoy(WakeSettings):
    """For who makes work for the envoy."""

    envoy_function: str | None = Field(
        default=None,
        alias="DPP_LIFECYCLE_ENVOY_FUNCTION",
        min_length=1,
        description="The envoy's function, likewise.",
    )


class SourcesSettings(Settings):
    """What is asked of the sources. A source whose name or filter is not given is not asked.

    `github_login`: whose notifications these are, and whose mentions, assignments and review requests concern us.
    `jira_jql`: the filter, to which the time is added: `assignee = currentUser()`.
    """

    github_login: str | None = Field(
        default=None,
        alias="DPP_GITHUB_LOGIN",
        pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:\[bot\])?$",
        description="Whose notifications these are, and whose mentions concern us; without it GitHub is not asked.",
    )
    jira_jql: str | None = Field(
        default=None,
        alias="DPP_JIRA_JQL",
        min_length=1,
        max_length=2_000,
        description="The filter of the issues that concern us; without it Jira is not asked.",
    )


class WebhookSecretSettings(Settings):
    """What deliveries are signed with; a source without a secret can't call. Given as they are, or as one secret of
    JSON, `{"github_webhook_secret": …, "jira_webhook_secret": …, "slack_signing_secret": …}`; as they are, they win."""

    github_webhook_secret: str | None = Field(
        default=None,
        alias="DPP_GITHUB_WEBHOOK_SECRET",
        repr=False,
        description="What GitHub signs deliveries with; without it GitHub can't call.",
    )
    jira_webhook_secret: str | None = Field(
        default=None,
        alias="DPP_JIRA_WEBHOOK_SECRET",
        repr=False,
        description="What Jira signs deliveries with, likewise.",
    )
    slack_signing_secret: str | None = Field(
        default=None,
        alias="DPP_SLACK_SIGNING_SECRET",
        repr=False,
        description="What Slack signs deliveries with, likewise.",
    )
    lifecycle_secret_arn: str | None = Field(
        default=None,
        alias="DPP_LIFECYCLE_SECRET_ARN",
        pattern=r"^arn:",
        description="The secret with tokens and signing secrets as members; what is given by itself wins.",
    )


class CredentialSettings(Settings):
    """Where the outside is and what opens it: for the function outside alone. Secrets as in WebhookSecretSettings:
    `{"github_token": …, "jira_user": …, "jira_token": …, "slack_url": …, "slack_token": …}`.

    `slack_url`: an incoming webhook, or `https://slack.com/api/chat.postMessage` with `slack_token`, a bot's. Only the
    latter tells the thread that a message began (Slack guide, "Sending messages using incoming webhooks").
    """

    github_url: str = Field(
        default="https://api.github.com",
        alias="DPP_GITHUB_URL",
        pattern=r"^https?://",
        description="GitHub's API.",
    )
    github_token: str | None = Field(
        default=None, alias="DPP_GITHUB_TOKEN", repr=False, description="The token that opens GitHub."
    )
    jira_url: str | None = Field(
        default=None, alias="DPP_JIRA_URL", pattern=r"^https?://", description="Where Jira is."
    )
    jira_user: str | None = Field(default=None, alias="DPP_JIRA_USER", description="As whom Jira is asked.")
    jira_token: str | None = Field(
        default=None, alias="DPP_JIRA_TOKEN", repr=False, description="The token that opens Jira."
    )
    slack_url: str | None = Field(
        default=None,
        alias="DPP_SLACK_URL",
        pattern=r"^https?://",
        repr=False,
        description="An incoming webhook of Slack's, or `https://slack.com/api/chat.postMessage` with a token.",
    )
    slack_token: str | None = Field(
        default=None,
        alias="DPP_SLACK_TOKEN",
        repr=False,
        description="A bot's token, with which messages stand in threads.",
    )
    lifecycle_secret_arn: str | None = Field(
        default=None,
        alias="DPP_LIFECYCLE_SECRET_ARN",
        pattern=r"^arn:",
        description="The secret with tokens and signing secrets as members; what is given by itself wins.",
    )


class ChannelSettings(Settings):
    """The Slack channel that messages go to; None: the incoming webhook's own."""

    slack_channel: str | None = Field(
        default=None,
        alias="DPP_SLACK_CHANNEL",
        min_length=1,
        max_length=100,
        description="The channel that messages go to; without it the incoming webhook's own.",
    )


def _amount(text: str) -> str:
    try:
        if parse_usd(text) == 0:
            raise ValueError("must be above zero")
    except AmountError as error:
        raise ValueError(str(error)) from None
    return text


class TaskLimitSettings(Settings):
    """How much one attempt at a task may cost, for how long it may run, and how many there may be."""

    max_cost_usd: Annotated[str, AfterValidator(_amount)] = Field(
        default="0.0500",
        alias="DPP_LIFECYCLE_TASK_MAX_COST_USD",
        description="What one attempt at a task may cost, in US dollars.",
    )
    timebox_sec: int = Field(
        default=60,
        alias="DPP_LIFECYCLE_TASK_TIMEBOX_SEC",
        ge=1,
        le=90,
        description="How long one attempt may run, in seconds.",
    )
    min_reliability_score: float = Field(
        default=0.5,
        alias="DPP_LIFECYCLE_TASK_MIN_RELIABILITY",
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="From when on the answer of an attempt is sure enough.",
    )
    max_attempts: int = Field(
        default=3,
        alias="DPP_LIFECYCLE_TASK_MAX_ATTEMPTS",
        ge=1,
        le=10,
        description="How many attempts at a task there are.",
    )

    @property
    def max_cost_usd_micros(self) -> int:
        """The reservation of one attempt."""
        return parse_usd(self.max_cost_usd)


class TaskSettings(TaskLimitSettings):
    """The limits, and the tenant who pays."""

    tenant_id: str = Field(
        alias="DPP_LIFECYCLE_TENANT", pattern=_TENANT, description="The tenant who pays for tasks."
    )


class CleanerSettings(Settings):
    """The chamberlain's bounds (LIFE-8): how many rows of a class one run deletes at most, and from which multiple of
    the usual on a run deletes none of it and asks an operator. Up to `breaker_floor` is always usual.
    """

    max_deletes: int = Field(
        default=2_000_000,
        alias="DPP_CHAMBERLAIN_MAX_DELETES",
        ge=1,
        le=1_000_000_000,
        description="How many rows of a class one cleanup deletes.",
    )
    breaker_factor: int = Field(
        default=10,
        alias="DPP_CHAMBERLAIN_BREAKER_FACTOR",
        ge=2,
        le=1_000,
        description="From which multiple of the usual on a cleanup deletes none of a class and asks an operator.",
    )
    breaker_floor: int = Field(
        default=10_000,
        alias="DPP_CHAMBERLAIN_BREAKER_FLOOR",
        ge=1,
        description="Up to so many rows are always usual.",
    )

    @model_validator(mode="after")
    def _cap_leaves_room(self) -> Self:
        if self.breaker_floor > self.max_deletes:
            raise ValueError("DPP_CHAMBERLAIN_BREAKER_FLOOR: at most DPP_CHAMBERLAIN_MAX_DELETES")
        return self
