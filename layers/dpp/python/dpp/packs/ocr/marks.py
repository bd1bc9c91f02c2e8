"""How doubt is shown: [□] for what can't be read, (?) after what may be wrong, notes to check by eye (RUN-27)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dpp.packs.ocr.engine import Fragment, Line
from dpp.packs.ocr.geometry import around
from dpp.packs.ocr.pages import Box

UNREADABLE = "[□]"
DOUBTFUL = "(?)"
UNREADABLE_BELOW = 25.0
DOUBTFUL_BELOW = 60.0
"""Tesseract's confidence, 0–100."""
_NO_LETTER = "\ufffd"


@dataclass(frozen=True, slots=True)
class Marked:
    """Text with its marks, the doubtful words without them, and what its reliability is made of."""

    text: str
    doubtful: tuple[str, ...]
    tally: "Tally"
    words: tuple["Word", ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it stands in the text, less the mark of doubt; `confidence` is 0 to 1."""

    text: str
    confidence: float
    box: Box


@dataclass(slots=True)
class Tally:
    """Confidence by characters: unreadable ones count with 0."""

    confidence: float = 0.0
    characters: int = 0
    unreadable: int = field(default=0)

    def add(self, other: "Tally") -> None:
        """Count what `other` counted, too."""
        self.confidence += other.confidence
        self.characters += other.characters
        self.unreadable += other.unreadable

    @property
    def mean(self) -> float | None:
        """0 to 1; None where there was no character."""
        return self.confidence / (100 * self.characters) if self.characters else None


def mark(lines: Sequence[Line]) -> Marked:
    """The lines as text, one a row."""
    tally = Tally()
    doubtful: list[str] = []
    words: list[Word] = []
    rows = []
    for line in lines:
        shown = [_shown(word, tally, doubtful, words) for word in _words(line)]
        rows.append(" ".join(_merged(shown)))
    return Marked("\n".join(rows), tuple(doubtful), tally, tuple(words))


def _words(line: Line) -> Iterator[list[Fragment]]:
    word: list[Fragment] = []
    for fragment in line.fragments:
        if word and not fragment.glued:
            yield word
            word = []
        word.append(fragment)
    if word:
        yield word


def _shown(word: Sequence[Fragment], tally: Tally, doubtful: list[str], words: list[Word]) -> str:
    """The word with its unreadable parts replaced, and a mark behind it if another part is doubtful."""
    own = Tally()
    parts: list[str] = []
    in_doubt = False
    for fragment in word:
        # Control characters and the like would be no text in JSON's readers, Word or Markdown.
        text = "".join(letter for letter in fragment.text if letter.isprintable())
        own.characters += len(text)
        if fragment.confidence < UNREADABLE_BELOW or _NO_LETTER in text or not text:
            own.unreadable += len(text)
            parts.append(UNREADABLE)
            continue
        own.confidence += min(100.0, fragment.confidence) * len(text)
        in_doubt = in_doubt or fragment.confidence < DOUBTFUL_BELOW
        parts.append(text)
    text = "".join(_merged(parts))
    tally.add(own)
    words.append(Word(text, round(own.mean or 0.0, 4), around(one.box for one in word)))
    if in_doubt:
        doubtful.append(text)
        return text + DOUBTFUL
    return text


def _merged(parts: Iterable[str]) -> list[str]:
    """Neighbouring unreadable parts are one unreadable span."""
    kept: list[str] = []
    for part in parts:
        if part != UNREADABLE or kept[-1:] != [UNREADABLE]:
            kept.append(part)
    return kept
