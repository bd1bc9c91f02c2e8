"""Named queries, identifiers, readiness, retries and logs."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.platform.db.sql import Queries
from dpp.platform.errors import DependencyUnavailable, QueueUnavailable, RedisUnavailable
from dpp.platform.ids import new_id, parse_uuid, trace_id_from
from dpp.platform.observability.health import readiness
from dpp.platform.retry import with_retries
from tests.support.crashable import all_queries


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """An empty package for query files."""
    name = f"queries_{uuid4().hex}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return name, folder / "q.sql"


@pytest.mark.parametrize("queries", all_queries(), ids=lambda queries: queries.names()[0])
def test_every_query_has_a_comment_and_named_parameters(queries: Queries) -> None:
    for name in queries.names():
        assert queries[name].startswith("-- "), name
        assert queries[name].count("%(") == queries[name].count(")s"), "parameters are named"


def test_a_query_is_found_by_its_name(package: tuple[str, Path]) -> None:
    """Queries have the file's order; an unknown name is an error."""
    package[1].write_text(
        "-- about the file\n\n-- name: one\n-- First.\nSELECT 1\n\n-- name: two\n-- Second.\nSELECT 2\n"
    )
    queries = Queries(package[0], "q.sql")
    assert queries.names() == ("one", "two")
    assert queries["two"] == "-- Second.\nSELECT 2"
    with pytest.raises(KeyError):
        queries["three"]


def test_a_list_of_columns_replaces_its_name_in_all_files(package: tuple[str, Path]) -> None:
    """The list itself is not a query."""
    package[1].write_text("-- name: one\nSELECT {run.*}, c FROM runs\n\n-- columns: run\na,\nb\n")
    package[1].with_name("more.sql").write_text("-- name: two\nSELECT {run.*} FROM more\n")
    queries = Queries(package[0], "more.sql", "q.sql")
    assert queries.names() == ("two", "one")
    assert queries["one"] == "SELECT a,\nb, c FROM runs"
    assert queries["two"] == "SELECT a,\nb FROM more"


@pytest.mark.parametrize(
    "text",
    [
        "-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n",
        "-- name: one\nSELECT 1\n-- name: the-other\nSELECT 2\n",
        "-- name: one \nSELECT 1\n",
        "  -- name: one\nSELECT 1\n",
        "-- columns: run\na\n-- columns: run\nb\n",
        "-- columns: the-run\na, b\n",
        "-- name: one\nSELECT {run.*} FROM runs\n",
    ],
)
def test_a_file_with_malformed_heads_is_refused(package: tuple[str, Path], text: str) -> None:
    """A head without a name would append its block to the previous one; columns are in their own file."""
    package[1].write_text(text)
    with pytest.raises(ValueError, match=r"q\.sql"):
        Queries(package[0], "q.sql")


@given(st.uuids())
def test_a_canonical_uuid_is_parsed(value: UUID) -> None:
    """D13: lower or upper case."""
    assert parse_uuid(str(value)) == value
    assert parse_uuid(str(value).upper()) == value


@pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", "%s\n", " %s", "%s0", "%s%%00"])
def test_no_other_form_of_a_uuid_is_parsed(form: str) -> None:
    """D13: and none raises an error."""
    text = str(uuid4())
    assert parse_uuid(form % text) is None
    assert parse_uuid(text.replace("-", "")) is None
    assert parse_uuid(text[:-1] + "\uff11") is None
    assert parse_uuid("") is None


@given(st.text(max_size=80))
def test_any_text_is_a_uuid_or_none(text: str) -> None:
    """D13."""
    assert parse_uuid(text) is None or len(text) == 36


def test_a_new_id_is_random() -> None:
    """RUN-11: version 4, so that ids cannot be guessed."""
    assert {new_id().version for _ in range(100)} == {4}
    assert len({new_id() for _ in range(100)}) == 100


