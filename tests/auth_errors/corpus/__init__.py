"""Failures as they are printed, one a file: the class that is reported in the first line, below it the trace."""

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
        """Whether the platform would cut the trace, or may have: it keeps 8,000 characters."""
        return len(self.stacktrace.strip()) >= 7_950


def _read(path: Path) -> Failure:
    exception_class, _, stacktrace = path.read_text(encoding="utf-8").partition("\n")
    return Failure(path.parent.name, path.stem, exception_class, stacktrace)


FAILURES = tuple(_read(path) for language in LANGUAGES for path in sorted((_FOLDER / language).glob("*.txt")))
