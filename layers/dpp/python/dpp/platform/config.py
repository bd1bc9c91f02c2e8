"""Configuration: small frozen models, composed by inheritance into one model per function.

A field's alias is the name of its environment variable, and the only place that has the name: the CDK app asks the same
models which variables a function needs (`Settings.variables()`). Nothing reads the environment at import. A function's
wiring calls `load` once, which names every missing or wrong variable.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator


class ConfigurationError(Exception):
    """A variable is missing or wrong in the environment. The message names each variable, never its value."""


def variable(alias: str, description: str, default: Any = ..., **constraints: Any) -> Any:
    """A field of a settings model, read from the environment variable `alias`; required without a `default`."""
    return Field(default, alias=alias, description=description, **constraints)


class Settings(BaseModel):
    """Base of every settings model: frozen, read from environment variables by alias."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    either: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Sets of variables of which one must be complete; a model that inherits several needs one set of each."""

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Build the model from the environment; empty values count as unset.

        Raises ConfigurationError naming every variable that is missing or wrong.
        """
        given = {name: value for name, value in environ.items() if value != ""}
        faults = [f"{choice}: required" for choice in cls.missing(given, among_choices_only=True)]
        try:
            loaded = cls.model_validate(given)
        except ValidationError as error:
            faults += [
                ": ".join(
                    part
                    for part in (".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, "))
                    if part
                )
                for fault in error.errors()
            ]
            raise ConfigurationError(f"{cls.__name__}: {'; '.join(faults)}") from None
        if faults:
            raise ConfigurationError(f"{cls.__name__}: {'; '.join(faults)}")
        return loaded

    @classmethod
    def missing(cls, given: Mapping[str, str], *, among_choices_only: bool = False) -> list[str]:
        """The required variables that `given` lacks, and the choices of which no set is complete."""
        choices = [
            " or ".join(" with ".join(names) for names in sets)
            for sets in cls._choices()
            if not any(all(given.get(name) for name in names) for names in sets)
        ]
        required = () if among_choices_only else cls.variables(required_only=True)
        return [*(name for name in required if not given.get(name)), *choices]

    @classmethod
    def identifying(cls) -> tuple[str, ...]:
        """The variables that identify a deployment, sorted: those without a default."""
        of_choices = {name for sets in cls._choices() for names in sets for name in names}
        return tuple(sorted({*cls.variables(required_only=True), *of_choices}))

    @classmethod
    def _choices(cls) -> Iterator[tuple[tuple[str, ...], ...]]:
        for model in cls.__mro__:
            if sets := vars(model).get("either"):
                yield sets

    @classmethod
    def variables(cls, *, required_only: bool = False) -> tuple[str, ...]:
        """The environment variables that this model reads, sorted."""
        fields = cls.model_fields.values()
        return tuple(
            sorted(field.alias for field in fields if field.alias and (field.is_required() or not required_only))
        )


@dataclass(frozen=True, slots=True)
class DatabaseBySecret:
    """A Postgres with user and password in a secret, `{"username": …, "password": …}`."""

    host: str
    port: int
    name: str
    sslmode: str
    secret_arn: str


@dataclass(frozen=True, slots=True)
class RedisBySecret:
    """A Redis with TLS and its token in a secret: `{"auth_token": …}`, with a `username` for RBAC."""

    host: str
    port: int
    secret_arn: str


type DatabaseAddress = str | DatabaseBySecret
type RedisAddress = str | RedisBySecret


class PostgresSettings(Settings):
    """Postgres: a libpq URL, `postgresql://user:password@host:port/database`, or a host and a secret. The URL wins.

    TLS with a host: `verify-full` checks the server's certificate against the public authorities (for RDS Proxy),
    `require` encrypts without a check (an RDS instance's certificate is signed by Amazon's own authority).
    """

    either: ClassVar = (("DATABASE_URL",), ("DATABASE_HOST", "DATABASE_SECRET_ARN"))

    database_url: str | None = variable(
        "DATABASE_URL",
        "Postgres by its libpq URL, password included; wins over the host.",
        None,
        pattern=r"^postgres(ql)?://",
        repr=False,
    )
    database_host: str | None = variable(
        "DATABASE_HOST", "Postgres by its host, with TLS; user and password are in the secret.", None
    )
    database_port: int = variable("DATABASE_PORT", "The port of Postgres.", 5432, ge=1, le=65535)
    database_name: str = variable("DATABASE_NAME", "The database in Postgres.", "dpp", min_length=1)
    database_sslmode: Literal["require", "verify-full"] = variable(
        "DATABASE_SSLMODE",
        "`verify-full` checks the certificate against the public authorities, `require` does not.",
        "verify-full",
    )
    database_secret_arn: str | None = variable(
        "DATABASE_SECRET_ARN", 'The secret `{"username": …, "password": …}`.', None, pattern=r"^arn:"
    )

    @property
    def database(self) -> DatabaseAddress:
        """The address for `postgres.Database`. Raises ConfigurationError for a model not built by `load`."""
        if self.database_url:
            return self.database_url
        if self.database_host is None or self.database_secret_arn is None:
            raise ConfigurationError("no DATABASE_URL, and no DATABASE_HOST with DATABASE_SECRET_ARN")
        return DatabaseBySecret(
            host=self.database_host,
            port=self.database_port,
            name=self.database_name,
            sslmode=self.database_sslmode,
            secret_arn=self.database_secret_arn,
        )


class RedisSettings(Settings):
    """Redis: a URL `redis://` or `rediss://`, or a host and a secret, with TLS. The URL wins.

    Cluster mode changes the key names (D11).
    """

    either: ClassVar = (("REDIS_URL",), ("REDIS_HOST", "REDIS_SECRET_ARN"))

    redis_url: str | None = variable(
        "REDIS_URL", "Redis by its URL, token included; wins over the host.", None, pattern=r"^rediss?://", repr=False
    )
    redis_host: str | None = variable("REDIS_HOST", "Redis by its host, with TLS; the token is in the secret.", None)
    redis_port: int = variable("REDIS_PORT", "The port of Redis.", 6379, ge=1, le=65535)
    redis_secret_arn: str | None = variable(
        "REDIS_SECRET_ARN", 'The secret `{"auth_token": …}`, with a `username` for RBAC.', None, pattern=r"^arn:"
    )
    redis_cluster: bool = variable(
        "DPP_REDIS_CLUSTER", "`1` for a Redis cluster: then every key of a tenant has the hash tag `{tenant}`.", False
    )

    @property
    def redis(self) -> RedisAddress:
        """The address for `redis.connect`. Raises ConfigurationError for a model not built by `load`."""
        if self.redis_url:
            return self.redis_url
        if self.redis_host is None or self.redis_secret_arn is None:
            raise ConfigurationError("no REDIS_URL, and no REDIS_HOST with REDIS_SECRET_ARN")
        return RedisBySecret(host=self.redis_host, port=self.redis_port, secret_arn=self.redis_secret_arn)


class QueueSettings(Settings):
    """The SQS queue that carries runs from submit to the worker (RUN-15)."""

    run_queue_url: str = variable(
        "DPP_RUN_QUEUE_URL", "The queue that carries runs from submit to the worker.", pattern=r"^https?://"
    )


class DeadLetterSettings(Settings):
    """The queue of run messages that failed three times (RUN-15)."""

    run_dead_letter_queue_url: str = variable(
        "DPP_RUN_DEAD_LETTER_QUEUE_URL",
        "The dead-letter queue: messages of runs that failed three times.",
        pattern=r"^https?://",
    )


class StorageSettings(Settings):
    """The S3 bucket of result envelopes (RUN-18)."""

    results_bucket: str = variable(
        "DPP_RESULTS_BUCKET",
        "The bucket of result envelopes, and of clients' files for ocr.",
        min_length=3,
        max_length=63,
    )


class SigningSettings(Settings):
    """The role that signs result URLs (RUN-10); without one, the function's own credentials sign."""

    signing_role_arn: str | None = variable(
        "DPP_SIGNING_ROLE_ARN",
        "The role that signs the URLs of results; without one the function's own credentials sign.",
        None,
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$",
    )


