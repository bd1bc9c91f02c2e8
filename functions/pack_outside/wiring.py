"""What runs packs outside of the VPC, built once a container."""

import os
from functools import cache

from dpp.packs.process import PackProcess
from pack_outside.settings import PackOutsideSettings

_KEY_VARIABLE = "DPP_DECISION_OPENAI_API_KEY"


@cache
def wiring() -> PackProcess:
    """Read the environment, fetch the engine's key where it is given by reference, and warm the first process."""
    settings = PackOutsideSettings.load(os.environ)
    environ = dict(os.environ)
    if settings.openai_api_key is None and settings.openai_api_key_secret_arn is not None:
        from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, which most deployments do without here

        fields = secrets.shared(settings.openai_api_key_secret_arn).current()
        environ[_KEY_VARIABLE] = secrets.field(fields, "api_key")
    packs = PackProcess(environ)
    packs.prestart()
    return packs
