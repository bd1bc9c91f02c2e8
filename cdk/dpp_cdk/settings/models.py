"""Which ARNs a Bedrock model id stands for (Bedrock guide, "Prerequisites for inference profiles")."""

import re
from collections.abc import Sequence

from aws_cdk import Stack

_PROFILE = re.compile(r"(us|us-gov|eu|apac|jp|au|ca|global)\.(?P<model>.+)")


def model_arns(stack: Stack, model_id: str) -> Sequence[str]:
    """What a function must be allowed to invoke to use `model_id`; nothing for an empty one.

    An inference profile (`us.anthropic…`) is one of this account and region, and hands on to its model in
    whichever region has room: the one place where a region is not known.
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
