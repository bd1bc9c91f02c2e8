"""What the load test prints."""

from collections.abc import Mapping, Sequence

from bench.load.audit import Findings
from bench.load.plan import (
    DONE_SHARE,
    GRACE_SECONDS,
    GROWTH_RUNS,
    GROWTH_SHARE,
    LATE_P99_MS,
    SUBMIT_P99_MS,
    Figures,
    Spread,
)
from bench.load.steps import RECOVERED, Told

_SHOWN_FAULTS = 10


def head() -> None:
    """What the columns are."""
    print(
        f"A rate is held if {DONE_SHARE:.0%} of it is COMMITTED at most {GRACE_SECONDS:.0f} s after the step, the"
        f" backlog rises by no more\nthan {GROWTH_SHARE:.0%} of what is due and {GROWTH_RUNS} runs, and p99 of submit"
        f" is at most {SUBMIT_P99_MS:.0f} ms. Times in ms from when a request\nwas due; as many reads as submits.\n"
    )
    print(
        f"{'submits/s':^26}{'submit':^28}{'read':^14}{'submit to COMMITTED':^22}{'late':^12}{'back-':>6}\n"
        f"{'due':>8}{'202':>9}{'done':>9}{'p50':>7}{'p90':>7}{'p99':>7}{'max':>7}{'p50':>7}{'p99':>7}"
        f"{'p50':>8}{'p90':>7}{'p99':>7}{'p99':>6}{'max':>6}{'log':>6}"
    )


def step(figures: Figures, against: Sequence[str]) -> None:
    """One line of figures, one of what was answered."""
    a_second = [count / figures.seconds for count in (figures.offered, figures.accepted, figures.done)]
    submit, read, whole, late = figures.submit, figures.read, figures.whole, figures.late
    print(
        f"{a_second[0]:>8.1f}{a_second[1]:>9.1f}{a_second[2]:>9.1f}"
        f"{submit.p50:>7.0f}{submit.p90:>7.0f}{submit.p99:>7.0f}{submit.worst:>7.0f}"
        f"{read.p50:>7.0f}{read.p99:>7.0f}{whole.p50:>8.0f}{whole.p90:>7.0f}{whole.p99:>7.0f}"
        f"{late.p99:>6.0f}{late.worst:>6.0f}{figures.backlog:>6}"
    )
    verdict = "not held: " + ", ".join(against) if against else "held"
    said = ", ".join(f"{answer} × {count}" for answer, count in sorted(figures.answers.items()))
    print(f"{'':>8}rate {figures.rate:g}: {verdict}; {said}; environments {_counts(figures.environments)}")
    if not figures.valid:
        print(f"{'':>8}NOT VALID: the generator itself was late, by over {LATE_P99_MS:.0f} ms at p99")


def course(told: Told) -> None:
    """The knee, what used the processor there, and the way back."""
    if told.knee is None:
        print("\nno knee: not even the lowest rate was held")
        return
    above = [figures.rate for figures in told.steps if figures.rate > told.knee.rate]
    bound = f"; {min(above):g} was not" if above else ", and no higher one was tried"
    print(f"\nknee: {told.knee.rate:g} submits and as many reads a second are held{bound}")
    print(f"processors busy at the knee: {_cores(told.knee)}")
    print(LOCAL)
    if told.overload is None:
        return
    over, back = told.overload, told.recovery
    print(
        f"\n{over.rate / told.knee.rate:g} × the knee, {over.rate:g}/s for {over.seconds:.0f} s:"
        f" {over.offered} submits due, {over.accepted} accepted, {over.unsent} requests not sent (too many under way);"
        f" backlog {over.backlog} at its end"
    )
    print(f"processors busy: {_cores(over)}")
    print(
        f"recovered after {_seconds(back.seconds)}: last answer {_seconds(back.answered)}, last run COMMITTED"
        f" {_seconds(back.drained)}, submits as fast as at the first rate (median at most {RECOVERED} ×)"
        f" {_seconds(back.fast)}"
    )
    print(f"probes' medians, ms: {' '.join(_probe(at, spread) for at, spread in back.probes)}")


def audit(found: Findings, faults: Sequence[str], promised: int, repeated: int, standing: int) -> None:
    """Whether the books are right, and what isn't."""
    ended = ", ".join(f"{name} × {count}" for name, count in sorted(found.outcomes.items()))
    print(
        f"\n{promised} submits, {repeated} of them repeated with their key since their client was not told what became"
        f" of them; {standing} of those were runs already"
    )
    print(f"runs: {ended}")
    named = [*found.lost, *found.doubled, *found.wrong, *faults]
    for sentence in named[:_SHOWN_FAULTS]:
        print(f"BROKEN: {sentence}")
    if len(named) > _SHOWN_FAULTS:
        print(f"BROKEN: and {len(named) - _SHOWN_FAULTS} more")
    print(
        f"lost {len(found.lost)}, doubled {len(found.doubled)}, otherwise wrong {len(found.wrong) + len(faults)}"
    )


def _seconds(value: float | None) -> str:
    return "not seen" if value is None else f"{value:.1f} s"


def _probe(at: float, spread: Spread) -> str:
    return f"{spread.p50:.0f} (at {at:.0f} s)"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _cores(figures: Figures) -> str:
    used = sorted(figures.cores.items(), key=lambda one: -one[1])
    return (
        ", ".join(f"{name} {cores:.2f}" for name, cores in used)
        + f"; {sum(figures.cores.values()):.2f} in all"
    )


LOCAL = (
    "This knee is the local stack's, not AWS's: gateway, Lambda, SQS and S3 are one process of LocalStack, at most four"
    "\nworkers start a process for each run's pack, and functions, Postgres, Valkey and this generator share the same"
    "\ncores. It says how the platform bears too much, not how much AWS would bear."
)
