"""Output of the soak commands."""

import sys
from collections.abc import Sequence


def print_line(text: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_result(broken: Sequence[str], success: str) -> int:
    """Print each broken invariant, or the success; the exit code."""
    for sentence in broken:
        print_line(f"BROKEN: {sentence}")
    print_line(f"{len(broken)} invariants broken" if broken else success)
    return 1 if broken else 0
