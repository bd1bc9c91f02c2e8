"""Configuration: small frozen models, composed by inheritance into one model a function.

A field's alias is the name of its environment variable, and is written nowhere else: the CDK app asks
the same models which variables a function needs (`Settings.variables()`). Nothing reads the environment
at import; a function's wiring calls `load` once, and a missing or wrong value fails there by name.
"""

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator


class ConfigurationError(Exception):
    """The environment lacks a variable or holds a wrong value; the message names each, never its value."""


class Settings(BaseModel):
    """Base of every settings model: frozen, read from environment variables by alias."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Self:
        """Build the model from `environ`; empty values count as unset.

        Raises ConfigurationError naming every variable that is missing or wrong.
        """
        try:
            return cls.model_validate({name: value for name, value in environ.items() if value != ""})
        except ValidationError as error:
            faults = "; ".join(
                ": ".join((*map(str, fault["loc"][:1]), fault["msg"].removeprefix("Value error, ")))
                for fault in error.errors()
            )
            raise ConfigurationError(f"{cls.__name__}: {faults}") from None

    @classmethod
    def variables(cls, *, required_only: bool = False) -> tuple[str, ...]:
        """The environment variables this model reads, sorted."""
        fields = cls.model_fields.values()
        return tuple(
            sorted(
                field.alias for field in fields if field.alias and (field.is_required() or not required_only)
            )
        )


class PostgresSettings(Settings):
    """Where the rows live: a libpq URL, `postgresql://user:password@host:port/database`."""

    database_url: str = Field(alias="DATABASE_URL", pattern=r"^postgres(ql)?://", repr=False)


class RedisSettings(Settings):
    """Where the budgets live: `redis://` or `rediss://`; cluster mode changes the key names (D11)."""

    redis_url: str = Field(alias="REDIS_URL", pattern=r"^rediss?://", repr=False)
    redis_cluster: bool = Field(default=False, alias="DPP_REDIS_CLUSTER")


class QueueSettings(Settings):
    """The SQS queue that carries runs from submit to the worker (RUN-15)."""

    run_queue_url: str = Field(alias="DPP_RUN_QUEUE_URL", pattern=r"^https?://")


class StorageSettings(Settings):
    """The S3 bucket that keeps result envelopes (RUN-18)."""

    results_bucket: str = Field(alias="DPP_RESULTS_BUCKET", min_length=3, max_length=63)


class DecisionEngineSettings(Settings):
    """Which engine answers a decision pack; with none configured, the offline extractive one does (RUN-25)."""

    bedrock_model_id: str | None = Field(default=None, alias="DPP_DECISION_BEDROCK_MODEL_ID")
    openai_base_url: str | None = Field(
        default=None, alias="DPP_DECISION_OPENAI_BASE_URL", pattern=r"^https?://"
    )
    openai_api_key: str | None = Field(default=None, alias="DPP_DECISION_OPENAI_API_KEY", repr=False)
    openai_model: str | None = Field(default=None, alias="DPP_DECISION_OPENAI_MODEL")

    @model_validator(mode="after")
    def _endpoint_has_a_model(self) -> Self:
        if self.openai_base_url and not self.openai_model:
            raise ValueError("DPP_DECISION_OPENAI_MODEL: needed with DPP_DECISION_OPENAI_BASE_URL")
        return self
