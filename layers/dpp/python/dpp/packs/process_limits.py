"""Lowers a process's resource limits."""

import resource


def lower_limit(which: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit (`resource.RLIMIT_…`) for good; one that is already lower stays. `hard` is `soft` by default."""
    present = resource.getrlimit(which)[1]
    wanted = soft if hard is None else hard
    most = wanted if present == resource.RLIM_INFINITY else min(wanted, present)
    resource.setrlimit(which, (min(soft, most), most))
