"""Which frames of an error tell it from others (AUTH-10). Pure."""

from collections.abc import Sequence

from dpp.auth_errors.traces.model import Frame, Kind, visible

AT_MOST = {Kind.APPLICATION: 8, Kind.LIBRARY: 8, Kind.LINE: 16}
"""How many count, the innermost first: those of the application however deep they lie below a library's."""

_LONGEST_CYCLE_FRAMES = 6


def chosen(frames: Sequence[Frame]) -> list[str]:
    """The names of the frames from where the error was raised to the door through which the request came in."""
    left = dict(AT_MOST)
    names: list[str] = []
    inside = False
    for frame in without_repetitions(visible(frames)):
        if frame.kind is Kind.DOOR and inside:
            break
        inside = inside or frame.kind is not Kind.DOOR
        kind = frame.kind if frame.kind in left else Kind.LIBRARY
        if left[kind]:
            left[kind] -= 1
            names.append(frame.name)
    return names


def without_repetitions(frames: Sequence[Frame]) -> list[Frame]:
    """Each run of equal frames once, and each run of equal cycles of frames: how deep it went says nothing."""
    kept: list[Frame] = []
    for frame in frames:
        kept.append(frame)
        for length in range(1, _LONGEST_CYCLE_FRAMES + 1):
            if kept[-length:] == kept[-2 * length : -length]:
                del kept[-length:]
                break
    return kept
