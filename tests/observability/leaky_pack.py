"""A pack that tells everyone what it was given: an executor module for the test of what leaves a function."""

import logging
import os
import sys
import warnings
from collections.abc import Mapping

from dpp.packs.contract import PackRequest, PackResult, PackSuccess


def warm() -> None:
    """Nothing to import."""


def execute(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    """Say the inputs and the environment on every channel, then end as the question begins."""
    said = f"{request.inputs} {dict(environ)} {dict(os.environ)}"
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("dpp.packs").error(said)
    warnings.warn(said, stacklevel=1)
    for stream in (sys.stdout, sys.stderr):
        print(said, file=stream, flush=True)
    for descriptor in (1, 2):
        os.write(descriptor, said.encode())
    question = str(request.inputs["question"])
    if question.startswith("raise"):
        raise RuntimeError(said)
    if question.startswith("exit"):
        os._exit(1)
    return PackSuccess(data={"echo": said}, reliability_score=1.0, cost_usd_micros=50_000)
