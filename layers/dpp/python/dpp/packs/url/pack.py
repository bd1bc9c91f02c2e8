"""The url pack: fetches up to 30 public URLs at once and says of each what became of it (RUN-26)."""

import functools
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime

import httpcore
import httpx
from pydantic import JsonValue

from dpp.packs.contract import PackRequest, PackSuccess
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.prices import url_cost_usd_micros
from dpp.packs.url.extract import Text, extract, is_readable
from dpp.packs.url.fetch import Fetcher, Limits, Page
from dpp.packs.url.network import system_resolver
from dpp.packs.url.reasons import NOT_ATTEMPTED, BlockedError, Discard, DiscardedError

CONCURRENT_FETCHES = 6

_RESERVE_SHARE = 0.25
_RESERVE_SECONDS = 1.0
"""Kept of the timebox, so that what was fetched is handed over and not lost to the last slow server."""

Log = dict[str, JsonValue]


@dataclass(slots=True)
class _Outcome:
    """The outcome of one URL: a result, a log entry, or both if it was truncated."""

    result: Log | None = None
    discarded: Log | None = None
    blocked: Log | None = None
    body_bytes: int = 0

    @property
    def failed(self) -> bool:
        """Return whether it was attempted in vain."""
        if self.result is not None or self.discarded is None:
            return False
        return self.discarded["reason"] not in NOT_ATTEMPTED


@dataclass(frozen=True, slots=True)
class _Job:
    inputs: UrlInputs
    fetcher: Fetcher
    deadline: float


@functools.cache
def default_fetcher() -> Fetcher:
    """The real network: the machine's resolver, certificates verified, no proxy and nothing from the environment."""
    return Fetcher(
        resolver=system_resolver, dialer=httpcore.SyncBackend(), ssl_context=httpx.create_ssl_context(trust_env=False)
    )


def run(inputs: UrlInputs, request: PackRequest, *, fetcher: Fetcher | None = None) -> PackSuccess:
    """Fetch within the timebox; what is not done by then is in the discard log as TIMEOUT."""
    reserve = min(_RESERVE_SECONDS, _RESERVE_SHARE * request.timebox_sec)
    deadline = time.monotonic() + request.timebox_sec - reserve
    job = _Job(inputs, fetcher or default_fetcher(), deadline)
    outcomes = _skipped(inputs) + _fetched(job)
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    return PackSuccess(
        data={"results": list(results)},
        discard_log=[outcome.discarded for outcome in outcomes if outcome.discarded is not None],
        blocked_log=[outcome.blocked for outcome in outcomes if outcome.blocked is not None],
        reliability_score=_reliability(outcomes),
        cost_usd_micros=url_cost_usd_micros(
            fetched_urls=len(results), body_bytes=sum(outcome.body_bytes for outcome in outcomes)
        ),
    )


def _reliability(outcomes: Sequence[_Outcome]) -> float:
    """The share of the URLs really attempted that have a result; 1 where none was attempted.

    A URL that the rules refused (blocked, malformed, said twice …) was the client's to mend and isn't counted.
    """
    succeeded = sum(outcome.result is not None for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    return succeeded / (succeeded + failed) if succeeded or failed else 1.0


def _wanted(inputs: UrlInputs) -> list[str]:
    return list(dict.fromkeys(inputs.urls))[: inputs.max_urls]


def _skipped(inputs: UrlInputs) -> list[_Outcome]:
    unique = list(dict.fromkeys(inputs.urls))
    beyond = [_discarded(url, Discard.MAX_URLS_EXCEEDED) for url in unique[inputs.max_urls :]]
    seen: set[str] = set()
    repeated = []
    for url in inputs.urls:
        if url in seen:
            repeated.append(_discarded(url, Discard.DUPLICATE_URL))
        seen.add(url)
    return repeated + beyond


def _fetched(job: _Job) -> list[_Outcome]:
    urls = _wanted(job.inputs)
    pool = ThreadPoolExecutor(max_workers=min(CONCURRENT_FETCHES, len(urls)), thread_name_prefix="fetch")
    try:
        futures = [pool.submit(_outcome, job, url) for url in urls]
        wait(futures, timeout=max(0.0, job.deadline - time.monotonic()))
        return [_settled(future, url) for future, url in zip(futures, urls, strict=True)]
    finally:
        # Not waiting: each thread ends by its own deadline, and the process ends with its job.
        pool.shutdown(wait=False, cancel_futures=True)


def _settled(future: "Future[_Outcome]", url: str) -> _Outcome:
    return future.result() if future.done() else _discarded(url, Discard.TIMEOUT)


def _outcome(job: _Job, url: str) -> _Outcome:
    limits = Limits(
        deadline=min(job.deadline, time.monotonic() + job.inputs.fetch_timeout_sec),
        max_redirect_hops=job.inputs.max_redirect_hops,
        plain_http_allowed=job.inputs.plain_http_allowed,
    )
    try:
        page = job.fetcher.fetch(url, limits, wanted=is_readable)
        text = extract(page.content_type, page.body)
    except DiscardedError as error:
        return _discarded(url, error.reason, hop_url=error.hop_url)
    except BlockedError as error:
        entry: Log = {"url": url, "resolved_ip": error.resolved_ip, "reason": error.reason}
        return _Outcome(blocked=_with_hop(entry, error.hop_url))
    except MemoryError:
        raise  # the process is at its limit; no other page would fare better
    except Exception:  # noqa: BLE001 - a stranger's page must not cost the client the other twenty-nine
        return _discarded(url, Discard.INTERNAL_ERROR)
    return _succeeded(url, page, text)


def _succeeded(url: str, page: Page, text: Text) -> _Outcome:
    result: Log = {
        "url": url,
        "final_url": page.final_url,
        "status_code": page.status_code,
        "content_type": page.content_type,
        "fetched_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    if text.title is not None:
        result["title"] = text.title
    if text.excerpt is not None:
        result["text_excerpt"] = text.excerpt
    outcome = _Outcome(result=result, body_bytes=len(page.body))
    if page.truncated:
        result["marks"] = ["TRUNCATED"]
        outcome.discarded = {"url": url, "reason": Discard.CONTENT_TOO_LARGE}
    return outcome


def _discarded(url: str, reason: Discard, *, hop_url: str | None = None) -> _Outcome:
    return _Outcome(discarded=_with_hop({"url": url, "reason": reason}, hop_url))


def _with_hop(entry: Log, hop_url: str | None) -> Log:
    return entry if hop_url is None else {**entry, "hop_url": hop_url}
