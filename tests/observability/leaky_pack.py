"""A pack that writes its inputs and environment everywhere: an executor module for the tests of leaks."""

import logging
import os
import sys
import warnings
from collections.abc import Mapping

from dpp.packs.contract import PackRequest, PackResult, PackSuccess


def warm() -> None:
    """Import nothing."""


def execute(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    """Write inputs and environment to every channel, then end as the question's first word says."""
    text = f"{request.inputs} {dict(environ)} {dict(os.environ)}"
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("dpp.packs").error(text)
    warnings.warn(text, stacklevel=1)
    for stream in (sys.stdout, sys.stderr):
        print(text, file=stream, flush=True)
    for descriptor in (1, 2):
        os.write(descriptor, text.encode())
    question = str(request.inputs["question"])
    if question.startswith("raise"):
        raise RuntimeError(text)
    if question.startswith("exit"):
        os._exit(1)
    return PackSuccess(data={"echo": text}, reliability_score=1.0, cost_usd_micros=50_000)
