"""Named queries: SQL is kept in `.sql` files, read once, never built from strings.

A file is a sequence of blocks:

    -- name: claim
    -- The query's purpose, in one line.
    UPDATE … RETURNING {run.*}

    -- columns: run
    run_id, status, …

`{run.*}` is replaced by the columns that the block `run` lists, so that a query returns the same columns before and
after a migration that adds one. A prepared statement requires that. A block may also list what an UPDATE sets.
"""

import re
from importlib.resources import files
from typing import LiteralString

_HEAD = re.compile(r"^-- (name|columns): (\w+)\n", re.MULTILINE)
_LISTED = re.compile(r"\{(\w+)\.\*\}")


class Queries:
    """The queries of files in a package; `queries["claim"]` is the SQL of the block named `claim`."""

    def __init__(self, package: str, *file_names: str) -> None:
        texts = [files(package).joinpath(name).read_text(encoding="utf-8") for name in file_names]
        text, where = "\n".join(texts), f"{package}/{', '.join(file_names)}"
        _, *parts = _HEAD.split(text)
        blocks = list(zip(parts[::3], parts[1::3], (body.strip() for body in parts[2::3]), strict=True))
        if len(blocks) != len(re.findall("-- (?:name|columns):", text)):
            raise ValueError(f"{where} has a malformed block head; write `-- name: NAME`")
        if len({(kind, name) for kind, name, _ in blocks}) != len(blocks):
            raise ValueError(f"{where} has two blocks of one name; rename one")
        columns = {name: body for kind, name, body in blocks if kind == "columns"}
        if unknown := set(_LISTED.findall(text)) - columns.keys():
            raise ValueError(f"{where} has no `-- columns:` block for {', '.join(sorted(unknown))}")
        self._queries = {
            name: _LISTED.sub(lambda found: columns[found[1]], body) for kind, name, body in blocks if kind == "name"
        }

    def __getitem__(self, name: str) -> LiteralString:
        # The files are shipped with the code and contain nothing of a request, so they are as safe as literals.
        return self._queries[name]

    def names(self) -> tuple[str, ...]:
        """The names of all queries, in the order of the file."""
        return tuple(self._queries)
