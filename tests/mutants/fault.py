"""What a fault is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`before` stands exactly once in `file` (below layers/dpp/python/dpp) and becomes `after`."""

    name: str
    cost: str
    file: str
    before: str
    after: str
    caught_by: str
