"""E-mail addresses, with letters of any script in both parts (RFC 5321, RFC 6531)."""

from collections.abc import Iterator
from functools import cache, lru_cache

import idna
import regex
from publicsuffixlist import PublicSuffixList

from dpp.packs.compliance.checks import Checks
from dpp.packs.compliance.findings import Candidate, Confidence

EMAIL = "email"

MAX_LOCAL_CHARACTERS = 64
MAX_DOMAIN_CHARACTERS = 253

_LETTER = r"\p{L}\p{M}\p{N}"
# The look-around keeps a text of '@' alone cheap. The address is then read from each '@' in both directions.
_AT = regex.compile(rf"(?<=[{_LETTER}._%+'-])@(?=[{_LETTER}])")
_LOCAL = regex.compile(rf"(?r)[{_LETTER}._%+'-]{{1,{MAX_LOCAL_CHARACTERS + 1}}}")
# Scripts whose words may stand before an address without a blank: 문의kim@example.com.
_WITHOUT_BLANKS = "".join(
    rf"\p{{Script={name}}}" for name in ("Hangul", "Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
_LATIN_END = regex.compile(rf"(?r)[^{_WITHOUT_BLANKS}]+")
_DOMAIN = regex.compile(rf"[{_LETTER}.-]{{1,{MAX_DOMAIN_CHARACTERS}}}")
_LABEL = regex.compile(rf"(?!-)[{_LETTER}-]{{1,63}}(?<!-)")
_ASCII_START = regex.compile(r"[A-Za-z0-9-]+")
_OTHER_LETTERS = regex.compile(r"[\p{L}\p{M}]{2,24}")
_LONGEST_TOP_LEVEL = 24
# A picture for a screen of higher density. Some endings of files are domains, too.
_DENSITY = regex.compile(r"[0-9](?:\.[0-9]{1,2})?x\.")
_FILE_ENDINGS = frozenset({"ai", "app", "mov", "ps", "zip"})

_SPECIAL_DOMAINS = frozenset(
    {"corp", "example", "home", "internal", "intranet", "invalid", "lan", "local", "localhost", "private", "test"}
)
"""Top-level domains that are not delegated but in use (RFC 6761; RFC 6762, appendix G)."""


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=True)


@lru_cache(maxsize=4_096)
def _is_top_level(label: str) -> bool:
    folded = label.lower()
    if folded in _SPECIAL_DOMAINS:
        return True
    try:
        # ICANN's part of the list has each delegated domain, by itself or as the end of a longer suffix.
        return _suffixes().publicsuffix(f"a.{idna.encode(folded, uts46=True).decode()}") is not None
    except idna.IDNAError:
        return False


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Every address whose domain ends in a top-level domain that exists, or in one that is not of ASCII letters."""
    for at in _AT.finditer(text):
        checks.spend()
        start = _local_start(text, at.start())
        if start is not None and (domain := _domain(text, at.end())):
            yield Candidate(EMAIL, start, *domain)


def _local_start(text: str, at: int) -> int | None:
    local = _LOCAL.match(text, pos=max(0, at - MAX_LOCAL_CHARACTERS - 1), endpos=at)
    if local is None:
        return None
    latin = _LATIN_END.match(text, pos=local.start(), endpos=at)
    start = latin.start() if latin else local.start()
    while start < at and text[start] in "._%+'-":
        start += 1
    # One character more than an address may have: the rest of a longer word.
    return start if start < at and at - start <= MAX_LOCAL_CHARACTERS else None


def _domain(text: str, start: int) -> tuple[int, Confidence] | None:
    """The end of the domain that starts here, and how sure it is one."""
    found = _DOMAIN.match(text, pos=start)
    best: tuple[int, Confidence] | None = None
    place = start
    for number, label in enumerate(found[0].split(".") if found else ()):
        if number and (top_level := _top_level(label)):
            best = (place + top_level[0], top_level[1])
        if _LABEL.fullmatch(label) is None:
            break
        place += len(label) + 1
    return None if best and _is_file_name(text[start : best[0]]) else best


def _top_level(label: str) -> tuple[int, Confidence] | None:
    """The length of the top-level domain at the start of a label, which a Korean particle may follow."""
    latin = _ASCII_START.match(label)
    if latin:
        return (len(latin[0]), "medium") if _is_top_level(latin[0]) else None
    for length in range(min(len(label), _LONGEST_TOP_LEVEL), 0, -1):
        if _is_top_level(label[:length]):
            return length, "medium"
    letters = _OTHER_LETTERS.match(label)
    return (len(letters[0]), "low") if letters else None


def _is_file_name(domain: str) -> bool:
    return _DENSITY.match(domain) is not None and domain.rpartition(".")[2].lower() in _FILE_ENDINGS
