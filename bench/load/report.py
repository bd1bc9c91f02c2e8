"""The output of the load test."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from bench.load import plan
from bench.load.audit import Findings
from bench.load.plan import Figures
from bench.load.steps import RECOVERED, Results

_MOST_SENTENCES = 10
_COLUMNS = "due:8 202:9 done:9 p50:7 p90:7 p99:7 max:7 p50:7 p99:7 p50:8 p90:7 p99:7 p99:6 max:6 log:6"
_HEAD = [(name, int(width)) for name, width in (column.split(":") for column in _COLUMNS.split())]


def head() -> None:
    print(
        f"A rate is sustained if {plan.DONE_SHARE:.0%} of it is COMMITTED within {plan.GRACE_SECONDS:.0f} s after the"
        f" step, the backlog grows by at most\n{plan.GROWTH_SHARE:.0%} of what is due and {plan.GROWTH_RUNS} runs, and"
        f" p99 of submit is at most {plan.SUBMIT_P99_MS:.0f} ms. Times in ms from when a request\nwas due; as many"
        f" reads as submits.\n\n{'submits/s':^26}{'submit':^28}{'read':^14}{'submit to COMMITTED':^22}{'late':^12}back-"
    )
    print("".join(f"{name:>{width}}" for name, width in _HEAD))


def step(figures: Figures, violations: Sequence[str]) -> None:
    submit, read, whole, late = figures.submit, figures.read, figures.whole, figures.late
    rates = [f"{count / figures.seconds:.1f}" for count in (figures.offered, figures.accepted, figures.done)]
    times = [*astuple(submit), read.p50, read.p99, *astuple(whole)[:3], late.p99, late.worst, figures.backlog]
    cells = [*rates, *(f"{value:.0f}" for value in times)]
    print("".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _HEAD, strict=True)))
    result = "not sustained: " + ", ".join(violations) if violations else "sustained"
    answers = ", ".join(f"{answer} × {count}" for answer, count in sorted(figures.answers.items()))
    environments = ", ".join(f"{name} {count}" for name, count in sorted(figures.environments.items())) or "none"
    print(f"{'':>8}rate {figures.rate:g}: {result}; {answers}; environments {environments}")
    if not figures.is_valid:
        print(f"{'':>8}NOT VALID: the generator itself was over {plan.LATE_P99_MS:.0f} ms late at p99")


def course(results: Results) -> None:
    """Print the knee, its use of processors, and the recovery."""
    knee, over, recovery = results.knee, results.overload, results.recovery
    if knee is None:
        print("\nno knee: not even the lowest rate was sustained")
        return
    above = [figures.rate for figures in results.steps if figures.rate > knee.rate]
    bound = f"; {min(above):g} was not" if above else ", and no higher one was tried"
    print(f"\nknee: {knee.rate:g} submits and as many reads a second are sustained{bound}")
    print(f"processors busy at the knee: {_cores(knee.cores)}")
    print(LOCAL)
    if over is None:
        return
    print(
        f"\n{over.rate / knee.rate:g} × the knee, {over.rate:g}/s for {over.seconds:.0f} s: {over.offered} submits due,"
        f" {over.accepted} accepted, {over.unsent} requests not sent (too many under way); backlog {over.backlog}"
        f" at its end\nprocessors busy: {_cores(over.cores)}"
    )
    print(
        f"recovered after {_seconds(recovery.seconds)}: last answer {_seconds(recovery.answered)}, last run COMMITTED"
        f" {_seconds(recovery.finished)}, submits as fast as at the first rate (median at most {RECOVERED} ×)"
        f" {_seconds(recovery.fast)}"
    )
    print("probes' medians, ms:", " ".join(f"{one.p50:.0f} (at {at:.0f} s)" for at, one in recovery.probes))


def audit(found: Findings, faults: Sequence[str], submits: int, repeated: int, existing: int) -> None:
    outcomes = ", ".join(f"{name} × {count}" for name, count in sorted(found.outcomes.items()))
    print(
        f"\n{submits} submits, {repeated} of them repeated with their key because their client did not learn the"
        f" outcome; {existing} of those were runs already"
    )
    print(f"runs: {outcomes}")
    sentences = [*found.lost, *found.doubled, *found.wrong, *faults]
    for sentence in sentences[:_MOST_SENTENCES]:
        print(f"BROKEN: {sentence}")
    if len(sentences) > _MOST_SENTENCES:
        print(f"BROKEN: and {len(sentences) - _MOST_SENTENCES} more")
    others = len(found.wrong) + len(faults)
    print(f"lost {len(found.lost)}, doubled {len(found.doubled)}, otherwise wrong {others}")


def _seconds(value: float | None) -> str:
    return "not seen" if value is None else f"{value:.1f} s"


def _cores(cores: Mapping[str, float]) -> str:
    used = sorted(cores.items(), key=lambda one: -one[1])
    return ", ".join(f"{name} {busy:.2f}" for name, busy in used) + f"; {sum(cores.values()):.2f} in all"


LOCAL = """\
This is the knee of the local stack, not of AWS: gateway, Lambda, SQS and S3 are one process of LocalStack, at most four
workers start a process for each run's pack, and functions, Postgres, Valkey and this generator share the same cores. It
shows how the platform handles overload, not how much AWS would bear."""
