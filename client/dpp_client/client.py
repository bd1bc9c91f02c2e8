"""The client: submit, get, wait, result."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from dpp_client.errors import (
    DppError,
    NoResult,
    ResultMismatch,
    ResultUnavailable,
    RunFailed,
    UnexpectedAnswer,
    WaitTimedOut,
)
from dpp_client.models import COMPLETED, FAILED, POLL_INTERVAL_MS, Receipt, Result, Run, StoredPart, StoredResult
from dpp_client.money import usd_text
from dpp_client.retry import Clock, OnRetry, persist
from dpp_client.wire import Wire

_IDEMPOTENCY_KEY = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{8,64}", re.ASCII)
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_SHORTEST_INTERVAL_SECONDS = 0.1
_SHORTEST_CALL_SECONDS = 1.0


class Client:
    """One tenant's way to the API. Threads may share it. Close it, or use it as a context manager.

    `timeout`: seconds for one call's connection, and for each pause in its answer. `retry_seconds`: how long a call
    that gets no answer, a 429 or a 5xx is made again, a submit with the same idempotency key; 0 is once. `on_retry`
    hears of each such error, and of the pause after it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        on_retry: OnRetry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raises ValueError where the URL or the key can't be one; nothing is sent yet."""
        self._wire = Wire(base_url, api_key, timeout=timeout, transport=transport)
        self._retry_seconds = retry_seconds
        self._on_retry = on_retry
        self._clock = clock or Clock()

    def __repr__(self) -> str:
        """Show the URL, never the key."""
        return f"Client({self._wire.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._wire.close()

    def submit(
        self,
        pack: str,
        inputs: Mapping[str, Any],
        max_cost_usd: Decimal | str,
        *,
        timebox_sec: int | None = None,
        min_reliability_score: float | None = None,
        inline: bool = False,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Submit a run that costs `max_cost_usd` at most. What is left out is as the API has it (docs/packs.md).

        One call is one run, however often it has to be sent: each try has the same `idempotency_key`, a random one if
        none is given. Raises TypeError and ValueError before anything is sent, DppError with that key on it after.
        """
        reservation = {
            "max_cost_usd": usd_text(max_cost_usd),
            "timebox_sec": timebox_sec,
            "min_reliability_score": min_reliability_score,
        }
        body: dict[str, Any] = {
            "pack_type": pack,
            "inputs": dict(inputs),
            "reservation": {name: value for name, value in reservation.items() if value is not None},
            **({"options": {"inline": 1}} if inline else {}),
            **({"meta": {"trace_id": trace_id}} if trace_id is not None else {}),
        }
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        key = _checked_idempotency_key(idempotency_key) if idempotency_key is not None else str(uuid4())
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        try:
            document, answered = self._persist(
                lambda: self._wire.call("POST", "/v1/runs", headers=headers, content=content)
            )
            receipt = _read(Receipt, document)
        except DppError as error:
            error.idempotency_key = key
            raise
        replayed = answered.get("Idempotent-Replayed", "").lower() == "true"
        return receipt.model_copy(update={"idempotency_key": key, "replayed": replayed})

    def get(self, run_id: str) -> Run:
        """The run as it stands. Raises DppError: RunNotFound, RunExpired and the usual."""
        path = _path(run_id)
        return self._persist(lambda: self._look(path))

    def wait(
        self, run: Receipt | Run | str, *, timeout: float = 300.0, on_look: Callable[[Run], None] | None = None
    ) -> Run:
        """The run once it is over, COMPLETED or FAILED: a failure is an answer, and `result` raises it.

        Asks at the interval that the receipt recommends, later where the API says so, and goes on while it doesn't
        answer. Raises WaitTimedOut after `timeout` seconds, and of what `get` raises that which lasts. `on_look` sees
        each answer.
        """
        run_id = run if isinstance(run, str) else run.run_id
        path, seen = _path(run_id), None
        recommended_ms = run.poll.recommended_interval_ms if isinstance(run, Receipt) else POLL_INTERVAL_MS
        interval = max(_SHORTEST_INTERVAL_SECONDS, recommended_ms / 1000)
        deadline = self._clock.now() + timeout
        while True:
            seen = self._look_until(deadline, path, run_id, seen)
            if on_look is not None:
                on_look(seen)
            if seen.is_over:
                return seen
            left = deadline - self._clock.now()
            if left <= 0:
                raise _timed_out(run_id, seen)
            self._clock.sleep(min(interval, left))

    def result(self, run: Run, *, failed: bool = False) -> Result:
        """The envelope of a completed run, verified by its SHA-256; with `failed`, that of a failed run, too.

        The envelope of a failed run has the `problem` in its data, beside what the pack found nevertheless.

        Taken from the answer itself if it is there, else from the storage, with the parts of a large envelope. If the
        storage refuses a URL, as it does after ten minutes, the API is asked for fresh ones, once. Raises RunFailed and
        NoResult for a run that has none, ResultMismatch, ResultUnavailable, and what `get` raises.
        """
        stored = _stored(run, failed=failed)
        try:
            return self._fetch(run.run_id, stored)
        except ResultUnavailable:
            return self._fetch(run.run_id, _stored(self.get(run.run_id), failed=failed))

    def _persist[Answer](self, attempt: Callable[[], Answer]) -> Answer:
        until = self._clock.now() + self._retry_seconds
        return persist(attempt, until=until, clock=self._clock, on_retry=self._on_retry)

    def _look(self, path: str, within: float | None = None) -> Run:
        return _read(Run, self._wire.call("GET", path, within=within)[0])

    def _look_until(self, deadline: float, path: str, run_id: str, seen: Run | None) -> Run:
        """One look of a wait, which bears what is temporary until its own end."""

        def look() -> Run:
            return self._look(path, max(_SHORTEST_CALL_SECONDS, deadline - self._clock.now()))

        try:
            return persist(look, until=deadline, clock=self._clock, on_retry=self._on_retry)
        except DppError as error:
            if error.temporary:
                raise _timed_out(run_id, seen) from error
            raise

    def _fetch(self, run_id: str, stored: StoredResult) -> Result:
        raw = _inline_bytes(stored)
        if raw is None:
            raw = self._download(run_id, stored)
        envelope = _parsed(run_id, raw)
        if not isinstance(envelope, dict):
            raise UnexpectedAnswer("The result is no JSON object.", run_id=run_id)
        for part in stored.parts:
            section, _, member = part.name.partition(".")
            if not isinstance(envelope.get(section), dict):
                raise UnexpectedAnswer("The result has no place for one of its parts.", run_id=run_id)
            envelope[section][member] = _parsed(run_id, self._download(run_id, part))
        return Result(run_id, stored.sha256, raw, envelope)

    def _download(self, run_id: str, stored: StoredResult | StoredPart) -> bytes:
        raw = self._persist(lambda: self._wire.fetch(stored.presigned_url))
        found = hashlib.sha256(raw).hexdigest()
        if found != stored.sha256:
            raise ResultMismatch(
                f"The result has the SHA-256 {found}, but the API announced {stored.sha256}; do not use it.",
                run_id=run_id,
            )
        return raw


def _read[Model: BaseModel](model: type[Model], document: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, one["loc"])) for one in error.errors(include_input=False))
        raise UnexpectedAnswer(f"The answer is no {model.__name__}: see {places}.") from None


def _path(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError("that is no run's id")
    return f"/v1/runs/{run_id}"


def _checked_idempotency_key(key: str) -> str:
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise ValueError("an idempotency key is 8 to 64 visible ASCII characters without quote and backslash")
    return key


def _timed_out(run_id: str, seen: Run | None) -> WaitTimedOut:
    stands = "was not reached" if seen is None else f"is {seen.status}"
    error = WaitTimedOut(f"The run {stands}, and the time to wait is up. It goes on: wait again.", run_id=run_id)
    error.run = seen
    return error


def _stored(run: Run, *, failed: bool) -> StoredResult:
    if run.status == FAILED and not (failed and run.result):
        problem = run.problem
        raise RunFailed(
            problem.detail if problem else None,
            reason_code=problem.reason_code if problem else None,
            run_id=run.run_id,
            trace_id=run.meta.trace_id or None,
        )
    if run.status not in {COMPLETED, FAILED} or run.result is None:
        raise NoResult(f"The run has no result: it is {run.status}, {run.money_state}.", run_id=run.run_id)
    return run.result


def _inline_bytes(stored: StoredResult) -> bytes | None:
    """The envelope in the answer as the platform writes it; None where that is not what was stored, digit for digit."""
    if stored.inline is None:
        return None
    try:
        written = json.dumps(stored.inline, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return None
    return written if hashlib.sha256(written).hexdigest() == stored.sha256 else None


def _parsed(run_id: str, raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer("The result is no JSON.", run_id=run_id) from None
