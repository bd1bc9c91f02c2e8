"""The queues of workspaces (D10): what is to be looked at, and what takes long."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from constructs import Construct

from dpp_cdk.functions.spec import Resource
from dpp_cdk.nag import acknowledge
from dpp_cdk.resources.queue import WorkQueue
from dpp_cdk.resources.schedules import ByQueue
from dpp_cdk.settings import timings

NO_QUEUES: Mapping[Resource, Sequence[str]] = {Resource.WORKSPACE_LOOKS: [], Resource.WORKSPACE_WORKS: []}
"""Of a deployment without workspaces."""


class WorkspaceQueues(Construct):
    """Both, and the clock that beats on them: each minute a look at the fleet, each hour a collection of archives.

    They outlive nothing: what is to be looked at and done stands in the rows, and the beat sends again what is lost.
    """

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, "WorkspaceQueues")
        self.looks = WorkQueue(self, "Looks", timings.WORKSPACES_CONTROL)
        self.works = WorkQueue(self, "Works", timings.WORKSPACES_STORAGE)
        for queue in (self.looks, self.works):
            acknowledge(
                queue.queue, "SQS3", "a message only says where to look: the beat sends a lost one again"
            )
        ByQueue(self, "Beat", self.looks, Duration.minutes(1))
        ByQueue(self, "Collection", self.works, Duration.hours(1))

    @property
    def variables(self) -> Mapping[str, str]:
        """What functions find here, by environment variable."""
        return {
            "DPP_WORKSPACE_LOOK_QUEUE_URL": self.looks.queue.queue_url,
            "DPP_WORKSPACE_WORK_QUEUE_URL": self.works.queue.queue_url,
        }

    @property
    def resource_arns(self) -> Mapping[Resource, Sequence[str]]:
        """What grants may name."""
        return {
            Resource.WORKSPACE_LOOKS: [self.looks.queue.queue_arn],
            Resource.WORKSPACE_WORKS: [self.works.queue.queue_arn],
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """What the operator commands find them by."""
        return {
            "WorkspaceLookQueueUrl": self.looks.queue.queue_url,
            "WorkspaceWorkQueueUrl": self.works.queue.queue_url,
        }
