"""The buckets: result envelopes (RUN-18, RUN-30), the reaper's reports (TIX-4), archives of homes (WS-10), and the
files of tasks (LIFE-3, LIFE-4). All are private, encrypted and reachable over TLS only."""

from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpp.packs.inputs.ocr import INPUT_OBJECT_PREFIX
from dpp.tickets.staleness import LATEST_KEY

RESULT_PREFIX = "dpp/"
"""The prefix of every result (RUN-18), and of the grants on results."""

_LATEST_PREFIX = LATEST_KEY.rpartition("/")[0] + "/"
REPORT_PREFIX = _LATEST_PREFIX.removesuffix("latest/")
"""The prefix of every report (TIX-4), and of the grants on reports."""

REPORT_DAYS = 400
"""A year and the time of an audit: evidence outlives the results that it is about."""

ARCHIVE_RECOVERY_DAYS = 7
"""For this time an operator can restore a deleted archive; afterwards a deleted workspace is gone for good."""

_ACCESS_LOG_DAYS = 90


@dataclass(frozen=True)
class BucketLife:
    """A bucket's behaviour when its stack is deleted. `empties_itself`: the CDK's own function deletes the objects
    first, where the stack may be torn down."""

    keeps_data: bool
    empties_itself: bool

    @property
    def options(self) -> dict[str, Any]:
        """The bucket's arguments."""
        return {
            "removal_policy": RemovalPolicy.RETAIN if self.keeps_data else RemovalPolicy.DESTROY,
            "auto_delete_objects": self.empties_itself and not self.keeps_data,
        }


class ResultStore(Construct):
    """The bucket of results, and the access log of all buckets. Results expire after 30 days, partial uploads after 7.

    Not versioned: every key is written once, by the winner of its claim (RUN-19), and a noncurrent version would
    outlive the retention of results.
    """

    def __init__(self, scope: Construct, id: str, life: BucketLife) -> None:
        super().__init__(scope, id)
        log_rule = s3.LifecycleRule(id="retention", expiration=Duration.days(_ACCESS_LOG_DAYS))
        self.access_log = _bucket(self, "AccessLog", log_rule, **life.options)
        self.bucket = _bucket(
            self,
            "Bucket",
            s3.LifecycleRule(
                id="retention", expiration=Duration.days(30), abort_incomplete_multipart_upload_after=Duration.days(7)
            ),
            server_access_logs_bucket=self.access_log,
            server_access_logs_prefix="results/",
            **life.options,
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every result."""
        return self.bucket.arn_for_objects(f"{RESULT_PREFIX}*")

    @property
    def input_objects_arn(self) -> str:
        """The ARN of clients' files for the ocr pack; the key contains the tenant (RUN-27)."""
        return self.bucket.arn_for_objects(f"{INPUT_OBJECT_PREFIX}*")


@dataclass(frozen=True)
class StoreSpec:
    """A bucket beside that of results. `prefix`: of all its objects."""

    log_prefix: str
    rules: tuple[s3.LifecycleRule, ...]
    prefix: str = ""
    versioned: bool | None = None


def reports() -> StoreSpec:
    """Kept for 400 days: reports are evidence (TIX-4).

    Versioned, so that a writer cannot overwrite a report unnoticed. A noncurrent version is kept as long as the access
    log that says who replaced it; one of `latest`, which each run overwrites, for a day.
    """
    kept = s3.LifecycleRule(
        id="retention",
        expiration=Duration.days(REPORT_DAYS),
        noncurrent_version_expiration=Duration.days(_ACCESS_LOG_DAYS),
    )
    latest = s3.LifecycleRule(id="latest", prefix=_LATEST_PREFIX, noncurrent_version_expiration=Duration.days(1))
    return StoreSpec("reports/", (kept, latest), prefix=REPORT_PREFIX, versioned=True)


def archives() -> StoreSpec:
    """Archives and their proofs are kept until the collector deletes them, whatever their age (WS-10).

    Versioned: an archive may be all that is left of a home, so one deleted or overwritten by mistake can be restored
    for a week. Unfinished uploads are removed after a day, longer than any takes.
    """
    rule = s3.LifecycleRule(
        id="retention",
        noncurrent_version_expiration=Duration.days(ARCHIVE_RECOVERY_DAYS),
        expired_object_delete_marker=True,
        abort_incomplete_multipart_upload_after=Duration.days(1),
    )
    return StoreSpec("archives/", (rule,), versioned=True)


def task_files() -> StoreSpec:
    """The files of tasks are kept until the chamberlain (cleaner) deletes them with their rows.

    Not versioned: a noncurrent version would outlive the retention. No expiry by age, because a lifecycle rule cannot
    tell whether a row still needs its object.
    """
    rule = s3.LifecycleRule(id="uploads", abort_incomplete_multipart_upload_after=Duration.days(1))
    return StoreSpec("state/", (rule,))


class ObjectBucket(Construct):
    """The bucket of a spec, with its access log."""

    def __init__(self, scope: Construct, id: str, spec: StoreSpec, *, access_log: s3.Bucket, life: BucketLife) -> None:
        super().__init__(scope, id)
        self._prefix = spec.prefix
        self.bucket = _bucket(
            self,
            "Bucket",
            *spec.rules,
            versioned=spec.versioned,
            server_access_logs_bucket=access_log,
            server_access_logs_prefix=spec.log_prefix,
            **life.options,
        )

    @property
    def objects_arn(self) -> str:
        """The ARN of every object of the spec."""
        return self.bucket.arn_for_objects(f"{self._prefix}*")


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
