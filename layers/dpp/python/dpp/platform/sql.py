"""Named queries: SQL stands in `.sql` files, read once, never built from strings.

A file is a sequence of blocks:

    -- name: claim
    -- What the query is for, in one line.
    UPDATE …
"""

import re
from importlib.resources import files
from typing import LiteralString, cast

_HEAD = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


class Queries:
    """The queries of one file; `queries["claim"]` is the SQL of the block named `claim`."""

    def __init__(self, package: str, file_name: str) -> None:
        text = files(package).joinpath(file_name).read_text(encoding="utf-8")
        _, *blocks = _HEAD.split(text)
        names, bodies = blocks[::2], blocks[1::2]
        if len(names) != text.count("-- name:"):
            raise ValueError(f"{package}/{file_name} has a head that names no query")
        if len(set(names)) != len(names):
            raise ValueError(f"{package}/{file_name} names a query twice")
        self._queries = dict(zip(names, (body.strip() for body in bodies), strict=True))

    def __getitem__(self, name: str) -> LiteralString:
        # The files are shipped with the code and take no part from a request: as good as literals.
        return cast(LiteralString, self._queries[name])

    def names(self) -> tuple[str, ...]:
        """Every query's name, in the order of the file."""
        return tuple(self._queries)
