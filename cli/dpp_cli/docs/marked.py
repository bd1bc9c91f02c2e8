"""Sections of a page that are written by a program, each between its marks."""

from pathlib import Path


def rewritten(page: str, begin: str, section: str, end: str, path: Path) -> str:
    """The page with this section between its marks. Raises ValueError where a mark is missing."""
    before, _, rest = page.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"{path.name} lacks a mark: {begin} … {end}")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
