"""The queues of workspaces (D10): observations, and long work."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from constructs import Construct

from dpp_cdk.functions.spec import Resource
from dpp_cdk.nag import acknowledge
from dpp_cdk.resources.queue import WorkQueue
from dpp_cdk.resources.schedules import ByQueue
from dpp_cdk.settings import timings

NO_QUEUES: Mapping[Resource, Sequence[str]] = {Resource.WORKSPACE_OBSERVE_QUEUE: [], Resource.WORKSPACE_WORK_QUEUE: []}
"""The resources of a deployment without workspaces."""


class WorkspaceQueues(Construct):
    """Both queues with their schedules: a tick each minute, a collection of archives each hour.

    The queues need not survive a release: the state is in the rows, and the tick sends lost messages again.
    """

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, "WorkspaceQueues")
        self.looks = WorkQueue(self, "Looks", timings.WORKSPACES_CONTROL)
        self.works = WorkQueue(self, "Works", timings.WORKSPACES_STORAGE)
        for queue in (self.looks, self.works):
            acknowledge(
                queue.queue, "SQS3", "a message only names a workspace to observe: the tick sends a lost one again"
            )
        ByQueue(self, "Beat", self.looks, Duration.minutes(1))
        ByQueue(self, "Collection", self.works, Duration.hours(1))

    @property
    def variables(self) -> Mapping[str, str]:
        """The queues' URLs by environment variable."""
        return {
            "DPP_WORKSPACE_LOOK_QUEUE_URL": self.looks.queue.queue_url,
            "DPP_WORKSPACE_WORK_QUEUE_URL": self.works.queue.queue_url,
        }

    @property
    def resource_arns(self) -> Mapping[Resource, Sequence[str]]:
        """The ARNs that grants may name."""
        return {
            Resource.WORKSPACE_OBSERVE_QUEUE: [self.looks.queue.queue_arn],
            Resource.WORKSPACE_WORK_QUEUE: [self.works.queue.queue_arn],
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs for operator commands."""
        return {
            "WorkspaceLookQueueUrl": self.looks.queue.queue_url,
            "WorkspaceWorkQueueUrl": self.works.queue.queue_url,
        }
