"""The executors of all ticket types: each takes effect once per request_id (TIX-6)."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from dpp.packs.contract import PackType
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import RedisUnavailable
from dpp.runs.operations import switch
from dpp.tickets.errors import TicketRefused
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.process import ProcessEffects, ProcessReport, TicketOutcome, process_tickets
from ops_cycle.executors import Owners, executors
from tests.support.faults import Flaky
from tests.support.world import Tenant, World
from tests.tickets.environment import RULES, Environment


@pytest.fixture
def dead_letters(aws: None) -> Queue:
    client = boto3.client("sqs")
    url = client.create_queue(QueueName=f"dead-{uuid4().hex}")["QueueUrl"]
    return Queue(url, lambda: client)


@pytest.fixture
def owners(world: World, dead_letters: Queue) -> Owners:
    return Owners(world.database, world.ledger, world.queue, dead_letters)


def carry_out(owners: Owners, ticket: Ticket) -> str:
    return executors(owners)[ticket.request_type](ticket)


def credit_ticket(env: Environment, tenant_id: str, amount_usd: str = "2.5000") -> Ticket:
    return env.file(RequestType.BUDGET_CREDIT, params={"tenant_id": tenant_id, "amount_usd": amount_usd})


def test_every_type_has_an_executor(owners: Owners) -> None:
    assert set(executors(owners)) == set(RequestType)


class TestBudgetCredit:
    """A credit with the ticket's id."""

    @pytest.fixture
    def tenant(self, world: World) -> Tenant:
        return world.tenant(credit_usd_micros=1_000_000)

    def test_repeated_ticket_credits_the_balance_once(
        self, world: World, env: Environment, owners: Owners, tenant: Tenant
    ) -> None:
        ticket = credit_ticket(env, tenant.tenant_id)
        messages = {carry_out(owners, ticket) for _ in range(3)}
        assert messages == {f"2.5000 USD to {tenant.tenant_id}; balance 3.5000 USD"}
        position = world.position(tenant)
        assert position.balance_usd_micros == 3_500_000
        assert position.balanced

    def test_next_attempt_repairs_a_crash_between_row_and_balance(
        self, world: World, env: Environment, owners: Owners, tenant: Tenant
    ) -> None:
        ticket = credit_ticket(env, tenant.tenant_id)
        ledger: Any = Flaky(world.ledger, RedisUnavailable, before={"credit"})
        with pytest.raises(RedisUnavailable):
            carry_out(replace(owners, ledger=ledger), ticket)
        carry_out(owners, ticket)
        assert world.position(tenant).balance_usd_micros == 3_500_000
        assert world.position(tenant).balanced

    def test_unknown_tenant_is_rejected(self, env: Environment, owners: Owners) -> None:
        with pytest.raises(TicketRefused, match="there is no tenant t_nobody"):
            carry_out(owners, credit_ticket(env, "t_nobody"))

    def test_amount_above_the_ledgers_limit_is_rejected(
        self, world: World, env: Environment, owners: Owners, tenant: Tenant
    ) -> None:
        ticket = credit_ticket(env, tenant.tenant_id, "9007199254.7409")
        with pytest.raises(TicketRefused, match="exceed"):
            carry_out(owners, ticket)
        assert world.position(tenant).balance_usd_micros == 1_000_000

    def test_id_of_another_credit_is_rejected(
        self, world: World, env: Environment, owners: Owners, tenant: Tenant
    ) -> None:
        ticket = credit_ticket(env, tenant.tenant_id)
        carry_out(owners, replace(ticket, params={"tenant_id": tenant.tenant_id, "amount_usd": "1"}))
        with pytest.raises(TicketRefused, match="another"):
            carry_out(owners, ticket)


class TestExecution:
    """The switch of executions: the decision that was filed last wins."""

    @pytest.mark.parametrize("pack_type", [None, "ocr"])
    def test_execution_is_disabled_and_enabled(
        self, world: World, env: Environment, owners: Owners, pack_type: str | None
    ) -> None:
        params = {} if pack_type is None else {"pack_type": pack_type}
        off = env.file(RequestType.EXECUTION_DISABLE, params=params)
        message = carry_out(owners, off)
        assert message == f"execution of {pack_type or 'all packs'} is disabled"
        assert carry_out(owners, off) == message
        (decided,) = switches(world)
        assert (decided.enabled, decided.scope) == (False, pack_type and PackType(pack_type))
        assert (decided.actor, decided.reason, decided.decision_id) == ("kim", off.reason, off.request_id)
        carry_out(owners, env.file(RequestType.EXECUTION_ENABLE, params=params))
        assert [one.enabled for one in switches(world)] == [True]

    def test_older_request_changes_nothing(self, world: World, env: Environment, owners: Owners) -> None:
        off = env.file(RequestType.EXECUTION_DISABLE, params={})
        on = env.file(RequestType.EXECUTION_ENABLE, params={})
        carry_out(owners, on)
        assert carry_out(owners, off) == "execution of all packs: superseded by a later decision"
        assert [one.enabled for one in switches(world)] == [True]


def switches(world: World) -> tuple[switch.Switch, ...]:
    return world.using(switch.switches)


class TestRedrive:
    """The dead letters of `dpp.runs.operations.dead_letters`."""

    def test_queued_runs_are_sent_back_and_the_rest_is_reported(
        self, world: World, env: Environment, owners: Owners, dead_letters: Queue
    ) -> None:
        tenant = world.tenant()
        runs = [world.submit(tenant).run for _ in range(3)]
        for message in world.messages():
            dead_letters.send(message.model_dump_json())
        dead_letters.send("not a run message")
        one = env.file(RequestType.DLQ_REDRIVE, params={"run_ids": [str(runs[0].run_id)], "limit": 100})
        assert carry_out(owners, one) == "1 sent back, 0 of ended runs deleted, 0 left"
        rest = env.file(RequestType.DLQ_REDRIVE, params={"limit": 100})
        assert carry_out(owners, rest) == "2 sent back, 0 of ended runs deleted, 1 left"
        assert carry_out(owners, rest) == "0 sent back, 0 of ended runs deleted, 1 left"
        assert {message.run_id for message in world.messages()} == {run.run_id for run in runs}


@pytest.mark.parametrize("request_type", list(RequestType))
def test_unreadable_parameters_are_rejected(env: Environment, owners: Owners, request_type: RequestType) -> None:
    """Parameters of another version: the ticket fails with a message, and the next one is processed."""
    ticket = env.file(request_type, params={"of_another_version": True})
    report = ProcessReport()
    process_tickets(ProcessEffects(env.database, executors(owners), RULES), "OPS_CYCLE/test", report)
    assert [one.outcome for one in report.processed] == [TicketOutcome.FAILED]
    whole = env.details(ticket)
    assert whole.ticket.current_status is TicketStatus.FAILED
    assert whole.result is not None
    assert "file a new ticket" in whole.result.message
