"""Mutations of runs: finalize, leases, the execution switch, submit and the scheduled jobs."""

from tests.mutants.mutation import Edit, Simulation, mutation

_SIMULATION = Simulation.WITH_ALL_FAULTS
_RACE = "tests/race/test_finalize_race.py::test_one_of_worker_and_reaper_ends_the_run_and_the_loser_touches_nothing"
_JOBS = "tests/runs/test_jobs.py"
_PARKED = "tests/runs/test_parked.py"
_ROWS = "tests/schema/test_transitions.py"
_CLAIM_GUARD = (
    "WHERE run_id = %(run_id)s AND version = %(version)s AND status = %(expected_status)s\n"
    "  AND num_nonnulls(finalize_stage) = 0\n"
    "  AND lease_token IS NOT DISTINCT FROM %(lease_token)s\n"
    "  AND (%(lease_must_have_expired)s = false OR lease_expires_at < coalesce(%(now)s, now())\n"
    "    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')\n"
    "  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(minimum_age_seconds)s)\n"
)
_DISABLED = "ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\n"
_INSERT_SWITCH = f"  WHERE NOT ARRAY['*', %(pack_type)s] && {_DISABLED}"
_START_SWITCH = f"  AND NOT ARRAY['*', pack_type] && {_DISABLED}"
_START_SWITCH_OF_PACK = _START_SWITCH.replace("'*', ", "")

