"""The url pack: fetches up to 30 public URLs at once and says of each what became of it (RUN-26)."""

import functools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import httpcore
import httpx
from pydantic import JsonValue

from dpp.packs.contract import PackRequest, PackSuccess
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.prices import url_cost_usd_micros
from dpp.packs.timebox import deadline_of
from dpp.packs.url.fetch import Fetcher, Limits, Page
from dpp.packs.url.network import system_resolver
from dpp.packs.url.reader import PageReader, Reading
from dpp.packs.url.reasons import BlockedError, Discard, DiscardedError
from dpp.packs.url.robots import Robots
from dpp.packs.url.target import Target
from dpp.packs.url.text import Text, is_readable

CONCURRENT_FETCHES = 6

_RESERVE_SHARE = 0.25
_RESERVE_SECONDS = 1.0
"""Kept of the timebox, so that what was fetched is handed over and not lost to the last slow server."""

_GRACE_SECONDS = 0.1
"""For a page that is read at the deadline: what was found by then is taken."""

_NO_TEXT = Reading(Text(), cut=False)

Log = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one URL: a result, log entries, or both if something of it is missing."""

    result: Log | None = None
    discarded: tuple[Log, ...] = ()
    blocked: Log | None = None
    body_bytes: int = 0
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    inputs: UrlInputs
    fetcher: Fetcher
    reader: PageReader
    admit: Callable[[Target], None]
    deadline: float


@functools.cache
def default_fetcher() -> Fetcher:
    """The real network: the machine's resolver, certificates verified, no proxy and nothing from the environment."""
    return Fetcher(
        resolver=system_resolver, dialer=httpcore.SyncBackend(), ssl_context=httpx.create_ssl_context(trust_env=False)
    )


def run(
    inputs: UrlInputs, request: PackRequest, *, fetcher: Fetcher | None = None, reader: PageReader | None = None
) -> PackSuccess:
    """Fetch within the timebox; what is not done by then is in the discard log as TIMEOUT."""
    deadline = deadline_of(request, reserve_seconds=_RESERVE_SECONDS, reserve_share=_RESERVE_SHARE)
    network = fetcher or default_fetcher()
    with nullcontext(reader) if reader else PageReader() as running:
        fetched = _fetched(_Job(inputs, network, running, _admit(inputs, network, deadline), deadline))
    outcomes = _skipped(inputs) + fetched
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    return PackSuccess(
        data={"results": list(results)},
        discard_log=[entry for outcome in outcomes for entry in outcome.discarded],
        blocked_log=[outcome.blocked for outcome in outcomes if outcome.blocked is not None],
        reliability_score=sum(outcome.succeeded for outcome in fetched) / len(fetched),
        cost_usd_micros=url_cost_usd_micros(
            fetched_urls=len(results), body_bytes=sum(outcome.body_bytes for outcome in outcomes)
        ),
    )


def _admit(inputs: UrlInputs, fetcher: Fetcher, deadline: float) -> Callable[[Target], None]:
    """Return what raises for a page that may not be fetched, asked before each hop."""
    if inputs.robots == "ignore":
        return lambda _target: None

    def fetch(url: str) -> Page:
        return fetcher.fetch(url, replace(_limits(inputs, deadline), max_redirect_hops=5), wanted=lambda _type: True)

    return Robots(fetch).admit


def _limits(inputs: UrlInputs, deadline: float) -> Limits:
    return Limits(
        deadline=min(deadline, time.monotonic() + inputs.fetch_timeout_sec),
        max_redirect_hops=inputs.max_redirect_hops,
        plain_http_allowed=inputs.plain_http_allowed,
    )


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
        wait(futures, timeout=max(0.0, job.deadline + _GRACE_SECONDS - time.monotonic()))
        return [_settled(future, url) for future, url in zip(futures, urls, strict=True)]
    finally:
        # Not waiting: each thread ends by its own deadline, and the process ends with its job.
        pool.shutdown(wait=False, cancel_futures=True)


def _settled(future: "Future[_Outcome]", url: str) -> _Outcome:
    return future.result() if future.done() else _discarded(url, Discard.TIMEOUT)


def _outcome(job: _Job, url: str) -> _Outcome:
    try:
        page = job.fetcher.fetch(url, _limits(job.inputs, job.deadline), wanted=is_readable, admit=job.admit)
        reading: Reading | None = _NO_TEXT
        if is_readable(page.content_type):
            reading = job.reader.read(page.content_type, page.final_url, page.body, deadline=job.deadline)
    except DiscardedError as error:
        return _discarded(url, error.reason, hop_url=error.hop_url)
    except BlockedError as error:
        entry: Log = {"url": url, "resolved_ip": error.resolved_ip, "reason": error.reason}
        return _Outcome(blocked=_with_hop(entry, error.hop_url))
    except MemoryError:
        raise  # the process is at its limit; no other page would fare better
    except Exception:  # noqa: BLE001 - a stranger's page must not cost the client the other twenty-nine
        return _discarded(url, Discard.INTERNAL_ERROR)
    return _fetched_page(url, page, reading)


def _fetched_page(url: str, page: Page, reading: Reading | None) -> _Outcome:
    result: Log = {
        "url": url,
        "final_url": page.final_url,
        "status_code": page.status_code,
        "content_type": page.content_type,
        "fetched_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    text = reading.text if reading else Text()
    said = {
        "title": text.title,
        "language": text.language,
        "canonical_url": text.canonical_url,
        "published_at": text.published_at,
        "text_excerpt": text.excerpt,
        "excerpt_of": text.excerpt_of,
    }
    result.update({name: value for name, value in said.items() if value is not None})
    missing = {
        Discard.CONTENT_TOO_LARGE: page.too_large,
        Discard.CONTENT_CUT: page.cut,
        Discard.TEXT_NOT_READ: reading is None or reading.cut,
    }
    discarded = tuple[Log, ...]({"url": url, "reason": reason} for reason, applies in missing.items() if applies)
    if discarded:
        result["marks"] = ["TRUNCATED"]
    return _Outcome(result=result, discarded=discarded, body_bytes=len(page.body), succeeded=reading is not None)


def _discarded(url: str, reason: Discard, *, hop_url: str | None = None) -> _Outcome:
    return _Outcome(discarded=(_with_hop({"url": url, "reason": reason}, hop_url),))


def _with_hop(entry: Log, hop_url: str | None) -> Log:
    return entry if hop_url is None else {**entry, "hop_url": hop_url}
