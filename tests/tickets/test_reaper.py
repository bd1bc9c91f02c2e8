"""The reaper (TIX-1 … TIX-4): stale tickets become FAILED, with an exact report."""

import threading
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.platform.errors import PostgresUnavailable, StorageUnavailable
from dpp.tickets import reports, stop, store
from dpp.tickets.errors import EmergencyStopSet, NoReportYet, ReaperOvertaken, ReaperRunning, SnapshotNotFound
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import REAPER, Backlog, RequestType
from dpp.tickets.reap import ReapEffects, ReapRequest, reap
from dpp.tickets.staleness import LATEST_KEY, SHARE_COUNTS_FROM, Breaker, snapshot_key, snapshot_name
from tests.support.faults import Flaky, FlakyDatabase
from tests.support.stored import existing
from tests.tickets.environment import A_DAY, RULES, SEOUL, Environment

LOCKED_MESSAGE = "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 86400s threshold"


class TestStaleness:
    """000 §4-A."""

    def test_stale_ticket_fails_with_the_fixed_message(self, env: Environment) -> None:
        """TIX-2: never DONE; the processor is TICKET_REAPER."""
        ticket = env.stale()
        reaped = env.reap()
        whole = env.details(ticket)
        assert whole.ticket.current_status is TicketStatus.FAILED
        result = existing(whole.result)
        assert (result.processor_id, result.status) == (REAPER, TicketStatus.FAILED)
        assert result.message == LOCKED_MESSAGE
        assert whole.transitions[-1].actor == REAPER
        assert whole.ticket.processor_id == "a-processor"  # the crashed processor, as evidence
        assert [item.request_id for item in reaped.report.cleaned_items] == [ticket.request_id]

    def test_message_has_the_used_threshold(self, env: Environment) -> None:
        ticket = env.stale(hours=3)
        env.reap(rules=replace(RULES, threshold_seconds=7_200))
        result = existing(env.details(ticket).result)
        assert result.message == "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 7200s threshold"

    def test_open_ended_and_younger_tickets_are_not_changed(self, env: Environment) -> None:
        """TIX-1."""
        left = [env.file(), env.in_progress(silent_seconds=A_DAY - 60)]
        ended = env.stale()
        env.reap()
        before = [env.ticket(one) for one in (*left, ended)]
        report = env.reap().report
        assert (report.decision, report.stale_count, report.cleaned_items) == ("NONE", 0, ())
        assert [env.ticket(one) for one in (*left, ended)] == before

    def test_ticket_at_the_threshold_is_not_stale(self, env: Environment) -> None:
        """`last_processed_at` must be before now − threshold."""
        ticket = env.in_progress()
        assert ticket.last_processed_at is not None
        at = ticket.last_processed_at + timedelta(seconds=A_DAY)
        assert env.reap(at).report.stale_count == 0
        assert env.reap(at + timedelta(microseconds=1)).report.cleaned_count == 1

    def test_excluded_types_are_never_stale(self, env: Environment) -> None:
        """000 §4-A (3)."""
        excluded = env.stale(request_type=RequestType.EXECUTION_ENABLE)
        stale = env.stale(request_type=RequestType.DLQ_REDRIVE)
        reaped = env.reap(rules=replace(RULES, excluded_types=(RequestType.EXECUTION_ENABLE,)))
        assert reaped.report.stale_count == 1
        assert env.ticket(excluded).current_status is TicketStatus.IN_PROGRESS
        assert env.ticket(stale).current_status is TicketStatus.FAILED

    def test_oldest_tickets_are_ended_first_up_to_max_clean(self, env: Environment) -> None:
        tickets = [env.stale(hours=30 - n) for n in range(5)]
        report = env.reap(rules=replace(RULES, max_clean=2)).report
        assert [item.request_id for item in report.cleaned_items] == [one.request_id for one in tickets[:2]]
        assert (report.stale_count, report.cleaned_count) == (5, 2)  # all stale tickets
        assert env.reap(rules=replace(RULES, max_clean=2)).report.stale_count == 3


