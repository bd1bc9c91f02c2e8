"""What asks the outside, built once a container."""

import os
from functools import cache, partial

from dpp.lifecycle.flow.egress import Credentials, Egress
from dpp.platform.aws.renewable import of_secret
from lifecycle_outside.settings import LifecycleOutsideSettings


@cache
def wiring() -> Egress:
    """Read the environment, and fetch the secret where one is named."""
    settings = LifecycleOutsideSettings.load(os.environ)
    return Egress(of_secret(settings.lifecycle_secret_arn, partial(Credentials.of, settings)))
