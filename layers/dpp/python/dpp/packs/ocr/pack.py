"""The ocr pack: images to text, with what is in doubt shown as such (RUN-27)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.ocr import artifacts, images, sources
from dpp.packs.ocr.artifacts import TextPage
from dpp.packs.ocr.boxes import PageBoxes, boxes_that_fit, json_bytes
from dpp.packs.ocr.engine import Engine, find_trained_data
from dpp.packs.ocr.faults import WHAT_TO_DO, ImageFault, ImageFaultError, OutOfTimeError
from dpp.packs.ocr.isolation import Opened, read_apart, share_of
from dpp.packs.ocr.marks import Tally
from dpp.packs.ocr.outcome import Json, LostPages, Outcome, ReadPage, read_page_report
from dpp.packs.ocr.pages import LostPage, Page, Pages
from dpp.packs.ocr.profiles import PROFILES, Profile
from dpp.packs.ocr.reading import read_page
from dpp.packs.ocr.settings import OcrSettings
from dpp.packs.ocr.stated import without_buttons
from dpp.packs.prices import ocr_cost_usd_micros
from dpp.packs.timebox import deadline_of

MAX_TEXT_BYTES = 2_000_000
"""Of the texts as JSON: 50 pages of 40 KB, of which dense print has 5."""
_MAX_ANSWER_BYTES = 7_500_000
"""Of all as JSON. The rest of frames.MAX_ANSWER_BYTES is room for what the estimate leaves out."""
MAX_NOTES = 500
_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 1.5
"""Kept of the timebox for handing over what was read."""
_NOT_COUNTED = frozenset({ImageFault.MAX_PAGES, ImageFault.MAX_COST, ImageFault.ANIMATION})
"""Limits set by the client, and frames that are no pages, do not lower the result's reliability."""


