"""Length-prefixed frames over pipes: how worker and pack process talk (D6).

A pipe, because it is all that every Lambda sandbox has: no /dev/shm, so no multiprocessing queue.
"""

import os
import select
import struct
import time

HEADER = struct.Struct(">I")

MAX_JOB_BYTES = 4 * 1024 * 1024
"""A context of 200,000 characters is at most 1.2 MB of JSON; the rest is room for packs to come."""

MAX_ANSWER_BYTES = 8_000_000
"""An answer becomes the envelope, whose larger members are stored beside it (RUN-18)."""


_CHUNK_BYTES = 65_536


class BrokenFrameError(Exception):
    """The data in the pipe is not a frame within the size limit."""


def encode(payload: bytes) -> bytes:
    """`payload` with its length before it."""
    return HEADER.pack(len(payload)) + payload


def take(buffer: bytearray, *, max_bytes: int) -> bytes | None:
    """Remove the first frame from `buffer` and return its payload; None while it is not yet complete.

    Raises BrokenFrameError as soon as the announced length is beyond `max_bytes`, before anything so long
    could be gathered.
    """
    if len(buffer) < HEADER.size:
        return None
    (length,) = HEADER.unpack_from(buffer)
    if length > max_bytes:
        raise BrokenFrameError(f"a frame of {length} bytes")
    end = HEADER.size + length
    if len(buffer) < end:
        return None
    payload = bytes(buffer[HEADER.size : end])
    del buffer[:end]
    return payload


def read_blocking(fd: int, *, max_bytes: int) -> bytes | None:
    """The next frame of a blocking pipe; None when the other end is closed before a frame is complete."""
    buffer = bytearray()
    while (payload := take(buffer, max_bytes=max_bytes)) is None:
        # One frame a direction and job, so reading on past its end would only meet a broken protocol.
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return None
        buffer += chunk
    return payload


def read_until(fd: int, buffer: bytearray, *, deadline: float, max_bytes: int) -> bytes | None:
    """The next frame; `buffer` keeps what was read beyond it. None when the other end is closed before it is complete.

    Raises TimeoutError at the deadline (`time.monotonic()`), and BrokenFrameError as `take`.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while (payload := take(buffer, max_bytes=max_bytes)) is None:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return None
        buffer += chunk
    return payload


def write_blocking(fd: int, payload: bytes) -> None:
    """Write one frame to a blocking pipe. Raises BrokenPipeError when nobody reads any more."""
    rest = memoryview(encode(payload))
    while rest:
        rest = rest[os.write(fd, rest) :]
