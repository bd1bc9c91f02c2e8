"""The buckets: of result envelopes (RUN-18, RUN-30), of the reaper's reports (TIX-4), of archives (WS-10), and of what
tasks leave (LIFE-3, LIFE-4)."""

from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpp.packs.registry import INPUT_OBJECT_PREFIX
from dpp.tickets.staleness import LATEST_KEY

RESULT_PREFIX = "dpp/"
"""Every result lies below this (RUN-18), so every grant ends here."""

_LATEST_PREFIX = LATEST_KEY.rpartition("/")[0] + "/"
REPORT_PREFIX = _LATEST_PREFIX.removesuffix("latest/")
"""Every report lies below this (TIX-4), so every grant ends here."""

REPORT_DAYS = 400
"""A year and what an audit takes: evidence outlives the results that it may be about."""

ARCHIVE_NET_DAYS = 7
"""How long a deleted archive can be had back by hand; a deleted workspace is gone for good only then."""

_ACCESS_LOG_DAYS = 90


class ResultStore(Construct):
    """Private, encrypted, TLS only; results go after 30 days, abandoned uploads after 7.

    Not versioned: every key is written once, by the winner of its claim (RUN-19), and a version kept after its
    expiry would be a result that outlives its retention. `empties_itself`: where the stack may be torn down,
    the CDK's own function deletes the objects first.
    """

    def __init__(self, scope: Construct, id: str, *, keeps_data: bool, empties_itself: bool) -> None:
        super().__init__(scope, id)
        how = _how_it_goes(keeps_data=keeps_data, empties_itself=empties_itself)
        self.access_log = _bucket(
            self,
            "AccessLog",
            s3.LifecycleRule(id="retention", expiration=Duration.days(_ACCESS_LOG_DAYS)),
            **how,
        )
        self.bucket = _bucket(
            self,
            "Bucket",
            s3.LifecycleRule(
                id="retention",
                expiration=Duration.days(30),
                abort_incomplete_multipart_upload_after=Duration.days(7),
            ),
            server_access_logs_bucket=self.access_log,
            server_access_logs_prefix="results/",
            **how,
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every result."""
        return self.bucket.arn_for_objects(f"{RESULT_PREFIX}*")

    @property
    def input_objects_arn(self) -> str:
        """The ARN of what clients put there for the ocr pack; whose an object is, its key says (RUN-27)."""
        return self.bucket.arn_for_objects(f"{INPUT_OBJECT_PREFIX}*")


class ReportStore(Construct):
    """As private as the results, and kept for 400 days: reports are evidence (TIX-4).

    Versioned: whoever may write a report can't write one over so that nobody sees. What stood there before is kept as
    long as the access log that says who did it; of `latest`, which each run writes anew, for a day.
    """

    def __init__(
        self, scope: Construct, id: str, *, access_log: s3.Bucket, keeps_data: bool, empties_itself: bool
    ) -> None:
        super().__init__(scope, id)
        self.bucket = _bucket(
            self,
            "Bucket",
            s3.LifecycleRule(
                id="retention",
                expiration=Duration.days(REPORT_DAYS),
                noncurrent_version_expiration=Duration.days(_ACCESS_LOG_DAYS),
            ),
            s3.LifecycleRule(
                id="latest", prefix=_LATEST_PREFIX, noncurrent_version_expiration=Duration.days(1)
            ),
            versioned=True,
            server_access_logs_bucket=access_log,
            server_access_logs_prefix="reports/",
            **_how_it_goes(keeps_data=keeps_data, empties_itself=empties_itself),
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every report."""
        return self.bucket.arn_for_objects(f"{REPORT_PREFIX}*")


class ArchiveStore(Construct):
    """As private as the results; an archive is kept until the collector deletes it, whatever its age (WS-10).

    Versioned: an archive may be all that is left of a home, and what was deleted or written over by mistake can be had
    back for a week. What an upload left unfinished goes after a day, longer than any takes.
    """

    def __init__(
        self, scope: Construct, id: str, *, access_log: s3.Bucket, keeps_data: bool, empties_itself: bool
    ) -> None:
        super().__init__(scope, id)
        self.bucket = _bucket(
            self,
            "Bucket",
            s3.LifecycleRule(
                id="retention",
                noncurrent_version_expiration=Duration.days(ARCHIVE_NET_DAYS),
                expired_object_delete_marker=True,
                abort_incomplete_multipart_upload_after=Duration.days(1),
            ),
            versioned=True,
            server_access_logs_bucket=access_log,
            server_access_logs_prefix="archives/",
            **_how_it_goes(keeps_data=keeps_data, empties_itself=empties_itself),
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every archive, and of every proof beside one."""
        return self.bucket.arn_for_objects("*")


class StateStore(Construct):
    """As private as the results; what tasks leave there is kept until the chamberlain deletes it, with its row.

    Not versioned: what he deleted has outlived its use, and a version would outlive him. No rule by age: a row that
    still needs its object says so, and a rule would not ask.
    """

    def __init__(
        self, scope: Construct, id: str, *, access_log: s3.Bucket, keeps_data: bool, empties_itself: bool
    ) -> None:
        super().__init__(scope, id)
        self.bucket = _bucket(
            self,
            "Bucket",
            s3.LifecycleRule(id="uploads", abort_incomplete_multipart_upload_after=Duration.days(1)),
            server_access_logs_bucket=access_log,
            server_access_logs_prefix="state/",
            **_how_it_goes(keeps_data=keeps_data, empties_itself=empties_itself),
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of all that tasks left."""
        return self.bucket.arn_for_objects("*")


def _how_it_goes(*, keeps_data: bool, empties_itself: bool) -> dict[str, Any]:
    """What becomes of a bucket with its stack."""
    return {
        "removal_policy": RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        "auto_delete_objects": empties_itself and not keeps_data,
    }


def _bucket(scope: Construct, id: str, *rules: s3.LifecycleRule, **more: Any) -> s3.Bucket:
    return s3.Bucket(
        scope,
        id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=list(rules),
        **more,
    )
