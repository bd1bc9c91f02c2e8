"""Faults of outbox, ledger and decisions."""

from tests.mutants.fault import Fault

_OUTBOX = "tests/auth_errors/test_outbox.py"
_CONSUMER = "tests/auth_errors/test_consumer.py"

FAULTS = (
    Fault(
        "event-apart-from-its-error",
        "A crash between two transactions leaves an error that nobody ever analyses.",
        "auth_errors/api/record.py",
        "        with connection.transaction():\n            taken",
        "        if True:\n            taken",
        "tests/auth_errors/test_recording.py::TestTogether::test_an_event_that_is_refused_takes_its_error_with_it",
    ),
    Fault(
        "finalize-by-anybody",
        "A publisher that slept past its takeover buries what another is sending.",
        "auth_errors/outbox/outbox.sql",
        "WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING'"
        " AND processing_owner = %(owner)s\n",
        "WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING'\n",
        f"{_OUTBOX}::TestOwners::test_an_owner_that_wakes_after_its_takeover_finalizes_nothing",
    ),
    Fault(
        "no-takeover",
        "What a publisher died with is never sent.",
        "auth_errors/outbox/publish.py",
        "            partial(_taken_over, effects, owner, report, now),\n",
        "",
        f"{_OUTBOX}::TestOwners::test_a_crash_between_send_and_finalize_sends_again_later",
    ),
    Fault(
        "die-of-an-outage",
        "Half an hour without SQS buries every event of it.",
        "auth_errors/outbox/publish.py",
        "FailureKind.OUTAGE if error == _OUTAGE else FailureKind.MESSAGE",
        "FailureKind.MESSAGE",
        f"{_OUTBOX}::TestFailures::test_no_event_dies_of_an_outage",
    ),
    Fault(
        "trust-the-queue",
        "A message that a queue lost is never handled, and nobody learns of it.",
        "auth_errors/outbox/publish.py",
        "        if scheduled:\n            _send_again(",
        "        if False:\n            _send_again(",
        f"{_OUTBOX}::TestWhatAQueueLost::test_it_is_sent_again_and_handled_once",
    ),
    Fault(
        "later-before-earlier",
        "An error's second event overtakes its first.",
        "auth_errors/outbox/outbox.sql",
        "      AND earlier.status NOT IN ('PUBLISHED', 'DEAD'))\n",
        "      AND false)\n",
        f"{_OUTBOX}::TestPublishing::test_of_one_error_no_event_goes_before_an_earlier_one",
    ),
    Fault(
        "forget-too-early",
        "A dead event is cleared away before anybody looked.",
        "auth_errors/retention.sql",
        "WHERE p.outbox_id = ANY (ARRAY(SELECT outbox_id FROM due)) AND p.status = 'DONE'\n",
        "WHERE p.outbox_id = ANY (ARRAY(SELECT outbox_id FROM due))\n",
        "tests/auth_errors/test_retention.py::test_what_died_stays_until_somebody_looked",
    ),
    Fault(
        "done-by-anybody",
        "Two consumers both commit the effects of one event.",
        "auth_errors/outbox/consume.py",
        "        if after is None:\n            raise LeaseLost\n",
        "",
        f"{_CONSUMER}::TestLeases::test_one_that_slept_past_its_lease_leaves_nothing",
    ),
    Fault(
        "count-at-the-end",
        "A message that kills its consumer is tried for ever.",
        "auth_errors/outbox/outbox.sql",
        "  status = 'PROCESSING', attempts = p.attempts + 1, lease_owner",
        "  status = 'PROCESSING', attempts = greatest(p.attempts, 1), lease_owner",
        f"{_CONSUMER}::TestLeases::test_one_that_kills_each_consumer_is_dead_and_says_so",
    ),
    Fault(
        "the-message-decides",
        "A message that comes early is worked on before its time.",
        "auth_errors/outbox/outbox.sql",
        "p.status = 'RETRY_WAIT' AND p.next_retry_at <= coalesce(%(now)s, now())\n    OR p.status = 'PROC",
        "p.status = 'RETRY_WAIT'\n    OR p.status = 'PROC",
        f"{_CONSUMER}::TestRetries::test_a_message_before_its_time_waits_for_the_row",
    ),
    Fault(
        "letter-after-the-note",
        "A dead event is called told, and its letter is never sent.",
        "auth_errors/outbox/consume.py",
        "    elif row.dead_lettered_at is not None:\n",
        "    else:\n",
        f"{_CONSUMER}::TestDead::test_a_letter_lost_between_row_and_queue_is_sent_by_the_next_delivery",
    ),
    Fault(
        "handle-the-terminal",
        "An error that an operator closed is analysed and decided anew.",
        "auth_errors/outbox/handlers.py",
        "    if error.status not in {AuthErrorStatus.NEW, AuthErrorStatus.RETRY}:\n        return SKIPPED\n",
        "",
        f"{_CONSUMER}::TestTerminal::test_a_terminal_error_is_skipped",
    ),
    Fault(
        "count-again",
        "A cluster grows by every repetition, and its policy fires at nothing.",
        "auth_errors/queries.sql",
        "i.cluster_id = auth_error_cluster.cluster_id) THEN 0 ELSE 1 END,\n",
        "false) THEN 0 ELSE 1 END,\n",
        "tests/auth_errors/test_clusters.py::test_a_repetition_is_counted_once",
    ),
)