class TestConcurrency:
    """A working processor, and another reaper."""

    def test_heartbeat_between_read_and_write_wins(self, env: Environment) -> None:
        """Status and last_processed_at are checked on the locked row."""
        ticket = env.stale()
        with psycopg.connect(env.url) as processor:
            processor.execute("UPDATE tickets SET last_processed_at = now(), updated_at = now()")
            done = threading.Event()

            def run() -> None:
                env.reap()
                done.set()

            thread = threading.Thread(target=run)
            thread.start()  # it neither waits for the lock nor ends the ticket
            assert done.wait(10)
            thread.join()
            processor.commit()
        assert env.ticket(ticket).current_status is TicketStatus.IN_PROGRESS
        assert env.reap().report.stale_count == 0

    def test_ticket_finished_just_before_keeps_its_result(self, env: Environment) -> None:
        ticket = env.stale()
        assert env.using(store.finish, ticket, TicketStatus.DONE, "at the last moment")
        assert env.reap().report.cleaned_count == 0
        result = existing(env.details(ticket).result)
        assert (result.status, result.message) == (TicketStatus.DONE, "at the last moment")

    def test_finishing_after_the_reaper_returns_none(self, env: Environment) -> None:
        ticket = env.stale()
        env.reap()
        assert env.using(store.finish, ticket, TicketStatus.DONE, "too late") is None
        result = existing(env.details(ticket).result)
        assert result.message == LOCKED_MESSAGE

    def test_locked_tickets_do_not_hide_later_ones(self, env: Environment) -> None:
        """A full page of locked and excluded tickets starves no other ticket."""
        for _ in range(3):
            env.stale(hours=40, request_type=RequestType.EXECUTION_ENABLE)
        held = [env.stale(hours=30) for _ in range(3)]
        behind = env.stale(hours=26)
        rules = replace(RULES, max_clean=2, excluded_types=(RequestType.EXECUTION_ENABLE,))
        with psycopg.connect(env.url) as other:
            other.execute(
                "SELECT 1 FROM tickets WHERE request_id = ANY(%s) FOR UPDATE", ([one.request_id for one in held],)
            )
            report = env.reap(rules=rules).report
        assert [item.request_id for item in report.cleaned_items] == [behind.request_id]
        assert report.stale_count == 4

    def test_one_run_at_a_time(self, env: Environment) -> None:
        """The other run gets the start time."""
        entered, leave = threading.Event(), threading.Event()

        class SlowStorage:
            def put_json(self, _key: str, _body: bytes) -> None:
                entered.set()
                assert leave.wait(10)

        first = threading.Thread(target=lambda: env.reap(storage=SlowStorage(), actor="lee"))
        first.start()
        assert entered.wait(10)
        other = env.new_database()
        try:
            effects = ReapEffects(other, env.storage, SEOUL)
            with pytest.raises(ReaperRunning) as refused:
                reap(ReapRequest("kim", RULES), effects)
            assert refused.value.members["actor"] == "lee"
            assert datetime.fromisoformat(str(refused.value.members["started_at"])).utcoffset() is not None
            # A dry run changes nothing, so it is allowed.
            assert reap(ReapRequest("kim", RULES, dry_run=True), effects).report.decision == "NONE"
        finally:
            leave.set()
            first.join()
            other.close()
        env.reap()  # the lease was released

    def test_crashed_run_delays_others_for_three_minutes(self, env: Environment) -> None:
        env.rows(
            "INSERT INTO exclusive_leases VALUES ('TICKET_REAPER', gen_random_uuid(), 'dead', now(),"
            " now() + interval '180 seconds') RETURNING 1"
        )
        with pytest.raises(ReaperRunning):
            env.reap()
        env.reap(env.later(seconds=181))

    def test_run_with_an_expired_lease_writes_nothing(self, env: Environment) -> None:
        ticket = env.stale()

        class Sleepy(FlakyDatabase):
            """Another run takes the lease over before it is used."""

            def connection(self) -> Any:
                if self.uses == 1:
                    env.rows("UPDATE exclusive_leases SET token = gen_random_uuid() RETURNING 1")
                return super().connection()

        with closing(Sleepy(env.url)) as sleepy, pytest.raises(ReaperOvertaken):
            reap(ReapRequest("kim", RULES), ReapEffects(sleepy, env.storage, SEOUL))
        assert env.ticket(ticket).current_status is TicketStatus.IN_PROGRESS
        assert env.objects() == {}


