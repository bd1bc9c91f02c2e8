"""The ARNs of a Bedrock model id (Bedrock guide, "Prerequisites for inference profiles")."""

import re
from collections.abc import Sequence

from aws_cdk import Stack

_PROFILE = re.compile(r"(us|us-gov|eu|apac|jp|au|ca|global)\.(?P<model>.+)")


def model_arns(stack: Stack, model_id: str) -> Sequence[str]:
    """The ARNs that a function must be permitted to invoke to use `model_id`; none for an empty one.

    An inference profile (`us.anthropic…`) belongs to this account and region, and forwards to its model in any region,
    so the model's ARN has a wildcard for the region.
    """
    if not model_id:
        return []
    if model_id.startswith("arn:"):
        return [model_id]
    if (profile := _PROFILE.fullmatch(model_id)) is None:
        return [f"arn:{stack.partition}:bedrock:{stack.region}::foundation-model/{model_id}"]
    return [
        f"arn:{stack.partition}:bedrock:{stack.region}:{stack.account}:inference-profile/{model_id}",
        f"arn:{stack.partition}:bedrock:*::foundation-model/{profile['model']}",
    ]
