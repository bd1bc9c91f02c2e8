"""Settings of the lifecycle roles."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from dpp.money.micros import parse_usd, positive_usd
from dpp.platform.config import Settings, variable

_TENANT = r"^[A-Za-z0-9_-]{1,64}$"


class StateSettings(Settings):
    """The S3 bucket of results, prompts and session logs (LIFE-3, LIFE-4)."""

    state_bucket: str = variable(
        "DPP_STATE_BUCKET", "The bucket of results, prompts and session logs of tasks.", min_length=3, max_length=63
    )


class OutsideSettings(Settings):
    """The function outside the VPC that calls the sources and Slack."""

    outside_function: str = variable(
        "DPP_LIFECYCLE_OUTSIDE_FUNCTION", "The function that calls GitHub, Jira and Slack.", min_length=1
    )


class WakeSettings(Settings):
    """The functions to invoke at once when they have work. A role whose function is not named finds its work by its
    schedule."""

    @property
    def functions(self) -> Mapping[str, str]:
        """The name of each role that can be woken, and its function."""
        named = {role: getattr(self, f"{role.lower()}_function", None) for role in ("KING", "GENERAL", "ENVOY")}
        return {role: function for role, function in named.items() if function is not None}


class WakesKing(WakeSettings):
    """For functions that create work for the king (dispatcher)."""

    king_function: str | None = variable(
        "DPP_LIFECYCLE_KING_FUNCTION",
        "The function of the king (dispatcher), invoked when it has work; without it, only its schedule does so.",
        None,
        min_length=1,
    )


class WakesGeneral(WakeSettings):
    """For functions that create work for the general (runner). That includes operator commands, also without a
    general."""

    general_function: str | None = variable(
        "DPP_LIFECYCLE_GENERAL_FUNCTION",
        "The function of the general (runner), invoked when it has work; without it, only its schedule does so.",
        None,
        min_length=1,
    )


class WakesEnvoy(WakeSettings):
    """For functions that create work for the envoy (notifier)."""

    envoy_function: str | None = variable(
        "DPP_LIFECYCLE_ENVOY_FUNCTION",
        "The function of the envoy (notifier), invoked when it has work; without it, only its schedule does so.",
        None,
        min_length=1,
    )


class SourcesSettings(Settings):
    """The sources to poll. A source without a login or a filter is not polled.

    `github_login`: the account whose notifications are read. Events are its mentions, assignments and review requests.
    `jira_jql`: a filter such as `assignee = currentUser()`; a condition on the update time is added to it.
    """

    github_login: str | None = variable(
        "DPP_GITHUB_LOGIN",
        "The account whose notifications are read; without it GitHub is not polled.",
        None,
        pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:\[bot\])?$",
    )
    jira_jql: str | None = variable(
        "DPP_JIRA_JQL",
        "The filter of the issues to poll; without it Jira is not polled.",
        None,
        min_length=1,
        max_length=2_000,
    )


class LifecycleSecretSettings(Settings):
    """The secret of webhooks and credentials."""

    lifecycle_secret_arn: str | None = variable(
        "DPP_LIFECYCLE_SECRET_ARN",
        "A JSON secret with tokens and signing secrets as members; a variable overrides its member.",
        None,
        pattern=r"^arn:",
    )


class WebhookSecretSettings(LifecycleSecretSettings):
    """The secrets that deliveries are signed with; a source without one can't deliver.

    Given as variables, or as members of one JSON secret: `{"github_webhook_secret": …, "jira_webhook_secret": …,
    "slack_signing_secret": …}`. A variable overrides the member.
    """

    github_webhook_secret: str | None = variable(
        "DPP_GITHUB_WEBHOOK_SECRET",
        "The secret of GitHub's deliveries; without it GitHub can't deliver.",
        None,
        repr=False,
    )
    jira_webhook_secret: str | None = variable(
        "DPP_JIRA_WEBHOOK_SECRET", "The secret of Jira's deliveries; without it Jira can't deliver.", None, repr=False
    )
    slack_signing_secret: str | None = variable(
        "DPP_SLACK_SIGNING_SECRET",
        "The secret of Slack's deliveries; without it Slack can't deliver.",
        None,
        repr=False,
    )


class CredentialSettings(LifecycleSecretSettings):
    """Addresses and credentials of GitHub, Jira and Slack, for the function outside the VPC only.

    Secrets as in WebhookSecretSettings: `{"github_token": …, "jira_user": …, "jira_token": …, "slack_url": …,
    "slack_token": …}`. `slack_url` is an incoming webhook, or `https://slack.com/api/chat.postMessage` with
    `slack_token`, the token of a bot. Only the latter returns the thread of a message (Slack guide, "Sending messages
    using incoming webhooks").
    """

    github_url: str = variable(
        "DPP_GITHUB_URL", "The address of GitHub's API.", "https://api.github.com", pattern=r"^https?://"
    )
    github_token: str | None = variable("DPP_GITHUB_TOKEN", "The token for GitHub.", None, repr=False)
    jira_url: str | None = variable("DPP_JIRA_URL", "The address of Jira.", None, pattern=r"^https?://")
    jira_user: str | None = variable("DPP_JIRA_USER", "The user of the Jira token.", None)
    jira_token: str | None = variable("DPP_JIRA_TOKEN", "The token for Jira.", None, repr=False)
    slack_url: str | None = variable(
        "DPP_SLACK_URL",
        "An incoming webhook of Slack, or `https://slack.com/api/chat.postMessage` with a token.",
        None,
        pattern=r"^https?://",
        repr=False,
    )
    slack_token: str | None = variable(
        "DPP_SLACK_TOKEN", "The token of a bot, which lets messages be threaded.", None, repr=False
    )


class ChannelSettings(Settings):
    """The Slack channel of messages; None for that of the incoming webhook."""

    slack_channel: str | None = variable(
        "DPP_SLACK_CHANNEL",
        "The channel of messages; without it that of the incoming webhook.",
        None,
        min_length=1,
        max_length=100,
    )


class TaskLimitSettings(Settings):
    """The limits of an attempt at a task, and the number of attempts."""

    max_cost_usd: Annotated[str, AfterValidator(positive_usd)] = variable(
        "DPP_LIFECYCLE_TASK_MAX_COST_USD", "The maximum cost of one attempt at a task, in US dollars.", "0.0500"
    )
    timebox_sec: int = variable(
        "DPP_LIFECYCLE_TASK_TIMEBOX_SEC", "The maximum duration of one attempt, in seconds.", 60, ge=1, le=90
    )
    min_reliability_score: float = variable(
        "DPP_LIFECYCLE_TASK_MIN_RELIABILITY",
        "The minimum reliability of an attempt's answer.",
        0.5,
        ge=0,
        le=1,
        allow_inf_nan=False,
    )
    max_attempts: int = variable(
        "DPP_LIFECYCLE_TASK_MAX_ATTEMPTS", "The maximum number of attempts at a task.", 3, ge=1, le=10
    )

    @property
    def max_cost_usd_micros(self) -> int:
        """The amount to reserve for one attempt."""
        return parse_usd(self.max_cost_usd)


class TaskSettings(TaskLimitSettings):
    """The limits, and the tenant that pays."""

    tenant_id: str = variable("DPP_LIFECYCLE_TENANT", "The tenant that pays for tasks.", pattern=_TENANT)


class CleanerSettings(Settings):
    """The limits of a cleanup (LIFE-8).

    At most `max_deletes` rows of a class are deleted. If more than `breaker_factor` times the usual number is due, none
    is deleted, and an operator must decide. Up to `breaker_floor` rows are always usual.
    """

    max_deletes: int = variable(
        "DPP_CHAMBERLAIN_MAX_DELETES",
        "The maximum number of rows of a class that one cleanup deletes.",
        2_000_000,
        ge=1,
        le=1_000_000_000,
    )
    breaker_factor: int = variable(
        "DPP_CHAMBERLAIN_BREAKER_FACTOR",
        "If more than this multiple of the usual number is due, a cleanup deletes nothing of the class.",
        10,
        ge=2,
        le=1_000,
    )
    breaker_floor: int = variable(
        "DPP_CHAMBERLAIN_BREAKER_FLOOR", "Up to this number of rows is always usual.", 10_000, ge=1
    )

    @model_validator(mode="after")
    def _cap_leaves_room(self) -> Self:
        if self.breaker_floor > self.max_deletes:
            raise ValueError("DPP_CHAMBERLAIN_BREAKER_FLOOR must not exceed DPP_CHAMBERLAIN_MAX_DELETES")
        return self
