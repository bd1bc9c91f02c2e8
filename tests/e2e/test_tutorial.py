"""docs/tutorial.md, typed block by block into one shell on the deployed stack."""

import os
import re
import subprocess

import pytest

from dpp_cli.paths import ROOT
from tests.e2e.conftest import Platform

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROMISED = (
    ('"status": "ok"',),
    ("balanced",),
    ('"status":"QUEUED"',),
    ("the same run: ",),
    ("COMPLETED", "0.0500", "Moving costs two monthly rents.", ": OK"),
    ('"status": 402', "BUDGET_DRAINED"),
    ("FAILED", "PACK_RELIABILITY_BELOW_MINIMUM", "0.0050"),
    ("0.0550", "0.9450", "all 1 balanced"),
)
"""The output that the page documents for each block."""


@pytest.mark.timeout(240)
def test_every_block_does_what_the_page_says_of_it(platform: Platform) -> None:
    """RUN-2, RUN-4, RUN-10, D2: a receipt, its repetition, a result, a refusal, a failure, and the books."""
    assert len(BLOCKS) == len(PROMISED)
    script = "set -euo pipefail\n" + "echo '=== block'\n".join(["", *BLOCKS])
    ran = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    _, *said = ran.stdout.split("=== block\n")
    for block, found, wanted in zip(BLOCKS, said, PROMISED, strict=True):
        assert all(words in found for words in wanted), f"{block}\n{found}"
