"""Mutations of authentication errors: outbox, ledger of events, and decisions."""

from tests.mutants.mutation import mutation

_OUTBOX = "tests/auth_errors/test_outbox.py"
_CONSUMER = "tests/auth_errors/test_consumer.py"

MUTATIONS = (
    mutation(
        "event-in-own-transaction",
        "A crash between two transactions leaves an error that is never analysed.",
        "auth_errors/api/record.py",
        "        with connection.transaction():\n            taken",
        "        if True:\n            taken",
        "tests/auth_errors/test_recording.py::TestTogether::test_an_event_that_is_refused_takes_its_error_with_it",
    ),
    mutation(
        "finalize-by-any-owner",
        "A publisher that slept past its takeover finalizes an event that another is sending.",
        "auth_errors/outbox/outbox.sql",
        "WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING'"
        " AND processing_owner = %(owner)s\n",
        "WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING'\n",
        f"{_OUTBOX}::TestOwners::test_an_owner_that_wakes_after_its_takeover_finalizes_nothing",
    ),
    mutation(
        "no-takeover",
        "An event whose publisher died is never sent.",
        "auth_errors/outbox/publish.py",
        "            partial(_taken_over, effects, owner, report, now),\n",
        "",
        f"{_OUTBOX}::TestOwners::test_a_crash_between_send_and_finalize_sends_again_later",
    ),
    mutation(
        "dead-letter-in-outage",
        "Half an hour without SQS makes every event of that time a dead letter.",
        "auth_errors/outbox/publish.py",
        "FailureKind.OUTAGE if error == _OUTAGE else FailureKind.MESSAGE",
        "FailureKind.MESSAGE",
        f"{_OUTBOX}::TestFailures::test_no_event_dies_of_an_outage",
    ),
    mutation(
        "trust-the-queue",
        "A message that the queue lost is never handled, without a report.",
        "auth_errors/outbox/publish.py",
        "        if scheduled:\n            _send_again(",
        "        if False:\n            _send_again(",
        f"{_OUTBOX}::TestWhatAQueueLost::test_it_is_sent_again_and_handled_once",
    ),
    mutation(
        "later-before-earlier",
        "An error's second event overtakes its first.",
        "auth_errors/outbox/outbox.sql",
        "      AND earlier.status NOT IN ('PUBLISHED', 'DEAD'))\n",
        "      AND false)\n",
        f"{_OUTBOX}::TestPublishing::test_of_one_error_no_event_goes_before_an_earlier_one",
    ),
    mutation(
        "delete-too-early",
        "A dead event is deleted before an operator has seen it.",
        "auth_errors/retention.sql",
        "WHERE p.outbox_id = ANY (ARRAY(SELECT outbox_id FROM due)) AND p.status = 'DONE'\n",
        "WHERE p.outbox_id = ANY (ARRAY(SELECT outbox_id FROM due))\n",
        "tests/auth_errors/test_retention.py::test_what_died_stays_until_somebody_looked",
    ),
    mutation(
        "done-without-lease",
        "Two consumers both commit the effects of one event.",
        "auth_errors/outbox/consume.py",
        "        if after is None:\n            raise LeaseLost\n",
        "",
        f"{_CONSUMER}::TestLeases::test_one_that_slept_past_its_lease_leaves_nothing",
    ),
    mutation(
        "count-attempt-at-end",
        "A message that kills its consumer is retried without end.",
        "auth_errors/outbox/outbox.sql",
        "  status = 'PROCESSING', attempts = p.attempts + 1, lease_owner",
        "  status = 'PROCESSING', attempts = greatest(p.attempts, 1), lease_owner",
        f"{_CONSUMER}::TestLeases::test_one_that_kills_each_consumer_is_dead_and_says_so",
    ),
    mutation(
        "retry-before-time",
        "A message that arrives early is handled before its retry is due.",
        "auth_errors/outbox/outbox.sql",
        "p.status = 'RETRY_WAIT' AND p.next_retry_at <= coalesce(%(now)s, now())\n    OR p.status = 'PROC",
        "p.status = 'RETRY_WAIT'\n    OR p.status = 'PROC",
        f"{_CONSUMER}::TestRetries::test_a_message_before_its_time_waits_for_the_row",
    ),
    mutation(
        "dead-letter-never-sent",
        "A dead event is recorded as dead-lettered, and its dead letter is never sent.",
        "auth_errors/outbox/consume.py",
        "    elif row.dead_lettered_at is not None:\n",
        "    else:\n",
        f"{_CONSUMER}::TestDead::test_a_letter_lost_between_row_and_queue_is_sent_by_the_next_delivery",
    ),
    mutation(
        "handle-terminal-error",
        "An error that an operator closed is analysed and decided again.",
        "auth_errors/outbox/handlers.py",
        "    if error.status not in {AuthErrorStatus.NEW, AuthErrorStatus.RETRY}:\n        return SKIPPED\n",
        "",
        f"{_CONSUMER}::TestTerminal::test_a_terminal_error_is_skipped",
    ),
    mutation(
        "count-repetition",
        "A cluster grows with every repetition, and its policy fires without cause.",
        "auth_errors/queries.sql",
        "i.cluster_id = auth_error_cluster.cluster_id) THEN 0 ELSE 1 END,\n",
        "false) THEN 0 ELSE 1 END,\n",
        "tests/auth_errors/test_clusters.py::test_a_repetition_is_counted_once",
    ),
)
