"""The bucket of result envelopes (RUN-18, RUN-30)."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

RESULT_PREFIX = "dpp/"
"""Every result lies below this (RUN-18), so every grant ends here."""


class ResultStore(Construct):
    """Private, encrypted, TLS only; results go after 30 days, abandoned uploads after 7."""

    def __init__(self, scope: Construct, id: str, *, keeps_data: bool) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="retention",
                    expiration=Duration.days(30),
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every result."""
        return self.bucket.arn_for_objects(f"{RESULT_PREFIX}*")
