"""Replaces a generated section of a page, between its marks."""

from pathlib import Path


def rewritten(page: str, begin: str, section: str, end: str, path: Path) -> str:
    """The page with `section` between its marks. Raises ValueError if a mark is missing."""
    before, _, rest = page.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"{path.name} lacks the marks of a generated section: add {begin} and {end}")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
