"""Configuration from environment variables (conventions, "Configuration")."""

import pytest
from pydantic import Field, ValidationError

from dpp.platform.config import (
    ConfigurationError,
    DatabaseBySecret,
    ModelSettings,
    PostgresSettings,
    QueueSettings,
    RedisBySecret,
    RedisSettings,
    Settings,
    StorageSettings,
)

_SECRET = "hunter2"
_GOOD = {
    "DATABASE_URL": f"postgresql://dpp:{_SECRET}@db:5432/dpp",
    "REDIS_URL": f"rediss://:{_SECRET}@cache:6379/0",
    "DPP_RUN_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/runs",
    "DPP_RESULTS_BUCKET": "results",
}


class _All(PostgresSettings, RedisSettings, QueueSettings, StorageSettings, ModelSettings):
    """Composed like a function's settings."""


class _Numbers(Settings):
    limit: int = Field(alias="DPP_LIMIT", ge=1)
    flag: bool = Field(default=False, alias="DPP_FLAG")


def test_a_composed_model_is_read_by_the_names_of_the_variables() -> None:
    """It reads each field's alias, and nothing else of the environment."""
    loaded = _All.load(_GOOD | {"PATH": "/bin", "database_url": "x"})
    assert loaded.database_url == _GOOD["DATABASE_URL"]
    assert (loaded.redis_cluster, loaded.results_bucket) == (False, "results")
    assert _All.load(_GOOD | {"DPP_REDIS_CLUSTER": "1"}).redis_cluster is True


def test_every_missing_variable_is_named_at_once() -> None:
    """So a deployment can be corrected in one step."""
    with pytest.raises(ConfigurationError) as refused:
        _All.load({})
    for name in _GOOD:
        assert name in str(refused.value)


@pytest.mark.parametrize("name", _GOOD)
def test_a_wrong_variable_is_named_without_its_value(name: str) -> None:
    """RUN-31: it may contain a password; neither the message nor its cause quotes it."""
    wrong = f"ftp:{_SECRET}" if name != "DPP_RESULTS_BUCKET" else _SECRET * 20
    with pytest.raises(ConfigurationError) as refused:
        _All.load(_GOOD | {name: wrong})
    assert name in str(refused.value)
    assert _SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(("name", "value"), [("DPP_LIMIT", "0"), ("DPP_LIMIT", "hunter2"), ("DPP_FLAG", "hunter2")])
def test_a_value_of_the_wrong_type_is_never_quoted(name: str, value: str) -> None:
    """RUN-31: for every type of field."""
    with pytest.raises(ConfigurationError) as refused:
        _Numbers.load({"DPP_LIMIT": "5"} | {name: value})
    assert name in str(refused.value)
    assert _SECRET not in str(refused.value)


def test_an_empty_value_counts_as_unset() -> None:
    """CloudFormation sets missing values to empty strings."""
    with pytest.raises(ConfigurationError, match="DATABASE_URL or DATABASE_HOST with DATABASE_SECRET_ARN: required"):
        _All.load(_GOOD | {"DATABASE_URL": ""})
    assert _All.load(_GOOD | {"DPP_REDIS_CLUSTER": ""}).redis_cluster is False


_BY_SECRET = {
    "DATABASE_HOST": "db",
    "DATABASE_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:1:secret:db",
    "REDIS_HOST": "cache",
    "REDIS_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:1:secret:cache",
}


def test_a_host_and_a_secret_replace_a_url() -> None:
    """PLAT-2: on AWS no password is in the environment; TLS is verified by default."""
    rest = {name: value for name, value in _GOOD.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    loaded = _All.load(rest | _BY_SECRET)
    database, cache = _BY_SECRET["DATABASE_SECRET_ARN"], _BY_SECRET["REDIS_SECRET_ARN"]
    assert loaded.database == DatabaseBySecret("db", 5432, "dpp", "verify-full", database)
    assert loaded.redis == RedisBySecret("cache", 6379, cache)
    assert _All.missing(rest | _BY_SECRET) == []


def test_a_url_wins_over_a_host_and_a_secret() -> None:
    """The local stack and the tests use it."""
    loaded = _All.load(_GOOD | _BY_SECRET)
    assert (loaded.database, loaded.redis) == (_GOOD["DATABASE_URL"], _GOOD["REDIS_URL"])


@pytest.mark.parametrize("half", _BY_SECRET)
def test_an_incomplete_address_is_refused(half: str) -> None:
    """A host without its secret is reported by name at start."""
    rest = {name: value for name, value in _GOOD.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    by_secret = {name: value for name, value in _BY_SECRET.items() if name != half}
    with pytest.raises(ConfigurationError, match=half):
        _All.load(rest | by_secret)


def test_the_text_of_a_model_has_no_secret() -> None:
    """RUN-31: a model may be logged."""
    loaded = _All.load(_GOOD | {"DPP_DECISION_OPENAI_API_KEY": _SECRET})
    assert _SECRET not in repr(loaded)
    assert _SECRET not in str(loaded)


def test_a_model_is_frozen() -> None:
    """It stays the same for the container's life."""
    with pytest.raises(ValidationError):
        _All.load(_GOOD).results_bucket = "other"  # type: ignore[misc]


def test_a_model_lists_the_variables_that_it_reads() -> None:
    """The CDK app uses the list, so that no name is typed twice."""
    assert _All.variables(required_only=True) == ("DPP_RESULTS_BUCKET", "DPP_RUN_QUEUE_URL")
    assert _All.missing({}) == [
        "DPP_RESULTS_BUCKET",
        "DPP_RUN_QUEUE_URL",
        "DATABASE_URL or DATABASE_HOST with DATABASE_SECRET_ARN",
        "REDIS_URL or REDIS_HOST with REDIS_SECRET_ARN",
    ]
    assert _All.missing(_GOOD) == []
    assert set(_All.variables()) > {"DPP_REDIS_CLUSTER", "DPP_DECISION_OPENAI_BASE_URL"}
    assert _Numbers.variables() == ("DPP_FLAG", "DPP_LIMIT")


def test_an_endpoint_without_its_model_fails_at_start_by_name() -> None:
    """RUN-25: an unusable decision engine is detected in the wiring, not in a client's run."""
    with pytest.raises(ConfigurationError, match="DPP_DECISION_OPENAI_MODEL: needed with"):
        ModelSettings.load({"DPP_DECISION_OPENAI_BASE_URL": "https://models.example"})
