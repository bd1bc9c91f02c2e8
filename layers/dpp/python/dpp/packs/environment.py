"""Selects the environment variables that a pack process gets: few, and by pack (D6, D8).

The worker's own environment holds the database, the cache and the role's credentials. A pack parses what
untrusted data, so its process starts without them; a job brings the variables that its pack needs.
"""

import os
import sys
from collections.abc import Mapping

from dpp.packs.contract import PackRequest, PackType
from dpp.packs.models.need import needs_model
from dpp.packs.ocr.settings import OcrSettings
from dpp.packs.process_tree import MARK_VARIABLE
from dpp.platform.config import ModelSettings

_INTERPRETER_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")

BEDROCK_MODEL_VARIABLE = "DPP_DECISION_BEDROCK_MODEL_ID"

_AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    # Where Lambda with SnapStart keeps the role's credentials instead.
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
)


def process_environment(environ: Mapping[str, str], *, scratch: str, mark: str) -> dict[str, str]:
    """Return the environment of a new pack process: enough for the interpreter, no secret."""
    # BEDROCK_MODEL_VARIABLE is no secret, and tells the process to import boto3 before the timebox runs.
    names = (*_INTERPRETER_VARIABLES, BEDROCK_MODEL_VARIABLE)
    return {
        **{name: environ[name] for name in names if environ.get(name)},
        # Lambda's bootstrap adds the layers to sys.path, not always to PYTHONPATH.
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "HOME": scratch,
        "TMPDIR": scratch,
        # Each thread's arena would count 64 MB against the address space limit.
        "MALLOC_ARENA_MAX": "2",
        # Tesseract's threads would only wait for each other on a function's one CPU.
        "OMP_THREAD_LIMIT": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        MARK_VARIABLE: mark,
    }


def job_environment(environ: Mapping[str, str], request: PackRequest) -> dict[str, str]:
    """Return a job's variables: the model's for a job that asks it, with AWS credentials only for Bedrock."""
    # The objects of ocr come by signed URLs, so it gets no credentials.
    names = OcrSettings.variables() if request.pack_type is PackType.OCR else ()
    if needs_model(request.pack_type, request.inputs):
        names = (*names, *ModelSettings.variables())
        if environ.get(BEDROCK_MODEL_VARIABLE):
            names = (*names, *_AWS_VARIABLES)
    return {name: environ[name] for name in names if environ.get(name)}