@pytest.mark.parametrize("header", ["t_1", "a" * 64, "00-4bf92f-01", "A.b:c_d-e"])
def test_a_valid_trace_id_is_used(header: str) -> None:
    """RUN-3: so that the client can find its request."""
    assert trace_id_from(header) == header


@pytest.mark.parametrize("header", [None, "", "a" * 65, "a b", "a\n", "a\r\nX: y", "é", "a\x00", '"a"', "１"])
def test_an_invalid_trace_id_is_replaced(header: str | None) -> None:
    """RUN-31: it could break a log line or a header."""
    made = trace_id_from(header)
    assert made != header
    assert trace_id_from(made) == made


def test_readiness_probes_every_dependency(caplog: pytest.LogCaptureFixture) -> None:
    """RUN-32: and reports which did not answer."""
    asked = []

    def probe(name: str, error: DependencyUnavailable | None = None) -> None:
        asked.append(name)
        if error is not None:
            raise error

    with caplog.at_level(logging.CRITICAL, "dpp.health"):
        answers = readiness(
            {
                "redis": lambda: probe("redis", RedisUnavailable("TimeoutError")),
                "postgres": lambda: probe("postgres"),
                "sqs": lambda: probe("sqs", QueueUnavailable()),
            }
        )
    assert answers == {"redis": False, "postgres": True, "sqs": False}
    assert sorted(asked) == ["postgres", "redis", "sqs"]  # concurrently, in any order


def test_a_defect_of_a_probe_is_raised() -> None:
    """Errors: only expected exceptions are caught."""

    def defect() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        readiness({"redis": defect})


@pytest.mark.parametrize(("failures", "slept"), [(0, []), (1, [0.2]), (3, [0.2, 1.0, 3.0])])
def test_a_step_is_retried_after_each_pause(failures: int, slept: list[float]) -> None:
    """D3: until it succeeds."""
    pauses: list[float] = []
    left = iter([RedisUnavailable()] * failures)

    def step() -> str:
        for error in left:
            raise error
        return "done"

    assert with_retries(step, sleep=pauses.append) == "done"
    assert pauses == slept


def test_retries_end_with_the_last_error_and_defects_are_not_retried() -> None:
    """D3: reconcile does the rest."""
    pauses: list[float] = []

    def down() -> None:
        raise QueueUnavailable("x")

    def defect() -> None:
        raise ZeroDivisionError

    with pytest.raises(QueueUnavailable):
        with_retries(down, sleep=pauses.append)
    assert pauses == [0.2, 1.0, 3.0]
    with pytest.raises(ZeroDivisionError):
        with_retries(defect, sleep=pauses.append)
    assert len(pauses) == 3


_LOGGING = """
import logging
from dpp.platform.observability.logging import service_logger
service_logger("worker")
logging.getLogger("dpp.runs.finalize").info("run ended", extra={
    "run_id": "r", "tenant_id": "t", "trace_id": "x", "version_before": 1, "version_after": 2,
    "finalize_stage": "COMMITTED", "money_state": "SETTLED", "charge_usd_micros": 10**14,
    "error": {"reason_code": "WORKER_TIMEOUT"}})
logging.getLogger("dpp.runs.finalize").debug("not shown")
logging.getLogger("elsewhere").info("not ours")
"""


def test_a_domain_modules_line_is_one_json_object_with_the_specified_fields() -> None:
    """RUN-31: module loggers use the function's handler, and amounts stay integers."""
    done = subprocess.run([sys.executable, "-c", _LOGGING], capture_output=True, text=True, check=True)
    [line] = done.stdout.splitlines()
    logged = json.loads(line)
    expected = {
        "service": "worker",
        "level": "INFO",
        "message": "run ended",
        "run_id": "r",
        "tenant_id": "t",
        "trace_id": "x",
        "version_before": 1,
        "version_after": 2,
        "finalize_stage": "COMMITTED",
        "money_state": "SETTLED",
        "charge_usd_micros": 10**14,
        "error": {"reason_code": "WORKER_TIMEOUT"},
    }
    assert {name: logged.get(name) for name in expected} == expected
    assert "timestamp" in logged