class TestReport:
    """000 §2, §3, §6: TICKET_REAPER_REPORT_V1, its row and its copies."""

    def test_report_has_the_fields_of_the_contract_in_order(self, env: Environment) -> None:
        """TIX-3."""
        ticket = env.stale()
        report = env.reap().report
        data = report.model_dump(mode="json", by_alias=True)
        assert list(data) == [
            "schema", "asof", "decision", "threshold_seconds", "stale_count", "cleaned_count", "cleaned_items",
            "evidence_refs",
        ]  # fmt: skip
        assert data["schema"] == "TICKET_REAPER_REPORT_V1"
        assert data["decision"] == "CLEANED"
        (item,) = data["cleaned_items"]
        assert item["request_id"] == str(ticket.request_id)
        assert (item["request_type"], item["reason"]) == ("DLQ_REDRIVE", "AUTO_CLEANUP_STALE_IN_PROGRESS")
        assert ticket.last_processed_at is not None
        assert datetime.fromisoformat(item["last_processed_at"]) == ticket.last_processed_at
        assert item["last_processed_at"].endswith("+09:00")

    def test_times_have_the_offset_of_the_deployments_zone(self, env: Environment) -> None:
        """TIX-7."""
        at = datetime.fromisoformat("2036-01-23T12:00:00.987+00:00")
        data = env.reap(at).report.model_dump(mode="json", by_alias=True)
        assert data["asof"] == "2036-01-23T21:00:00+09:00"
        assert data["evidence_refs"] == ["reports/ops/tickets/reaper/snapshots/reaper_20360123_210000.json"]

    def test_copies_have_the_keys_of_the_contract(self, env: Environment) -> None:
        """TIX-4: snapshot and latest equal the returned report."""
        env.stale()
        reaped = env.reap()
        data = reaped.report.model_dump(mode="json", by_alias=True)
        assert env.objects() == {reaped.snapshot_key: data, LATEST_KEY: data}
        assert data["evidence_refs"] == [reaped.snapshot_key]

    def test_two_runs_within_a_second_have_two_snapshots(self, env: Environment) -> None:
        at = env.now()
        keys = [env.reap(at).snapshot_key for _ in range(3)]
        assert len(set(keys)) == 3
        assert set(env.objects()) == {*keys, LATEST_KEY}
        assert env.latest_object()["evidence_refs"] == [keys[-1]]

    def test_repeated_hour_of_a_clock_change_has_two_snapshots(self, env: Environment) -> None:
        """2036-11-02 01:30 in New York occurs twice, an hour apart."""
        zone = ZoneInfo("America/New_York")
        first = datetime.fromisoformat("2036-11-02T05:30:00+00:00")
        data = []
        for at in (first, first + timedelta(hours=1)):
            reaped = reap(ReapRequest("kim", RULES), env.reap_effects(zone=zone), at)
            data.append((reaped.report.asof.isoformat(), snapshot_name(reaped.snapshot_key or "")))
        assert data == [
            ("2036-11-02T01:30:00-04:00", "reaper_20361102_013000.json"),
            ("2036-11-02T01:30:00-05:00", "reaper_20361102_013000_2.json"),
        ]

    @given(seconds=st.integers(946_684_800, 4_102_444_800))
    def test_snapshot_name_is_the_time_of_the_report(self, seconds: int) -> None:
        """Including midnight and every clock change."""
        for zone in ("Asia/Seoul", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"):
            local = datetime.fromtimestamp(seconds, ZoneInfo(zone))
            name = snapshot_name(snapshot_key(local, 1))
            stamp = datetime.strptime(name, "reaper_%Y%m%d_%H%M%S.json")  # noqa: DTZ007 - local, as the name is
            assert stamp.isoformat() == local.isoformat()[:19]

    def test_dry_run_reports_and_changes_nothing(self, env: Environment) -> None:
        ticket = env.stale()
        reaped = env.reap(dry_run=True)
        assert (reaped.report.decision, reaped.report.stale_count, reaped.report.cleaned_count) == ("NONE", 1, 0)
        assert (reaped.snapshot_key, reaped.report.evidence_refs, env.objects()) == (None, (), {})
        assert env.ticket(ticket).current_status is TicketStatus.IN_PROGRESS
        with env.database.connection() as connection, pytest.raises(NoReportYet):
            reports.latest(connection)

    def test_earlier_report_is_found_by_its_snapshot(self, env: Environment) -> None:
        first, second = env.reap(), env.reap(env.later(hours=1))
        with env.database.connection() as connection:
            found = reports.of_snapshot(connection, snapshot_name(first.snapshot_key or ""))
            assert (found.report, reports.latest(connection).report) == (first.report, second.report)
            with pytest.raises(SnapshotNotFound):
                reports.of_snapshot(connection, "reaper_20000101_000000.json")


class TestBreaker:
    """Too many stale tickets point to another fault: none is ended until an operator confirms."""

    @pytest.mark.parametrize(
        ("stale", "in_progress", "confirmed", "trips"),
        [
            (0, 0, 0, False),
            (100, 1_000, 0, False),
            (101, 1_000, 0, True),
            (101, 1_000, 101, False),
            (102, 1_000, 101, True),  # more than the operator confirmed
            (SHARE_COUNTS_FROM, 2 * SHARE_COUNTS_FROM, 0, False),
            (SHARE_COUNTS_FROM + 1, 2 * SHARE_COUNTS_FROM, 0, True),
            (SHARE_COUNTS_FROM - 1, SHARE_COUNTS_FROM - 1, 0, False),  # the share is not checked for a few
        ],
    )
    def test_breaker_trips_by_count_and_by_share(
        self, stale: int, in_progress: int, confirmed: int, trips: bool
    ) -> None:
        assert RULES.breaker.trips(Backlog(in_progress, stale), confirmed) is trips

    def test_tripped_breaker_ends_none_and_reports_the_count(self, env: Environment) -> None:
        tickets = [env.stale() for _ in range(3)]
        rules = replace(RULES, breaker=Breaker(max_stale=2, max_share=1))
        reaped = env.reap(rules=rules)
        assert reaped.breaker_tripped
        assert (reaped.report.decision, reaped.report.stale_count, reaped.report.cleaned_count) == ("NONE", 3, 0)
        assert env.rows("SELECT breaker_tripped FROM ticket_reaper_reports") == [(True,)]
        assert {env.ticket(one).current_status for one in tickets} == {TicketStatus.IN_PROGRESS}
        confirmed = env.reap(rules=rules, confirmed_stale=3)
        assert (confirmed.breaker_tripped, confirmed.report.cleaned_count) == (False, 3)


class TestFaults:
    """Crashes between any two steps, and unavailable dependencies."""

    def test_s3_outage_delays_the_copies_only(self, env: Environment) -> None:
        """Like a crash after the commit: the next run publishes both reports, in order."""
        env.stale()
        away = Flaky(env.storage, StorageUnavailable, before={"put_json"})
        first = env.reap(storage=away)
        assert (first.published, first.report.cleaned_count, env.objects()) == (False, 1, {})
        assert env.using(reports.latest).report == first.report  # GET …/latest reads the row
        second = env.reap(env.later(hours=1))
        data = {r.snapshot_key: r.report.model_dump(mode="json", by_alias=True) for r in (first, second)}
        assert env.objects() == {**data, LATEST_KEY: data[second.snapshot_key]}

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_next_run_repairs_a_crash_between_the_copies(self, env: Environment, lost: str) -> None:
        """After the snapshot, or after `latest` and before the mark."""
        puts: list[str] = []

        class Dying:
            def put_json(self, key: str, body: bytes) -> None:
                puts.append(key)
                if lost == "before" and key == LATEST_KEY:
                    raise StorageUnavailable("died")
                env.storage.put_json(key, body)
                if key == LATEST_KEY:
                    raise StorageUnavailable("died")

        first = env.reap(storage=Dying())
        assert puts == [first.snapshot_key, LATEST_KEY]  # stored, then published
        assert not first.published
        env.reap(env.later(hours=1))
        assert env.rows("SELECT count(*) FROM ticket_reaper_reports WHERE published_at IS NULL") == [(0,)]

    def test_crash_before_the_commit_changes_nothing(self, env: Environment) -> None:
        ticket = env.stale()
        with closing(FlakyDatabase(env.url, refuse={2})) as flaky, pytest.raises(PostgresUnavailable):
            reap(ReapRequest("kim", RULES), replace(env.reap_effects(), database=flaky))
        assert env.ticket(ticket).current_status is TicketStatus.IN_PROGRESS
        assert env.rows("SELECT count(*) FROM ticket_reaper_reports") == [(0,)]
        assert env.reap().report.cleaned_count == 1

    def test_commit_with_a_lost_reply_is_reported_once(self, env: Environment) -> None:
        ticket = env.stale()
        with closing(FlakyDatabase(env.url, lose_reply={2})) as flaky, pytest.raises(PostgresUnavailable):
            reap(ReapRequest("kim", RULES), replace(env.reap_effects(), database=flaky))
        assert env.ticket(ticket).current_status is TicketStatus.FAILED
        report = env.reap().report
        assert report.stale_count == 0
        found = env.rows("SELECT report ->> 'cleaned_count' FROM ticket_reaper_reports ORDER BY report_id")
        assert found == [("1",), ("0",)]
        assert len(env.objects()) == 3

    def test_no_run_writes_while_the_stop_is_set(self, env: Environment) -> None:
        ticket = env.stale()
        env.using(stop.decide, stopped=True, actor="kim", reason="a bad release")
        with pytest.raises(EmergencyStopSet, match="a bad release"):
            env.reap()
        assert env.ticket(ticket).current_status is TicketStatus.IN_PROGRESS
        assert env.reap(dry_run=True).report.stale_count == 1
        env.using(stop.decide, stopped=False, actor="kim", reason="it was taken back")
        assert env.reap().report.cleaned_count == 1


def test_reaper_result_needs_an_existing_ticket(env: Environment) -> None:
    """An unknown id changes nothing and is no error."""
    nobody = replace(env.in_progress(), request_id=uuid4())
    assert env.using(store.finish, nobody, TicketStatus.DONE, "x") is None
