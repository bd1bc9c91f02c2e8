"""Entry point of the CDK app; `cdk.json` calls it.

Context, each `-c name=value`, all optional:

- `size=dev|prod`: dev (the default) costs little and can be torn down, prod keeps its data (`settings/sizes.py`);
- `stage=NAME`: the name of the deployment, by default the size; every resource's name contains it;
- `architecture=aarch64|x86_64`: of functions and layers; arm on AWS, this machine's on the local stack;
- every other option of `dpp_cdk/settings/options.py`, which overrides `deploy/<stage>.json`.

With `DATABASE_URL` and `REDIS_URL` in the environment there is no network, no RDS and no ElastiCache: that is the local
stack, so it requires `AWS_ENDPOINT_URL`.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # for `migrations`, whose content hash is in the template

from aws_cdk import App  # noqa: E402

from dpp_cdk.nag import check  # noqa: E402
from dpp_cdk.settings.config import Deployment, DeploymentError  # noqa: E402
from dpp_cdk.stacks.deployment import describe  # noqa: E402


def main() -> None:
    """Synthesize one deployment. A missing or wrong value ends the synthesis with an error that names it."""
    app = App()
    try:
        deployment = Deployment.from_context(app, ROOT, os.environ)
        describe(app, deployment)
    except DeploymentError as error:
        sys.exit(f"error: {error}")
    if not deployment.given_servers:  # a deployment to AWS
        check(app)
    app.synth()


if __name__ == "__main__":
    main()
