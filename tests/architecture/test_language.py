"""One concept, one word, in plain English: no word that docs/glossary.md rules out, in names, messages or prose."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("layers", "functions", "cli", "client", "cdk", "bench", "migrations", "tests")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
EXAMPLES = (ROOT / "cli" / "dpp_cli" / "docs" / "openapi" / "examples").glob("*.json")
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *EXAMPLES])

NAMES = {
    **dict.fromkeys(("standing", "standings"), "stats, status or PollState"),
    **dict.fromkeys(("purse", "purses"), "balance"),
    **dict.fromkeys(("wish", "wishes"), "desired state"),
    **dict.fromkeys(("tray", "desk", "door", "court", "playhouse"), "what it is"),
    **dict.fromkeys(("told", "telling"), "sent, returned or reported"),
    **dict.fromkeys(("soldier", "soldiers"), "task run"),
    **dict.fromkeys(("reckon", "reckoned"), "compute"),
    "patiently": "with_retries",
    "drained": "insufficient budget",
    "beat": "tick or heartbeat",
    "beats": "ticks or heartbeats",
    "whoever": "who it is",
    "asker": "caller",
    "oftener": "more often",
}
"""Words that must not be part of a name, each with the word to use."""

ALLOWED_NAMES = {
    "soldier_id",  # the S3 key and JSON field of 002
    "soldier_id_key",
    "told_at",  # a column
}

PHRASES = {
    r"\bis at it\b": "is already running",
    r"\bof ours\b": "say whose",
    r"\boftener\b": "more often",
    r"\b(its|the|an) asker\b": "caller",
    r"\bwhoever\b": "name who",
    r"\breckon(s|ed|ing)?\b": "compute",
    r"\bpatiently\b": "with retries",
    r"\bpurses?\b": "balance",
    r"\bsoldiers?\b(?!-id| of 002| \()": "task run",
    r"\b(is|are|was|were) told\b": "gets, is notified",
    r"\btells? of\b": "reports",
    r"\bhas a word\b": "must not be empty",
    r"\btakes not\b": "rejects",
    r"\bthereof\b": "of it",
    r"\bso many a (beat|tick|firing)\b": "at most this many per tick",
    r"\bsees to it\b": "makes sure",
    r"\bwho watches\b": "metrics",
}
"""Phrases that must not appear in docstrings, comments, messages, help or pages, each with what to write."""

NOUN_CLAUSE = re.compile(r"^(What|Whether|Which|Who|Whose|How|Where|When|Why) [^?\n]*\.$")
"""A docstring that is a clause and not a sentence: "What a run is, as its row holds it."."""

_PHRASES = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in PHRASES.items()]
_PARTS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")
_QUOTED = re.compile(r"`[^`]*`|\"-- .*")
_SELF = Path(__file__).name


def _names(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    yield 1, path.stem
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case _:
                pass


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Comments, and strings with more than one word."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING, tokenize.FSTRING_MIDDLE} and " " in token.string:
            yield token.start[0], _QUOTED.sub("", token.string)


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.split("\n\n")[0].strip()
            case _:
                pass


def _faults(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    for line, name in _names(tree, path):
        if name.strip("_") not in ALLOWED_NAMES:
            for part in _PARTS.split(name):
                if advice := NAMES.get(part.lower()):
                    yield f"{path.relative_to(ROOT)}:{line}: {name}: write {advice}"
    for line, prose in _prose(text):
        for pattern, advice in _PHRASES:
            if found := pattern.search(prose):
                yield f"{path.relative_to(ROOT)}:{line}: {found[0]!r}: write {advice}"
    for line, docstring in _docstrings(tree):
        if NOUN_CLAUSE.match(docstring.replace("\n", " ")):
            yield f"{path.relative_to(ROOT)}:{line}: {docstring[:60]!r}: write a sentence or a plain noun phrase"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_and_no_text_uses_a_word_that_the_glossary_rules_out(folder: str) -> None:
    files = [path for path in FILES if path.is_relative_to(ROOT / folder) and path.name != _SELF]
    faults = [fault for path in files for fault in _faults(path)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_uses_a_phrase_that_the_glossary_rules_out(page: Path) -> None:
    if page.name == "glossary.md":
        return
    text = page.read_text(encoding="utf-8")
    found = [f"{match[0]!r}: write {advice}" for pattern, advice in _PHRASES for match in pattern.finditer(text)]
    assert not found, "\n".join(found)


def test_every_ruled_out_word_is_in_the_glossary() -> None:
    """The right-hand column of the glossary's tables names them."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in glossary.splitlines() if line.startswith("| ")]
    ruled_out = {word.strip() for row in rows if len(row) == 5 for word in row[3].split(",")}
    assert {"standing", "purse", "tray", "beat", "letter", "drained"} <= ruled_out
