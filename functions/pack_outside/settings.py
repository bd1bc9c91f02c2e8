"""What the function outside of the VPC reads from its environment."""

from pydantic import Field

from dpp.platform.config import DecisionEngineSettings


class PackOutsideSettings(DecisionEngineSettings):
    """The decision engine alone: there is no database, no cache, no queue and no bucket out here.

    The engine's key is given as it is, or as the ARN of a secret, `{"api_key": …}`; as it is, it wins.
    """

    openai_api_key_secret_arn: str | None = Field(
        default=None,
        alias="DPP_DECISION_OPENAI_API_KEY_SECRET_ARN",
        pattern=r"^arn:",
        description='The secret `{"api_key": …}` in place of the key.',
    )