@dataclass(slots=True)
class _Work:
    """The state of a job: pages read, discarded and left."""

    texts: list[JsonValue] = field(default_factory=list)
    text_pages: list[TextPage] = field(default_factory=list)
    text_bytes: int = 0
    boxes: list[PageBoxes] = field(default_factory=list)
    notes: dict[str, JsonValue] = field(default_factory=dict)
    discarded: list[Json] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    pages: int = 0
    lost_pages: int = 0
    pixels: int = 0
    unreadable_pages: int = 0

    def lose(self, source: str, fault: ImageFault, page: int | None = None, pages: int = 1) -> None:
        """Enter a page, or several from `page` on, in the discard log."""
        entry: Json = {"source": source, "reason": fault}
        if page is not None:
            entry["page"] = page
        if pages > 1:
            entry["pages"] = pages
        self.discarded.append(entry)
        self.lost_pages += 0 if fault in _NOT_COUNTED else pages


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the pages of files, in the process that `isolation` makes for each."""

    engine: Engine
    profile: Profile
    deadline: float
    max_cost_usd_micros: int

    def opened(self, data: bytes, most: int, spent: "_Work", number: int) -> Opened:
        """Open a file to read its pages from `number` on, at most `most` in all. Raises ImageFaultError."""
        found = images.pages(data, most, self.deadline, number - 1)
        return Opened(found.count, self._outcomes(found, spent, number))

    def _outcomes(self, found: Pages, spent: "_Work", first: int) -> Iterator[Outcome]:
        pages, pixels, number = spent.pages, spent.pixels, first
        for page in found:
            if isinstance(page, Page) and not self.may_read(pages, pixels + page.pixels):
                left = max(1, found.count - (number - first))
                yield LostPages(number=number, fault=ImageFault.MAX_COST, pages=left)
                return
            outcome = self._outcome(page, number)
            yield outcome
            if isinstance(outcome, ReadPage):
                pages, pixels, number = pages + 1, pixels + outcome.pixels, number + 1
            else:
                number += outcome.pages

    def may_read(self, pages: int, pixels: int) -> bool:
        """Return whether one more than `pages`, of `pixels` with it, is within the price. One page always is."""
        return pages == 0 or ocr_cost_usd_micros(pages=pages + 1, pixels=pixels) <= self.max_cost_usd_micros

    def _outcome(self, page: Page | LostPage, number: int) -> Outcome:
        if isinstance(page, LostPage):
            return LostPages(number=number, fault=page.fault, pages=page.pages)
        try:
            reading = read_page(self.engine, without_buttons(page), self.profile, self.deadline)
            return read_page_report(number, page, reading)
        except OutOfTimeError:
            fault = ImageFault.TIMEBOX
        except MemoryError:
            fault = ImageFault.TOO_MUCH_MEMORY
        except Exception:  # noqa: BLE001 - a bug that one page brings out must not cost the others
            fault = ImageFault.INTERNAL_ERROR
        return LostPages(number=number, fault=fault)


def run(
    inputs: OcrInputs, request: PackRequest, settings: OcrSettings, *, fetch: sources.Fetch = sources.fetch_object
) -> PackResult:
    """Read every page within the timebox; what was not reached is in the discard log.

    A failure only where nothing could be read at all. Raises ConfigurationError without trained data.
    """
    deadline = deadline_of(request, reserve_seconds=_RESERVE_SECONDS, reserve_share=_RESERVE_SHARE)
    work = _Work()
    with Engine(find_trained_data(settings.trained_data), inputs.language) as engine:
        engine.load()
        reader = _Reader(engine, PROFILES[inputs.ocr_profile], deadline, request.max_cost_usd_micros)
        for number, image in enumerate(inputs.images):
            source = image.key or f"images[{number}]"
            # Pages that were lost are not counted: a file that only claims to have some takes none from the others.
            left = inputs.max_pages - work.pages
            if left <= 0:
                work.lose(source, ImageFault.MAX_PAGES)
                continue
            if not reader.may_read(work.pages, work.pixels + 1):
                work.lose(source, ImageFault.MAX_COST)
                continue
            is_last = number + 1 == len(inputs.images)
            try:
                data = sources.load(image, request.object_urls, share_of(deadline, is_alone=is_last), fetch)
                images.load_reader(data)
                open_from = partial(reader.opened, data, left, work)
                for outcome in read_apart(open_from, deadline, is_last=is_last):
                    _enter(work, source, number, outcome)
            except ImageFaultError as error:
                is_early = error.fault is ImageFault.TIMEBOX and time.monotonic() < deadline
                work.lose(source, ImageFault.TOO_SLOW if is_early else error.fault)
    return _result(inputs, work) if work.pages else _failure(work)


def _enter(work: _Work, source: str, image: int, outcome: Outcome) -> None:
    """Add a page that was read to the result, unless the result is full."""
    if isinstance(outcome, LostPages):
        work.lose(source, outcome.fault, outcome.number, outcome.pages)
        return
    text: Json = {"source": source, "page": outcome.number, **outcome.text}
    size = json_bytes(text)
    if work.text_bytes + size > MAX_TEXT_BYTES:
        work.lose(source, ImageFault.OUTPUT_LIMIT, outcome.number)
        return
    work.texts.append(text)
    work.text_bytes += size
    work.text_pages.append(TextPage.of(source, outcome.number, text))
    work.boxes.append(PageBoxes(image, outcome.number, outcome.words, outcome.tables))
    work.pages += 1
    work.pixels += outcome.pixels
    work.unreadable_pages += outcome.is_unreadable
    work.tally.add(outcome.tally)
    for word in outcome.doubtful:
        note: Json = {"type": "VERIFY_SPELLING", "value": word, "source": source, "page": outcome.number}
        work.notes.setdefault(word, note)


def _reliability(work: _Work) -> float:
    """The mean confidence by characters, times the share of the pages that were read.

    Unreadable characters count 0. A blank page has no character and changes nothing; a page with ink of which no
    character could be made counts as one that was not read. Blank pages alone are 1.
    """
    mean = work.tally.mean
    readable = work.pages - work.unreadable_pages
    return round((1.0 if mean is None else mean) * readable / (work.pages + work.lost_pages), 6)


def _result(inputs: OcrInputs, work: _Work) -> PackSuccess:
    notes = list(work.notes.values())[:MAX_NOTES]
    room = _MAX_ANSWER_BYTES - work.text_bytes - json_bytes([notes, work.discarded])
    # A letter of an artifact may take two bytes in JSON: line ends and quotes are escaped.
    made = artifacts.make(inputs.artifacts, work.text_pages, room * 4 // 5)
    room -= json_bytes(made)
    data: Json = {
        "texts": work.texts,
        **boxes_that_fit(work.boxes, room),
        "notes": notes,
        "omitted_notes": len(work.notes) - len(notes),
        "ocr_profile": inputs.ocr_profile,
        "language": inputs.language,
        "pages": work.pages,
    }
    return PackSuccess(
        data=data,
        artifacts=made,
        discard_log=work.discarded,
        reliability_score=_reliability(work),
        cost_usd_micros=ocr_cost_usd_micros(pages=work.pages, pixels=work.pixels),
    )


def _failure(work: _Work) -> PackFailure:
    """No page was read: the client's to mend, the store's, or a matter of time."""
    first = ImageFault(str(work.discarded[0]["reason"]))
    faults = {entry["reason"] for entry in work.discarded}
    if faults & {ImageFault.OBJECT_UNAVAILABLE, ImageFault.INTERNAL_ERROR}:
        reason = PackReason.PACK_FAILED
    elif faults & {ImageFault.TIMEBOX, ImageFault.TOO_SLOW}:
        reason = PackReason.PACK_TIMEBOX_EXCEEDED
    else:
        reason = PackReason.PACK_INPUTS_INVALID
    advice = f": {WHAT_TO_DO[first]}" if first in WHAT_TO_DO else ""
    detail = f"no page could be read; the first: {first}{advice}"
    return PackFailure(reason_code=reason, detail=detail, discard_log=work.discarded)
