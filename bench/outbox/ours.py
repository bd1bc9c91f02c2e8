"""Our side of bench/outbox: posts by the use case, which wakes the publisher after each."""

from contextlib import closing
from uuid import UUID

from bench.outbox.posts import post_share, report_of
from bench.support.processes import Share
from bench.support.servers import TENANT
from dpp.auth_errors.api.record import record
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.db.postgres import Database
from tests.auth_errors.subprocess_workers import Servers as Endpoints


def poster(place: Endpoints, share: Share) -> None:
    waker = Waker(place.queue("wakes"))
    with closing(Database(place.database_url)) as database:

        def post(request_id: str) -> UUID:
            return record(report_of(request_id), TENANT, database, waker).error.auth_error_id

        post_share(share, post)
