"""State machines as data: the table of transitions of one kind of row.

The schema enforces the same table, and `python -m dpp_cli.docs.diagrams` draws it in the docs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transition[State]:
    """One transition: `by` runs `action` (a named query, or an operation), on condition of `when` if there is one.

    `source` is None where the row is created.
    """

    source: State | None
    target: State
    action: str
    by: str
    when: str = ""


@dataclass(frozen=True, slots=True)
class StateMachine[State]:
    """Every transition of one kind of row, and the states in which its processing has ended."""

    transitions: tuple[Transition[State], ...]
    terminal: frozenset[State]

    @property
    def states(self) -> frozenset[State]:
        """Every state that a row can have."""
        return frozenset(transition.target for transition in self.transitions)

    def allows(self, source: State | None, target: State) -> bool:
        """True if a transition leads from `source` to `target`."""
        return any(one.source == source and one.target == target for one in self.transitions)
