"""The process in which pages are read, one at a time, each in a child with limits of its own (RUN-26, RUN-17).

`python -P -s -m dpp.packs.url.reading REQUEST_FD ANSWER_FD FIRST_CPU_SECONDS CPU_SECONDS`.

On purpose-made pages a parser takes minutes or gigabytes or ends in a segmentation fault, and none of these can be
stopped from within. A child that meets its limit costs only its page, and what it had answered by then is kept. If that
is nothing, a second child reads the page's beginning.

A request is a frame: content type, URL and body, with a line end after the first two. Each answer is a frame with a
`Text` as JSON, the better one last; an empty frame ends them.
"""

import dataclasses
import json
import os
import resource
import select
import sys
from typing import NoReturn

from dpp.packs import frames
from dpp.packs.process_limits import lower_limit
from dpp.packs.url.extract import extract, extracted
from dpp.packs.url.reader import CpuSeconds

BEGINNING_BYTES = 100_000
"""A second child reads this much: the time of a parser grows with the square of the depth, and memory with the size."""

_MEMORY_BYTES = 512 * 1024 * 1024


def main(request_fd: int, answer_fd: int, limit: CpuSeconds) -> None:
    """Read pages until the other end of the pipe is closed."""
    warm = False
    while True:
        if not warm and not select.select([request_fd], [], [], 0)[0]:
            # Nothing to read yet: import and compile now what each child would else do for itself.
            extract("text/html", "https://example.com/", b"<p>A page.")
            warm = True
        request = frames.read_blocking(request_fd, max_bytes=frames.MAX_JOB_BYTES)
        if request is None:
            return
        content_type, url, body = request.split(b"\n", 2)
        page = (content_type.decode("latin-1"), url.decode())
        if not _read_in_child(*page, body, answer_fd, limit=limit, cut=False) and len(body) > BEGINNING_BYTES:
            _read_in_child(*page, body[:BEGINNING_BYTES], answer_fd, limit=limit, cut=True)
        frames.write_blocking(answer_fd, b"")


def _read_in_child(content_type: str, url: str, body: bytes, answer_fd: int, *, limit: CpuSeconds, cut: bool) -> bool:
    """Return whether there was an answer, which a byte in a pipe reports."""
    report_read, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _read(content_type, url, body, answer_fd, report, limit=limit, cut=cut)
        finally:
            os._exit(1)
    os.close(report)
    os.waitpid(child, 0)
    answered = os.read(report_read, 1) != b""
    os.close(report_read)
    return answered


def _read(
    content_type: str, url: str, body: bytes, answer_fd: int, report: int, *, limit: CpuSeconds, cut: bool
) -> NoReturn:
    lower_limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    lower_limit(resource.RLIMIT_CPU, limit.first, limit.whole)
    for text in extracted(content_type, url, body):
        frames.write_blocking(answer_fd, json.dumps({**dataclasses.asdict(text), "cut": cut}).encode())
        os.write(report, b"1")
        lower_limit(resource.RLIMIT_CPU, limit.whole)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), CpuSeconds(int(sys.argv[3]), int(sys.argv[4])))
