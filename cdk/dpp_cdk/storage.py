"""The bucket of result envelopes (RUN-18, RUN-30)."""

from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpp.packs.registry import INPUT_OBJECT_PREFIX

RESULT_PREFIX = "dpp/"
"""Every result lies below this (RUN-18), so every grant ends here."""


class ResultStore(Construct):
    """Private, encrypted, TLS only; results go after 30 days, abandoned uploads after 7.

    Not versioned: every key is written once, by the winner of its claim (RUN-19), and a version kept after its
    expiry would be a result that outlives its retention. `empties_itself`: where the stack may be torn down,
    the CDK's own function deletes the objects first.
    """

    def __init__(self, scope: Construct, id: str, *, keeps_data: bool, empties_itself: bool) -> None:
        super().__init__(scope, id)
        removal = RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY
        empties = empties_itself and not keeps_data
        self.access_log = self._bucket(
            "AccessLog", removal, empties, s3.LifecycleRule(id="retention", expiration=Duration.days(90))
        )
        self.bucket = self._bucket(
            "Bucket",
            removal,
            empties,
            s3.LifecycleRule(
                id="retention",
                expiration=Duration.days(30),
                abort_incomplete_multipart_upload_after=Duration.days(7),
            ),
            server_access_logs_bucket=self.access_log,
            server_access_logs_prefix="results/",
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every result."""
        return self.bucket.arn_for_objects(f"{RESULT_PREFIX}*")

    @property
    def input_objects_arn(self) -> str:
        """The ARN of what clients put there for the ocr pack; whose an object is, its key says (RUN-27)."""
        return self.bucket.arn_for_objects(f"{INPUT_OBJECT_PREFIX}*")

    def _bucket(
        self, id: str, removal: RemovalPolicy, empties: bool, rule: s3.LifecycleRule, **more: Any
    ) -> s3.Bucket:
        return s3.Bucket(
            self,
            id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[rule],
            removal_policy=removal,
            auto_delete_objects=empties,
            **more,
        )
