"""Executes each type of ticket through the public use case of the context that owns it (TIX-6).

Each executor is idempotent by the ticket's `request_id`: executing a ticket again after a crash has no second effect.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from pydantic import ValidationError

from dpp.money.credits import CreditConflict, credit
from dpp.money.ledger import AmountRefused, Ledger
from dpp.money.micros import format_usd, parse_usd
from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.runs.operations import dead_letters, switch
from dpp.runs.operations.dead_letters import Action, DeadLetterEffects
from dpp.runs.operations.switch import DecisionOutcome
from dpp.tickets.errors import TicketRefused
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.process import Executor
from dpp.tickets.requests import BudgetCreditParams, DlqRedriveParams, ExecutionParams, Params

_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Owners:
    """The connections that the owning contexts' use cases need."""

    database: Database
    ledger: Ledger
    queue: Queue
    dead_letters: Queue


def executors(owners: Owners) -> Mapping[RequestType, Executor]:
    """An executor for every type of ticket."""
    return {
        RequestType.EXECUTION_ENABLE: lambda ticket: _decide_execution(owners, ticket, enabled=True),
        RequestType.EXECUTION_DISABLE: lambda ticket: _decide_execution(owners, ticket, enabled=False),
        RequestType.BUDGET_CREDIT: lambda ticket: _give_credit(owners, ticket),
        RequestType.DLQ_REDRIVE: lambda ticket: _redrive(owners, ticket),
    }


def _decide_execution(owners: Owners, ticket: Ticket, *, enabled: bool) -> str:
    """Decide by the time of filing: of two tickets the later one wins, in whichever order they are executed."""
    pack_type = _params(ExecutionParams, ticket).pack_type
    decided = owners.database.using(
        switch.decide,
        scope=pack_type,
        enabled=enabled,
        decision_id=ticket.request_id,
        actor=ticket.requested_by,
        reason=ticket.reason,
        decided_at=ticket.created_at,
    )
    subject = f"execution of {pack_type or 'all packs'}"
    if decided.outcome is DecisionOutcome.SUPERSEDED:
        return f"{subject}: superseded by a later decision"
    return f"{subject} is {'enabled' if enabled else 'disabled'}"


def _give_credit(owners: Owners, ticket: Ticket) -> str:
    """Credit once per request_id, which is the credit's id."""
    params = _params(BudgetCreditParams, ticket)
    amount_usd_micros = parse_usd(params.amount_usd)
    try:
        balance = owners.database.using(
            credit,
            owners.ledger,
            credit_id=ticket.request_id,
            tenant_id=params.tenant_id,
            amount_usd_micros=amount_usd_micros,
            reason=f"ticket of {ticket.requested_by}: {ticket.reason}"[:_MAX_REASON],
        )
    except psycopg.errors.ForeignKeyViolation:
        raise TicketRefused(f"there is no tenant {params.tenant_id}") from None
    except (AmountRefused, CreditConflict) as error:
        raise TicketRefused(str(error)) from None
    return f"{format_usd(amount_usd_micros)} USD to {params.tenant_id}; balance {format_usd(balance)} USD"


def _redrive(owners: Owners, ticket: Ticket) -> str:
    """Redrive dead letters. Those that were sent back have left the queue, so a repetition finds only the rest."""
    params = _params(DlqRedriveParams, ticket)
    ids = None if params.run_ids is None else frozenset(map(str, params.run_ids))
    effects = DeadLetterEffects(owners.database, owners.ledger, owners.dead_letters, owners.queue)
    done = Counter(one.action for one in dead_letters.redrive(effects, Choice(params.limit, ids)))
    return f"{done[Action.SENT_BACK]} sent back, {done[Action.DELETED]} of ended runs deleted, {done[Action.LEFT]} left"


def _params[Model: Params](model: type[Model], ticket: Ticket) -> Model:
    """The ticket's parameters. Raises TicketRefused if an older version accepted parameters that this one rejects."""
    try:
        return model.model_validate(dict(ticket.params))
    except ValidationError:
        raise TicketRefused("this version cannot read the ticket's parameters: file a new ticket") from None
