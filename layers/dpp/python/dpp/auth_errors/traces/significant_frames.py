"""Selects the frames that distinguish an error from others (AUTH-10). Pure."""

from collections.abc import Sequence

from dpp.auth_errors.traces.model import Frame, FrameKind, visible

AT_MOST = {FrameKind.APPLICATION: 8, FrameKind.LIBRARY: 8, FrameKind.LINE: 16}
"""The number of frames of each kind that count, the innermost first, at any depth of the trace."""

_LONGEST_CYCLE_FRAMES = 6


def significant_names(frames: Sequence[Frame]) -> list[str]:
    """The names of the frames from the place where the error was raised to the entry point of the request."""
    left = dict(AT_MOST)
    names: list[str] = []
    inside = False
    for frame in without_repetitions(visible(frames)):
        if frame.kind is FrameKind.ENTRY_POINT and inside:
            break
        inside = inside or frame.kind is not FrameKind.ENTRY_POINT
        kind = frame.kind if frame.kind in left else FrameKind.LIBRARY
        if left[kind]:
            left[kind] -= 1
            names.append(frame.name)
    return names


def without_repetitions(frames: Sequence[Frame]) -> list[Frame]:
    """The frames with each repeated frame or cycle of frames once: the depth of a recursion is not significant."""
    kept: list[Frame] = []
    for frame in frames:
        kept.append(frame)
        for length in range(1, _LONGEST_CYCLE_FRAMES + 1):
            if kept[-length:] == kept[-2 * length : -length]:
                del kept[-length:]
                break
    return kept
