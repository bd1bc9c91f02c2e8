"""Named queries: SQL stands in `.sql` files, read once, never built from strings.

A file is a sequence of blocks:

    -- name: claim
    -- What the query is for, in one line.
    UPDATE … RETURNING {run.*}

    -- columns: run
    run_id, status, …

`{run.*}` stands for the columns that the block named `run` lists: what a query answers is the same before and after a
migration that adds a column, as a prepared statement's answer has to be.
"""

import re
from importlib.resources import files
from typing import LiteralString

_HEAD = re.compile(r"^-- (name|columns): (\w+)\n", re.MULTILINE)
_LISTED = re.compile(r"\{(\w+)\.\*\}")


class Queries:
    """The queries of one file; `queries["claim"]` is the SQL of the block named `claim`."""

    def __init__(self, package: str, file_name: str) -> None:
        text = files(package).joinpath(file_name).read_text(encoding="utf-8")
        _, *parts = _HEAD.split(text)
        blocks = list(zip(parts[::3], parts[1::3], (body.strip() for body in parts[2::3]), strict=True))
        if len(blocks) != len(re.findall("-- (?:name|columns):", text)):
            raise ValueError(f"{package}/{file_name} has a head that names no block")
        if len({(kind, name) for kind, name, _ in blocks}) != len(blocks):
            raise ValueError(f"{package}/{file_name} names a block twice")
        columns = {name: body for kind, name, body in blocks if kind == "columns"}
        if unknown := set(_LISTED.findall(text)) - columns.keys():
            raise ValueError(
                f"{package}/{file_name} does not list the columns of {', '.join(sorted(unknown))}"
            )
        self._queries = {
            name: _LISTED.sub(lambda found: columns[found[1]], body)
            for kind, name, body in blocks
            if kind == "name"
        }

    def __getitem__(self, name: str) -> LiteralString:
        # The files are shipped with the code and take no part from a request: as good as literals.
        return self._queries[name]

    def names(self) -> tuple[str, ...]:
        """Every query's name, in the order of the file."""
        return tuple(self._queries)
