"""Printed failures, one per file: the reported class in the first line, the trace below it."""

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
LANGUAGES = ("jvm", "python", "node", "go")


@dataclass(frozen=True, slots=True)
class Failure:
    language: str
    name: str
    exception_class: str
    stacktrace: str

    @property
    def is_cut(self) -> bool:
        """True if the platform would truncate the trace, or may have: it stores 8,000 characters."""
        return len(self.stacktrace.strip()) >= 7_950


def _read(path: Path) -> Failure:
    exception_class, _, stacktrace = path.read_text(encoding="utf-8").partition("\n")
    return Failure(path.parent.name, path.stem, exception_class, stacktrace)


FAILURES = tuple(_read(path) for language in LANGUAGES for path in sorted((_FOLDER / language).glob("*.txt")))
