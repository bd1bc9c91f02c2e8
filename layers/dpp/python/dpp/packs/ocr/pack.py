"""The ocr pack: images to text, with what is in doubt shown as such (RUN-27)."""

import json
import time
from dataclasses import dataclass, field

from pydantic import JsonValue

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.ocr import artifacts, images, sources
from dpp.packs.ocr.artifacts import TextPage
from dpp.packs.ocr.engine import Engine, find_trained_data
from dpp.packs.ocr.faults import ImageFault, ImageFaultError, OutOfTimeError
from dpp.packs.ocr.marks import UNREADABLE, Tally, mark
from dpp.packs.ocr.pages import LostPage, Page
from dpp.packs.ocr.profiles import PROFILES, Pass, Profile
from dpp.packs.ocr.reading import PageReading, read_page
from dpp.packs.ocr.settings import OcrSettings
from dpp.packs.prices import ocr_cost_usd_micros

MAX_TEXT_BYTES = 850_000
"""Of the texts as JSON; what is left of an answer's million is for the notes and the artifacts."""
_MAX_ANSWER_BYTES = 980_000
MAX_NOTES = 500
_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 1.5
"""Kept of the timebox for handing over what was read."""
_NOT_COUNTED = frozenset({ImageFault.MAX_PAGES})
"""Limits set by the client do not lower the result's reliability."""

type Json = dict[str, JsonValue]


@dataclass(slots=True)
class _Work:
    """The state of a job: pages read, discarded and left."""

    texts: list[JsonValue] = field(default_factory=list)
    text_pages: list[TextPage] = field(default_factory=list)
    text_bytes: int = 0
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
    engine: Engine
    profile: Profile
    max_pages: int
    deadline: float


def run(
    inputs: OcrInputs, request: PackRequest, settings: OcrSettings, *, fetch: sources.Fetch = sources.fetch_object
) -> PackResult:
    """Read every page within the timebox; what was not reached is in the discard log.

    A failure only where nothing could be read at all. Raises ConfigurationError without trained data.
    """
    deadline = time.monotonic() + request.timebox_sec - min(_RESERVE_SECONDS, _RESERVE_SHARE * request.timebox_sec)
    work = _Work()
    with Engine(find_trained_data(settings.trained_data), inputs.language) as engine:
        reader = _Reader(engine, PROFILES[inputs.ocr_profile], inputs.max_pages, deadline)
        for number, image in enumerate(inputs.images):
            source = image.key or f"images[{number}]"
            try:
                data = sources.load(image, request.object_urls, deadline, fetch)
                _read_image(work, reader, source, data)
            except ImageFaultError as error:
                work.lose(source, error.fault)
    return _result(inputs, work) if work.pages else _failure(work)


def _read_image(work: _Work, reader: _Reader, source: str, data: bytes) -> None:
    left = reader.max_pages - work.pages - work.lost_pages
    if left <= 0:
        work.lose(source, ImageFault.MAX_PAGES)
        return
    for number, page in enumerate(images.pages(data, left, reader.deadline), start=1):
        if isinstance(page, LostPage):
            work.lose(source, page.fault, number, page.pages)
            continue
        try:
            reading = read_page(reader.engine, page.image, reader.profile, reader.deadline)
        except OutOfTimeError:
            work.lose(source, ImageFault.TIMEBOX, number)
            continue
        _enter(work, source, number, page, reading)


def _enter(work: _Work, source: str, number: int, page: Page, reading: PageReading) -> None:
    """Add a page that was read to the result, unless the result is full."""
    blocks, doubtful, tally = _blocks(reading)
    prepared = reading.prepared
    text: Json = {
        "source": source,
        "page": number,
        "blocks": [block for block, _ in blocks],
        "layout": {
            "columns": prepared.layout.columns,
            "rotation_degrees": prepared.rotation.degrees,
            "skew_degrees": round(prepared.skew_degrees, 1),
            "steps": list(prepared.steps),
            "blank": prepared.is_blank,
        },
    }
    size = len(json.dumps(text, ensure_ascii=False).encode())
    if work.text_bytes + size > MAX_TEXT_BYTES:
        work.lose(source, ImageFault.OUTPUT_LIMIT, number)
        return
    work.texts.append(text)
    work.text_bytes += size
    work.text_pages.append(TextPage(source, number, [(str(block["text"]), kind) for block, kind in blocks]))
    work.pages += 1
    work.pixels += page.pixels
    work.unreadable_pages += not prepared.is_blank and tally.mean is None
    work.tally.add(tally)
    for word in doubtful:
        note: Json = {"type": "VERIFY_SPELLING", "value": word, "source": source, "page": number}
        work.notes.setdefault(word, note)


def _blocks(reading: PageReading) -> tuple[list[tuple[Json, Pass]], list[str], Tally]:
    tally = Tally()
    doubtful: list[str] = []
    blocks: list[tuple[Json, Pass]] = []
    for block in reading.blocks:
        marked = mark(block.lines)
        confidence = marked.tally.mean
        shown = None if confidence is None else round(confidence, 4)
        blocks.append(({"text": marked.text, "confidence": shown, "kind": block.kind}, block.kind))
        doubtful.extend(marked.doubtful)
        tally.add(marked.tally)
    if not blocks and not reading.prepared.is_blank:
        # Ink of which nothing could be made must not look like an empty page.
        blocks.append(({"text": UNREADABLE, "confidence": 0.0, "kind": Pass.BODY}, Pass.BODY))
    return blocks, doubtful, tally


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
    log_bytes = len(json.dumps([notes, work.discarded], ensure_ascii=False).encode())
    data: Json = {
        "texts": work.texts,
        "notes": notes,
        "omitted_notes": len(work.notes) - len(notes),
        "ocr_profile": inputs.ocr_profile,
        "language": inputs.language,
        "pages": work.pages,
    }
    # A letter of an artifact may take two bytes in JSON: line ends and quotes are escaped.
    room = (_MAX_ANSWER_BYTES - work.text_bytes - log_bytes) * 4 // 5
    return PackSuccess(
        data=data,
        artifacts=artifacts.make(inputs.artifacts, work.text_pages, room),
        discard_log=work.discarded,
        reliability_score=_reliability(work),
        cost_usd_micros=ocr_cost_usd_micros(pages=work.pages, pixels=work.pixels),
    )


def _failure(work: _Work) -> PackFailure:
    """No page was read: the client's to mend, the store's, or a matter of time."""
    first = work.discarded[0]
    faults = {entry["reason"] for entry in work.discarded}
    if ImageFault.OBJECT_UNAVAILABLE in faults:
        reason = PackReason.PACK_FAILED
    elif ImageFault.TIMEBOX in faults:
        reason = PackReason.PACK_TIMEBOX_EXCEEDED
    else:
        reason = PackReason.PACK_INPUTS_INVALID
    return PackFailure(reason_code=reason, detail=f"no page could be read; the first: {first['reason']}")
