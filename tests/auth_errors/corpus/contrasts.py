"""Changes that turn a failure into another one, by language (AUTH-10)."""

import re
from collections.abc import Callable
from dataclasses import replace

from tests.auth_errors.corpus import Failure

Contrast = Callable[[Failure], Failure]

# The function in an application's frame; if no frame is the application's, in a library's frame.
_FUNCTIONS = {
    "jvm": (r"^\tat (?:[\w.]+/)?(com\.example\.[\w.$]+\.\w+)\(", r"^\tat (?:[\w.]+/)?([\w.$]+\.\w+)\("),
    "python": (r'^(?: *\|)? *File "(?!.*site-packages|/usr)([^"]*", line \d+, in \w+)$',),
    "node": (r"^ *at (?:async )?(?!.*node_modules|.*node:)([\w.]+) \(", r"^ *at (?:async )?([\w.]+) \("),
    "go": (r"^(?!.*_Handler)((?:github\.com/acme/[\w./]*|main)\.(?:\(\*\w+\)\.)?\w+)",),
}
_CAUSES = {
    "jvm": r"^Caused by: ([\w.$]+)",
    "python": r"^(?:    \| )?([\w.]+(?:Error|Timeout)): .*(?=\n(?:.*\n)*(?:\nThe above|\nDuring|    \+-))",
    "node": r"\[cause\]: (\w+)",
}


def _functions(failure: Failure) -> list[str]:
    """The functions of a trace as printed, the innermost first, each once."""
    for pattern in _FUNCTIONS[failure.language]:
        if found := re.findall(pattern, failure.stacktrace, re.MULTILINE):
            ordered = found[::-1] if failure.language == "python" else found
            return list(dict.fromkeys(ordered))
    return []


def _renamed(failure: Failure, nth: int) -> Failure:
    functions = [] if failure.language == "python" and failure.is_cut else _functions(failure)
    if len(functions) <= nth:
        return failure
    name = functions[nth]
    return replace(failure, stacktrace=failure.stacktrace.replace(name, name + "Otherwise"))


def _another_cause(failure: Failure) -> Failure:
    causes = re.findall(_CAUSES.get(failure.language, r"(?!)"), failure.stacktrace, re.MULTILINE)
    if not causes or failure.is_cut:
        return failure
    head, cause, tail = failure.stacktrace.rpartition(causes[-1])
    return replace(failure, stacktrace=f"{head}{cause}OfAnotherKind{tail}")


CONTRASTS: dict[str, Contrast] = {
    "another_class": lambda failure: replace(failure, exception_class=failure.exception_class + "OfAnotherKind"),
    "raised_elsewhere": lambda failure: _renamed(failure, 0),
    "called_from_elsewhere": lambda failure: _renamed(failure, 1),
    "another_cause": _another_cause,
}
