"""What asks the outside, built once a container."""

import os
from functools import cache

from dpp.lifecycle.egress import Credentials, Egress
from lifecycle_outside.settings import LifecycleOutsideSettings


@cache
def wiring() -> Egress:
    """Read the environment, and fetch the secret where one is named."""
    settings = LifecycleOutsideSettings.load(os.environ)
    if settings.lifecycle_secret_arn is None:
        return Egress(Credentials.of(settings, {}))
    from dpp.platform import secrets  # noqa: PLC0415 - boto3, which credentials that are given outright do without

    secret = secrets.shared(settings.lifecycle_secret_arn)
    return Egress(
        Credentials.of(settings, secret.current()), lambda: Credentials.of(settings, secret.renewed())
    )
