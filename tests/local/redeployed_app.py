"""A CDK app of the platform's own constructs, the smallest that shows a release: migrations, and two functions.

Run by the CDK's command line with a folder that stands for a checkout; what it needs besides is in the environment.
"""

import os
import sys
from pathlib import Path

CHECKOUT = Path(sys.argv[1])
sys.path.insert(0, str(CHECKOUT))  # its `migrations`, whose content hash the template holds
sys.path.append(str(Path(__file__).parents[2] / "cdk"))

from aws_cdk import App, Stack  # noqa: E402

from dpp_cdk.functions.function import FunctionRecipe, LambdaFunction, Layers  # noqa: E402
from dpp_cdk.functions.migration import Migration  # noqa: E402
from dpp_cdk.functions.spec import Resource  # noqa: E402
from dpp_cdk.functions.table import HEALTH, MIGRATE, RUNS_READ  # noqa: E402
from dpp_cdk.settings.config import Deployment, LayerFolders  # noqa: E402
from dpp_cdk.settings.sizes import DEV  # noqa: E402


def main() -> None:
    """Describe the stack."""
    app = App()
    layers = CHECKOUT / "layers"
    deployment = Deployment(
        stage="redeployed",
        size=DEV,
        architecture=os.environ["ARCHITECTURE"],
        functions=CHECKOUT / "functions",
        layers=LayerFolders(
            layers / "deps",
            layers / "dpp",
            layers / "migrations",
            ocr=layers / "none",
            url=layers / "none",
            operate=layers / "none",
            api_docs=layers / "none",
        ),
        openapi_document=CHECKOUT / "openapi.json",
        variables={name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")},
    )
    stack = Stack(app, "Redeployed")
    nothing = {"DPP_RUN_QUEUE_URL": "http://127.0.0.1/none", "DPP_RESULTS_BUCKET": "none"}
    recipe = FunctionRecipe(
        deployment=deployment,
        layers=Layers(stack, "Layers", deployment).versions,
        variables={**deployment.variables, **nothing},
        secret_arns={},
        resource_arns={resource: [] for resource in Resource},
        place=None,
        findings={},
    )
    migration = Migration(stack, "Migrations", LambdaFunction(stack, recipe, MIGRATE))
    for spec in (HEALTH, RUNS_READ):
        migration.before(LambdaFunction(stack, recipe, spec).function)
    app.synth()


if __name__ == "__main__":
    main()
