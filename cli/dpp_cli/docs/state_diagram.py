"""docs/state-machine.md, drawn from the table in dpp/runs/machine.py: `python -m dpp_cli.docs.state_diagram`."""

from pathlib import Path

from dpp.runs.machine import TERMINAL, TRANSITIONS, State

PATH = Path(__file__).parents[3] / "docs" / "state-machine.md"

_HEAD = """# The states of a run

A run's state is three columns together: where the execution stands (`status`), where the money stands
(`money_state`) and how far its end is (`finalize_stage`). The table below is the whole machine; it is generated
from `dpp/runs/machine.py`, and the checks of the table `runs` refuse every other combination.

- A run ends in two stages (RUN-19). The **claim** is one compare-and-swap that also writes down what is about to
  happen: outcome, charge, result pointer. The winner settles or refunds in the ledger, then **commits**.
- Every way names the state and the version that it expects. Who finds another gets no row and does nothing.
- **DISPUTED** is where the platform stops: the ledger holds a receipt that contradicts the recorded intent. No job
  touches such a run again; an operator decides. (A reservation that Redis has lost is no dispute: by Postgres it is
  open, and reconcile enters it anew.)
- **EXPIRED** is a tombstone: after 30 days the result is gone, the money state stays, the idempotency key is free. A
  read answers 410 as soon as `retention_until` has passed, whatever the status (RUN-12).

"""


def render() -> str:
    """The whole page."""
    lines = [_HEAD, "```mermaid", "stateDiagram-v2"]
    states = sorted({state for way in TRANSITIONS for state in (way.source, way.target) if state}, key=str)
    lines += [f'  state "{state}" as {_name(state)}' for state in states]
    for way in TRANSITIONS:
        source = _name(way.source) if way.source else "[*]"
        lines.append(f"  {source} --> {_name(way.target)}: {way.query}")
    lines += [f"  {_name(state)} --> [*]" for state in states if state.status in TERMINAL]
    lines += ["```", "", "| from | to | query | by |", "|---|---|---|---|"]
    for way in TRANSITIONS:
        lines.append(f"| {way.source or '—'} | {way.target} | `{way.query}` | {', '.join(way.by)} |")
    return "\n".join(lines) + "\n"


def _name(state: State) -> str:
    return "_".join(part for part in (state.status, state.money, state.stage) if part)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