class ModelSettings(Settings):
    """The language model of decision, eval and compliance runs. Without one, decisions are answered offline by quotes
    from the context (RUN-25)."""

    bedrock_model_id: str | None = variable(
        "DPP_DECISION_BEDROCK_MODEL_ID", "The Bedrock model that answers runs.", None
    )
    bedrock_output: Literal["tool", "json_schema", "text"] = variable(
        "DPP_DECISION_BEDROCK_OUTPUT",
        "How Bedrock's model is made to reply in JSON: a forced tool, the output configuration, or words "
        "alone. A model that refuses it is asked in words.",
        "tool",
    )
    openai_base_url: str | None = variable(
        "DPP_DECISION_OPENAI_BASE_URL",
        "The OpenAI-compatible endpoint that answers runs; needs a model.",
        None,
        pattern=r"^https?://",
    )
    openai_api_key: str | None = variable(
        "DPP_DECISION_OPENAI_API_KEY", "The key of the OpenAI-compatible endpoint, if it needs one.", None, repr=False
    )
    openai_model: str | None = variable(
        "DPP_DECISION_OPENAI_MODEL", "The model to request from the OpenAI-compatible endpoint.", None
    )
    openai_response_format: Literal["json_schema", "json_object", "text"] = variable(
        "DPP_DECISION_OPENAI_RESPONSE_FORMAT",
        "The response_format to request; an endpoint that refuses it is asked with the next simpler one.",
        "json_schema",
    )
    openai_token_limit_field: Literal["max_tokens", "max_completion_tokens"] = variable(
        "DPP_DECISION_OPENAI_TOKEN_LIMIT_FIELD",
        "The field with the reply's token limit; newer models of OpenAI take max_completion_tokens only.",
        "max_tokens",
    )
    temperature: str = variable(
        "DPP_DECISION_TEMPERATURE",
        "The model's temperature, 0 to 2; `none`: not sent, as some models require.",
        "0",
        pattern=r"^(none|[01](\.[0-9]{1,3})?|2)$",
    )
    thinking_tokens: int = variable(
        "DPP_DECISION_THINKING_TOKENS",
        "Tokens to add to a reply's limit for a model that reasons before it answers.",
        0,
        ge=0,
        le=32_000,
    )

    @property
    def uses_internet(self) -> bool:
        """True if the configured model is reached over the internet."""
        return bool(self.bedrock_model_id or self.openai_base_url)

    @model_validator(mode="after")
    def _endpoint_has_a_model(self) -> Self:
        if self.openai_base_url and not self.openai_model:
            raise ValueError("DPP_DECISION_OPENAI_MODEL: needed with DPP_DECISION_OPENAI_BASE_URL")
        return self


class OutsidePackSettings(Settings):
    """The function outside of the VPC that runs packs which use the internet; without one they run in the worker."""

    pack_outside_function: str | None = variable(
        "DPP_PACK_OUTSIDE_FUNCTION",
        "The function that runs packs which use the internet; without one they run in the worker.",
        None,
        min_length=1,
    )


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("not a time zone of the IANA database, such as Asia/Seoul") from None
    return name


class TimeZoneSettings(Settings):
    """The time zone of reports and receipts."""

    time_zone: Annotated[str, AfterValidator(_zone)] = variable(
        "DPP_TIME_ZONE", "The IANA time zone of reports, and of the cleanup's start at three o'clock.", "Asia/Seoul"
    )

    @property
    def zone(self) -> ZoneInfo:
        """The zone."""
        return ZoneInfo(self.time_zone)
