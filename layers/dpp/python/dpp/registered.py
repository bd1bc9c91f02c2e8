"""The retention classes of all contexts (LIFE-8): the one place that names them all.

Above the contexts, which know nothing of each other, and below the functions: the chamberlain's and the operator's
command take the same list.
"""

from collections.abc import Sequence

from dpp.auth_errors import retention as auth_errors
from dpp.auth_errors.config import check_outbox_days
from dpp.lifecycle.retention.classes import CLASSES
from dpp.lifecycle.retention.periods import Retention
from dpp.lifecycle.retention.registry import ordered
from dpp.platform.db.retention import RetentionClass
from dpp.runs.jobs import retention as runs
from dpp.tickets import retention as tickets
from dpp.workspaces import retention as workspaces


def registered(retention: Retention, max_retries: int) -> Sequence[RetentionClass]:
    """Every class, in the order in which they are deleted; `max_retries`: of the events of authentication errors.

    Raises RetentionContradiction, and ConfigurationError where an event may outlive the memory of it (AUTH-5).
    """
    check_outbox_days(retention.outbox_days, max_retries)
    every = (*CLASSES, *runs.CLASSES, *tickets.CLASSES, *auth_errors.CLASSES, *workspaces.CLASSES)
    return ordered(every, retention)
