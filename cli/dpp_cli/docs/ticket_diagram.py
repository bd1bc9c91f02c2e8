"""Draws the ticket states in docs/tickets.md from dpp/tickets/machine.py: `python -m dpp_cli.docs.ticket_diagram`.

Only what stands between the marks is written.
"""

from dpp.tickets.machine import TERMINAL, TRANSITIONS, TicketStatus
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "tickets.md"
BEGIN = "<!-- drawn by python -m dpp_cli.docs.ticket_diagram -->"
END = "<!-- drawn up to here -->"


def section() -> str:
    """The diagram and the table of ways."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"  {way.source or '[*]'} --> {way.target}: {way.query}, {way.by}" for way in TRANSITIONS]
    lines += [f"  {status} --> [*]" for status in TicketStatus if status in TERMINAL]
    lines += ["```", "", "| from | to | query | by |", "|---|---|---|---|"]
    lines += [f"| {way.source or '—'} | {way.target} | `{way.query}` | {way.by} |" for way in TRANSITIONS]
    return "\n".join(lines)


def drawn(page: str) -> str:
    """The page with its section as the code has it. Raises ValueError where a mark is missing."""
    return rewritten(page, BEGIN, section(), END, PATH)


if __name__ == "__main__":
    PATH.write_text(drawn(PATH.read_text(encoding="utf-8")), encoding="utf-8")
