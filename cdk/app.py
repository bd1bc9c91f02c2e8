"""Entry point of the CDK app; `cdk.json` calls it.

Context: `-c stage=dev|prod`, `-c architecture=x86_64|aarch64`.
"""

import os
import sys
from pathlib import Path

from aws_cdk import App

from dpp_cdk.config import Deployment, DeploymentError
from dpp_cdk.stack import DppStack


def main() -> None:
    """Describe the stack `Dpp-<stage>`; a missing value ends the synthesis with its name."""
    app = App()
    try:
        deployment = Deployment.from_context(app, Path(__file__).resolve().parents[1], os.environ)
        DppStack(app, f"Dpp-{deployment.stage}", deployment)
    except DeploymentError as error:
        sys.exit(f"error: {error}")
    app.synth()


if __name__ == "__main__":
    main()