MUTATIONS = (
    mutation(
        "settle-before-claim",
        "Worker and reaper both move money, and the loser's charge stays.",
        "runs/finalize.py",
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        "    _move_money(effects.ledger, run, intent)\n"
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        _RACE,
        _SIMULATION,
    ),
    mutation(
        "upload-before-claim",
        "A worker that lost its lease overwrites the winner's envelope.",
        "runs/finalize.py",
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        "    if envelope is not None:\n        _upload(effects, intent, envelope)\n"
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        _RACE,
        _SIMULATION,
    ),
    mutation(
        "trust-any-receipt",
        "A run commits a charge that the ledger never made.",
        "runs/finalize.py",
        "    if closed.kind.value != intent.money_state.value"
        " or closed.charge_usd_micros != intent.charge_usd_micros:\n",
        "    if False:\n",
        f"{_JOBS}::TestReconcile::test_d3_a_receipt_that_contradicts_the_intent_is_disputed",
    ),
    mutation(
        "release-every-key",
        "A client's repeated submit creates and pays for a second run.",
        "runs/finalize.py",
        "            release = intent.reason_code == Reason.QUEUE_ENQUEUE_FAILED\n",
        "            release = True\n",
        f"{_JOBS}::TestReaper::test_run_20_an_expired_lease_ends_failed_with_the_minimum_fee",
    ),
    mutation(
        "claim-without-version",
        "A claim based on an old read ends a run that has changed since.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND status = %(expected_status)s\n",
        "WHERE run_id = %(run_id)s AND status = %(expected_status)s\n",
        f"{_ROWS}::test_a_stale_version_moves_nothing",
    ),
    mutation(
        "claim-a-claimed-run",
        "Two holders end the same run.",
        "runs/queries.sql",
        "  AND num_nonnulls(finalize_stage) = 0\n  AND lease_token IS NOT DISTINCT FROM",
        "  AND lease_token IS NOT DISTINCT FROM",
        f"{_ROWS}::test_each_query_makes_exactly_the_transitions_of_the_machine",
    ),
    mutation(
        "claim-without-lease",
        "A worker that lost its lease ends the run of the next worker.",
        "runs/queries.sql",
        "  AND lease_token IS NOT DISTINCT FROM %(lease_token)s\n",
        "",
        f"{_ROWS}::test_only_the_holder_of_the_lease_claims",
    ),
    mutation(
        "reap-a-valid-lease",
        "A worker that is only slow loses its run, and its client pays the fee.",
        "runs/queries.sql",
        "  AND (%(lease_must_have_expired)s = false OR lease_expires_at < coalesce(%(now)s, now())\n"
        "    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')\n",
        "",
        f"{_ROWS}::test_the_reaper_claims_only_a_lease_that_has_run_out_when_it_writes",
    ),
    mutation(
        "take-over-claim-at-once",
        "Reconcile takes over a claim whose holder is still at work.",
        "runs/queries.sql",
        "  AND finalize_claimed_at < coalesce(%(now)s, now())"
        " - make_interval(secs => %(stuck_after_seconds)s)\nRETURNING",
        "\nRETURNING",
        f"{_ROWS}::test_a_claim_is_taken_over_only_once_it_is_stuck_and_its_first_holder_then_commits_nothing",
    ),
    mutation(
        "commit-without-token",
        "The first holder commits a claim that another has taken over.",
        "runs/queries.sql",
        "  WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(finalize_token)s\n"
        "    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')\n",
        "  WHERE run_id = %(run_id)s\n"
        "    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')\n",
        f"{_ROWS}::test_a_claim_is_taken_over_only_once_it_is_stuck_and_its_first_holder_then_commits_nothing",
    ),
    mutation(
        "start-run-twice",
        "A message that is delivered twice is executed twice.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND status = 'QUEUED'"
        " AND num_nonnulls(finalize_stage) = 0\n"
        "  AND NOT ARRAY",
        "WHERE run_id = %(run_id)s AND num_nonnulls(finalize_stage) = 0\n  AND NOT ARRAY",
        "tests/race/test_finalize_race.py::test_only_one_of_many_workers_leases_a_run",
        _SIMULATION,
    ),
    mutation(
        "accept-while-disabled",
        "A client's money is reserved for a run that may not begin.",
        "runs/queries.sql",
        "  WHERE NOT ARRAY['*', %(pack_type)s] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\n",
        "",
        "tests/http/test_execution_disabled.py::test_a_submit_is_refused_and_leaves_nothing",
        _SIMULATION,
    ),
    mutation(
        "begin-while-disabled",
        "Execution continues after an operator has disabled it.",
        "runs/queries.sql",
        "  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\nRETURNING",
        "RETURNING",
        f"{_PARKED}::TestParking::test_a_waiting_run_is_parked_and_its_message_acknowledged",
        _SIMULATION,
    ),
    mutation(
        "park-without-trace",
        "A parked run is recorded as sent, so nobody sends it again once it is enabled.",
        "runs/queries.sql",
        "UPDATE runs SET enqueued_at = NULL, version",
        "UPDATE runs SET version",
        f"{_PARKED}::TestResuming::test_once_enabled_the_next_firing_sends_it",
    ),
    mutation(
        "park-in-same-version",
        "A late start leases the run for a worker that is gone, and the client pays the fee.",
        "runs/queries.sql",
        "enqueued_at = NULL, version = version + 1,",
        "enqueued_at = NULL,",
        f"{_PARKED}::TestParking::test_a_start_that_lands_late_leases_nothing_that_was_parked_since",
        _SIMULATION,
    ),
    mutation(
        "mark-any-version-as-sent",
        "A submit slower than the worker marks the parked run as sent, and nobody sends it again.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND enqueued_at IS NULL\n",
        "WHERE run_id = %(run_id)s AND enqueued_at IS NULL\n",
        f"{_PARKED}::TestFaults::test_a_worker_faster_than_the_mark_of_the_submit_stays_parked",
        _SIMULATION,
    ),
    mutation(
        "send-disabled-runs",
        "Thousands of parked runs are sent each minute, and a run that was never sent waits behind them.",
        "runs/queries.sql",
        "  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\n"
        "  AND created_at",
        "  AND created_at",
        f"{_PARKED}::TestResuming::test_a_great_many_parked_runs_stand_before_nobody",
    ),
    mutation(
        "last-decision-to-arrive-wins",
        "A ticket that is processed late enables what was disabled since.",
        "runs/queries.sql",
        "  AND (execution_switches.decided_at, execution_switches.decision_id)"
        " < (excluded.decided_at, excluded.decision_id)\n",
        "",
        "tests/runs/test_switch.py::test_an_older_decision_never_undoes_a_newer_one",
        _SIMULATION,
    ),
    mutation(
        "refund-unknown-insert",
        "A run whose insert's reply was lost is refunded and executed all the same.",
        "runs/submit.py",
        "    except PostgresNotReached:\n",
        "    except PostgresUnavailable:\n",
        "tests/http/test_faults.py::test_a_submit_lost_on_its_way_costs_nothing",
        _SIMULATION,
    ),
    mutation(
        "refund-every-old-reservation",
        "A long run finds its reservation gone.",
        "runs/jobs/reconcile.py",
        "        for orphan in sorted(set(ids) - {run.run_id for run in known}):\n",
        "        for orphan in sorted(set(ids)):\n",
        "tests/runs/test_lost_ledger.py::test_a_living_runs_old_reservation_is_left_alone",
        _SIMULATION,
    ),
    mutation(
        "orphan-at-once",
        "A submit between reserve and insert loses its reservation to reconcile.",
        "runs/jobs/reconcile.py",
        "ORPHANED_AFTER_SECONDS = 300\n",
        "ORPHANED_AFTER_SECONDS = 0\n",
        f"{_JOBS}::TestReconcile::test_d2_a_reservation_without_a_run_is_refunded_after_five_minutes",
        Simulation.WITH_SLOW_CALLS,
    ),
    mutation(
        "sweep-young-runs",
        "A run is refunded before its hour, while a worker can still start it.",
        "runs/queries.sql",
        "  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(minimum_age_seconds)s)\n",
        "",
        f"{_ROWS}::test_the_sweeper_claims_only_what_waited_long_enough",
    ),
    mutation(
        "finish-without-lease",
        "A worker whose lease is gone ends the run with its own result.",
        "runs/execute.py",
        "    if heartbeat.lost.is_set():\n        return Worked(WorkOutcome.LEASE_LOST, waited_seconds)\n",
        "",
        "tests/runs/test_worker.py::test_run_16_a_worker_that_lost_its_lease_stops_its_pack_and_writes_nothing",
    ),
    # --- caught by the simulation only ---
    mutation(
        "commit-without-money",
        "The run ends as settled, and the ledger does not move.",
        "runs/finalize.py",
        "    if intent.money_state == MoneyState.REFUNDED:\n"
        "        return ledger.refund_full(claimed.tenant_id, claimed.id)\n"
        "    return ledger.settle(claimed.tenant_id, claimed.id, intent.charge_usd_micros)\n",
        "    return Closed(CloseKind(intent.money_state.value), intent.charge_usd_micros, 0, 0, False)\n",
        _SIMULATION,
    ),
    mutation(
        "stuck-at-once",
        "A claim counts as stuck while its holder is at work.",
        "runs/finalize.py",
        "STUCK_AFTER_SECONDS = 300\n",
        "STUCK_AFTER_SECONDS = 0\n",
        _SIMULATION,
    ),
    mutation(
        "replace-recorded-intent",
        "Reconcile decides about a stuck claim again instead of repeating the recorded intent.",
        "runs/jobs/reconcile.py",
        "    intent = run.intent\n",
        "    intent = timed_out(run) if run.status == Status.PROCESSING else run.intent\n",
        _SIMULATION,
    ),
    mutation(
        "claim-by-id-only",
        "The claim checks neither version, state nor lease.",
        "runs/queries.sql",
        _CLAIM_GUARD,
        "WHERE run_id = %(run_id)s\n",
        _SIMULATION,
    ),
    mutation(
        "claim-without-version-and-stage",
        "A second claim takes over the first while its holder is at work.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND status = %(expected_status)s\n"
        "  AND num_nonnulls(finalize_stage) = 0\n",
        "WHERE run_id = %(run_id)s AND status = %(expected_status)s\n",
        _SIMULATION,
    ),
    mutation(
        "commit-by-id-only",
        "Two holders of a claim can both commit.",
        "runs/queries.sql",
        "  WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(finalize_token)s\n"
        "    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')\n",
        "  WHERE run_id = %(run_id)s\n",
        _SIMULATION,
        also=(Edit("runs/finalize.py", "STUCK_AFTER_SECONDS = 300\n", "STUCK_AFTER_SECONDS = 0\n"),),
    ),
    mutation(
        "lease-twice",
        "A doubled message leases a run that a worker is executing.",
        "runs/execute.py",
        "run is not None and run.status == Status.QUEUED:",
        "run is not None and run.status in (Status.QUEUED, Status.PROCESSING):",
        _SIMULATION,
        also=(
            Edit(
                "runs/queries.sql",
                "status = 'QUEUED' AND num_nonnulls(finalize_stage) = 0\n  AND NOT",
                "status IN ('QUEUED', 'PROCESSING') AND num_nonnulls(finalize_stage) = 0\n  AND NOT",
            ),
        ),
    ),
    mutation(
        "reap-any-lease",
        "The reaper checks the lease's end neither in its scan nor in its claim.",
        "runs/queries.sql",
        "  AND (%(lease_must_have_expired)s = false OR lease_expires_at < coalesce(%(now)s, now())\n"
        "    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')\n",
        "",
        _SIMULATION,
        also=(
            Edit(
                "runs/queries.sql",
                "  AND (lease_expires_at < coalesce(%(now)s, now())\n"
                "    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')\n"
                "  AND (lease_expires_at, run_id) >",
                "  AND (lease_expires_at, run_id) >",
            ),
        ),
    ),
    mutation(
        "no-unique-index",
        "Two runs can have the same idempotency key.",
        "migrations/sql/0001_metered_runs.up.sql",
        "CREATE UNIQUE INDEX runs_idempotency ",
        "CREATE INDEX runs_idempotency ",
        _SIMULATION,
    ),
    mutation(
        "refund-without-claim",
        "A run whose message may have been sent is refunded without a claim.",
        "runs/submit.py",
        "        _give_up(run, ticket, admitted, effects, error)\n        return\n",
        "        _give_back(ticket, admitted, effects)\n        raise\n",
        _SIMULATION,
    ),
    mutation(
        "ignore-orphans",
        "A reservation that a crash left between reserve and insert is never refunded.",
        "runs/jobs/reconcile.py",
        "            refund_orphans(effects, tenant_id, report.orphans)\n",
        "            pass\n",
        _SIMULATION,
    ),
    mutation(
        "charge-beyond-reservation",
        "A pack's cost is charged without the limit of the reservation.",
        "runs/execute.py",
        "    return charge_within(cost, run.reservation_max_cost_usd_micros)\n",
        "    return cost\n",
        _SIMULATION,
    ),
    mutation(
        "insert-and-start-while-disabled",
        "Neither the insert nor the start of a run checks the execution switch.",
        "runs/queries.sql",
        _INSERT_SWITCH,
        "",
        _SIMULATION,
        also=(Edit("runs/queries.sql", f"{_START_SWITCH}RETURNING", "RETURNING"),),
    ),
    mutation(
        "ignore-switch-of-all-packs",
        "The execution switch of all packs has no effect.",
        "runs/queries.sql",
        _INSERT_SWITCH,
        _INSERT_SWITCH.replace("'*', ", ""),
        _SIMULATION,
        also=(
            Edit(
                "runs/queries.sql",
                f"{_START_SWITCH}RETURNING",
                f"{_START_SWITCH_OF_PACK}RETURNING",
            ),
            Edit(
                "runs/queries.sql",
                f"{_START_SWITCH}  AND created_at",
                f"{_START_SWITCH_OF_PACK}  AND created_at",
            ),
        ),
    ),
    mutation(
        "acknowledge-without-parking",
        "The worker acknowledges the message of a disabled run and does not park it.",
        "runs/execute.py",
        "(parked := store.park(connection, run)) is not None",
        "(parked := None) is not None",
        _SIMULATION,
    ),
)
