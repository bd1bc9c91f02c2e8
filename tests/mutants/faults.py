"""The faults as data: which text becomes which, what that would cost, and the test that notices."""

from tests.mutants import auth_errors, retention, workspaces
from tests.mutants.fault import Fault

_RACE = "tests/race/test_finalize_race.py::test_one_of_worker_and_reaper_ends_the_run_and_the_loser_touches_nothing"
_JOBS = "tests/runs/test_jobs.py"
_LEDGER = "tests/money/test_ledger.py"
_PARKED = "tests/runs/test_parked.py"
_ROWS = "tests/schema/test_transitions.py"


FAULTS = (
    # --- finalize ---------------------------------------------------------------------------------------------
    Fault(
        "settle-before-the-claim",
        "Worker and reaper both move money, and the loser's charge stands.",
        "runs/finalize.py",
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        "    _move_money(effects.ledger, run, intent)\n"
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        _RACE,
    ),
    Fault(
        "upload-before-the-claim",
        "A worker that lost its lease overwrites the winner's envelope.",
        "runs/finalize.py",
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        "    if envelope is not None:\n        _upload(effects, intent, envelope)\n"
        "    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)\n",
        _RACE,
    ),
    Fault(
        "trust-any-receipt",
        "A run commits a charge that the ledger never made.",
        "runs/finalize.py",
        "    if closed.kind.value != intent.money_state.value"
        " or closed.charge_usd_micros != intent.charge_usd_micros:\n",
        "    if False:\n",
        f"{_JOBS}::TestReconcile::test_d3_a_receipt_that_contradicts_the_intent_is_disputed",
    ),
    Fault(
        "free-the-key-of-every-run",
        "A client's repetition makes and pays a second run.",
        "runs/finalize.py",
        "            release = intent.reason_code == Reason.QUEUE_ENQUEUE_FAILED\n",
        "            release = True\n",
        f"{_JOBS}::TestReaper::test_run_20_an_expired_lease_ends_failed_with_the_minimum_fee",
    ),
    Fault(
        "claim-without-the-version",
        "A claim by a stale look ends what has moved on.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND status = %(expected_status)s\n",
        "WHERE run_id = %(run_id)s AND status = %(expected_status)s\n",
        f"{_ROWS}::test_a_stale_version_moves_nothing",
    ),
    Fault(
        "claim-what-is-claimed",
        "Two hold the same run's end.",
        "runs/queries.sql",
        "  AND num_nonnulls(finalize_stage) = 0\n  AND lease_token IS NOT DISTINCT FROM",
        "  AND lease_token IS NOT DISTINCT FROM",
        f"{_ROWS}::test_each_query_makes_exactly_the_transitions_of_the_machine",
    ),
    Fault(
        "claim-without-the-lease",
        "A worker that lost its lease ends the run of the next one.",
        "runs/queries.sql",
        "  AND lease_token IS NOT DISTINCT FROM %(lease_token)s\n",
        "",
        f"{_ROWS}::test_only_the_holder_of_the_lease_claims",
    ),
    Fault(
        "reap-the-living",
        "A worker that is merely slow loses its run and its client the fee.",
        "runs/queries.sql",
        "  AND (%(lease_must_have_expired)s = false OR lease_expires_at < coalesce(%(now)s, now())\n"
        "    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')\n",
        "",
        f"{_ROWS}::test_the_reaper_claims_only_a_lease_that_has_run_out_when_it_writes",
    ),
    Fault(
        "take-a-claim-over-at-once",
        "Reconcile ends a run under the hands of its living winner.",
        "runs/queries.sql",
        "  AND finalize_claimed_at < coalesce(%(now)s, now())"
        " - make_interval(secs => %(stuck_after_seconds)s)\nRETURNING",
        "\nRETURNING",
        f"{_ROWS}::test_a_claim_is_taken_over_only_once_it_is_stuck_and_its_first_holder_then_commits_nothing",
    ),
    Fault(
        "commit-without-the-token",
        "The first holder commits what another has taken over.",
        "runs/queries.sql",
        "  WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(finalize_token)s\n"
        "    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')\n",
        "  WHERE run_id = %(run_id)s\n"
        "    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')\n",
        f"{_ROWS}::test_a_claim_is_taken_over_only_once_it_is_stuck_and_its_first_holder_then_commits_nothing",
    ),
    Fault(
        "start-a-run-twice",
        "A message that comes twice is worked on twice.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND status = 'QUEUED'"
        " AND num_nonnulls(finalize_stage) = 0\n"
        "  AND NOT ARRAY",
        "WHERE run_id = %(run_id)s AND num_nonnulls(finalize_stage) = 0\n  AND NOT ARRAY",
        "tests/race/test_finalize_race.py::test_only_one_of_many_workers_leases_a_run",
    ),
    # --- the switch of execution ------------------------------------------------------------------------------
    Fault(
        "accept-while-disabled",
        "A client's money is set aside for a run that nobody may begin.",
        "runs/queries.sql",
        "  WHERE NOT ARRAY['*', %(pack_type)s] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\n",
        "",
        "tests/http/test_execution_disabled.py::test_a_submit_is_refused_and_leaves_nothing",
    ),
    Fault(
        "begin-while-disabled",
        "What an operator has stopped goes on.",
        "runs/queries.sql",
        "  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\nRETURNING",
        "RETURNING",
        f"{_PARKED}::TestParking::test_a_waiting_run_is_parked_and_its_message_acknowledged",
    ),
    Fault(
        "park-without-a-trace",
        "A parked run counts as sent: enabled again, it waits out its hour all the same.",
        "runs/queries.sql",
        "UPDATE runs SET enqueued_at = NULL, version",
        "UPDATE runs SET version",
        f"{_PARKED}::TestResuming::test_once_enabled_the_next_firing_sends_it",
    ),
    Fault(
        "park-under-the-same-version",
        "A start that lands late leases the run for a worker that is gone, and the client pays the fee.",
        "runs/queries.sql",
        "enqueued_at = NULL, version = version + 1,",
        "enqueued_at = NULL,",
        f"{_PARKED}::TestParking::test_a_start_that_lands_late_leases_nothing_that_was_parked_since",
    ),
    Fault(
        "mark-whatever-was-sent",
        "A submit slower than the worker marks the parked run as sent, and nobody sends it again.",
        "runs/queries.sql",
        "WHERE run_id = %(run_id)s AND version = %(version)s AND enqueued_at IS NULL\n",
        "WHERE run_id = %(run_id)s AND enqueued_at IS NULL\n",
        f"{_PARKED}::TestFaults::test_a_worker_faster_than_the_mark_of_the_submit_stays_parked",
    ),
    Fault(
        "send-what-is-disabled",
        "Thousands of parked runs go round each minute, and a run that was never sent waits behind them for ever.",
        "runs/queries.sql",
        "  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)\n"
        "  AND created_at",
        "  AND created_at",
        f"{_PARKED}::TestResuming::test_a_great_many_parked_runs_stand_before_nobody",
    ),
    Fault(
        "the-last-to-come-decides",
        "A ticket that was worked on late enables what was disabled since.",
        "runs/queries.sql",
        "  AND (execution_switches.decided_at, execution_switches.decision_id)"
        " < (excluded.decided_at, excluded.decision_id)\n",
        "",
        "tests/runs/test_switch.py::test_an_older_decision_never_undoes_a_newer_one",
    ),
    # --- ledger -----------------------------------------------------------------------------------------------
    Fault(
        "drop-the-receipt",
        "A settle whose reply was lost pays back once more when it is asked again.",
        "money/lua/ledger.lua",
        "  redis.call('HSET', keys[3], 'charge_usd_micros', as_text(charge),"
        " 'refund_usd_micros', refund, 'kind', kind)\n",
        "",
        f"{_LEDGER}::test_closing_twice_moves_money_once_and_answers_the_first_receipt",
    ),
    Fault(
        "forget-the-index",
        "A reservation whose hour has passed takes the client's money with it.",
        "money/lua/ledger.lua",
        "  redis.call('HSET', keys[5], run_id, reserved)\n",
        "",
        f"{_LEDGER}::test_a_reservation_whose_hour_has_passed_is_closed_from_the_index",
    ),
    Fault(
        "forget-the-age",
        "What a crash between reserve and insert leaves is found by nobody.",
        "money/lua/ledger.lua",
        "  redis.call('ZADD', keys[4], now_ms(), run_id)\n",
        "",
        f"{_JOBS}::TestReconcile::test_d2_a_reservation_without_a_run_is_refunded_after_five_minutes",
    ),
    Fault(
        "reserve-twice",
        "A reserve that is sent again takes the amount again.",
        "money/lua/ledger.lua",
        "  if redis.call('EXISTS', keys[2], keys[3]) > 0"
        " or redis.call('HEXISTS', keys[5], run_id) == 1 then\n"
        "    return {'ERR_ALREADY_RESERVED'}\n  end\n",
        "",
        f"{_LEDGER}::test_reserve_answers_the_locked_codes",
    ),
    Fault(
        "spend-what-is-not-there",
        "Parallel reserves drive the balance below zero.",
        "money/lua/ledger.lua",
        "  if tonumber(balance) < amount then return {'ERR_INSUFFICIENT', balance} end\n",
        "",
        f"{_LEDGER}::test_of_100_parallel_reserves_of_60_percent_exactly_one_succeeds",
    ),
    Fault(
        "charge-beyond-the-reservation",
        "A pack that costs more than agreed is paid by the client.",
        "money/lua/ledger.lua",
        "  if charge > reserved then charge = reserved end\n",
        "",
        f"{_LEDGER}::test_a_charge_above_the_reservation_is_cut_to_it",
    ),
    Fault(
        "write-numbers-as-lua-prints-them",
        "10^14 becomes 1e+14, and the balance is destroyed.",
        "money/lua/ledger.lua",
        "local function as_text(amount) return string.format('%.0f', amount) end\n",
        "local function as_text(amount) return tostring(amount) end\n",
        f"{_LEDGER}::test_ten_to_the_14_survives_reserve_and_settle_to_the_micro",
    ),
    Fault(
        "a-fee-without-its-cap",
        "A failed run of a hundred dollars costs two.",
        "money/fees.py",
        "    return min(max(MINIMUM_FEE_FLOOR_USD_MICROS, reserved_usd_micros * 2 // 100),"
        " MINIMUM_FEE_CAP_USD_MICROS)\n",
        "    return max(MINIMUM_FEE_FLOOR_USD_MICROS, reserved_usd_micros * 2 // 100)\n",
        "tests/money/test_fees.py",
    ),
    # --- books ------------------------------------------------------------------------------------------------
    Fault(
        "rebuild-over-what-is-in-flight",
        "A reservation whose insert is still to come is given away.",
        "money/lua/books.lua",
        "      in_flight = in_flight + tonumber(amount)\n",
        "",
        "tests/money/test_rebuild.py::test_a_rebuild_of_a_healthy_ledger_changes_nothing",
    ),
    Fault(
        "rebuild-from-what-is-stale",
        "A rebuild that lands late overwrites the moves made meanwhile.",
        "money/lua/rebuild.lua",
        "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end\n",
        "",
        "tests/money/test_rebuild.py::test_a_script_that_lands_late_changes_nothing",
    ),
    Fault(
        "measure-what-moves",
        "A healthy ledger under traffic is told to drift, and repaired wrongly.",
        "money/lua/measure.lua",
        "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end\n",
        "",
        "tests/money/test_drift.py::test_a_balance_that_never_rests_is_left_for_the_next_firing",
    ),
    Fault(
        "repair-what-is-contradicted",
        "A row changed by other hands becomes the truth, and nobody is told.",
        "money/drift.py",
        "    if contradicted:\n",
        "    if not contradicted and contradicted:\n",
        "tests/money/test_drift.py::test_a_receipt_that_contradicts_its_row_is_left_to_an_operator",
    ),
    # --- submit and the jobs ----------------------------------------------------------------------------------
    Fault(
        "refund-an-unknown-insert",
        "A run whose insert's reply was lost is refunded and worked on all the same.",
        "runs/submit.py",
        "    except PostgresNotReached:\n",
        "    except PostgresUnavailable:\n",
        "tests/http/test_faults.py::test_a_submit_lost_on_its_way_costs_nothing",
    ),
    Fault(
        "refund-whatever-is-old",
        "A run that is worked on for long finds its reservation gone.",
        "runs/jobs/reconcile.py",
        "        for orphan in sorted(set(ids) - {run.run_id for run in known}):\n",
        "        for orphan in sorted(set(ids)):\n",
        "tests/runs/test_lost_ledger.py::test_a_living_runs_old_reservation_is_left_alone",
    ),
    Fault(
        "orphans-at-once",
        "A submit between reserve and insert loses its reservation to reconcile.",
        "runs/jobs/reconcile.py",
        "ORPHANED_AFTER_SECONDS = 300\n",
        "ORPHANED_AFTER_SECONDS = 0\n",
        f"{_JOBS}::TestReconcile::test_d2_a_reservation_without_a_run_is_refunded_after_five_minutes",
    ),
    Fault(
        "sweep-the-young",
        "A run is refunded before its hour, in front of the worker's eyes.",
        "runs/queries.sql",
        "  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(minimum_age_seconds)s)\n",
        "",
        f"{_ROWS}::test_the_sweeper_claims_only_what_waited_long_enough",
    ),
    Fault(
        "work-on-without-a-lease",
        "A worker whose lease is gone ends the run by its own answer.",
        "runs/execute.py",
        "    if heartbeat.lost.is_set():\n        return Worked(WorkOutcome.LEASE_LOST, waited_seconds)\n",
        "",
        "tests/runs/test_worker.py::test_run_16_a_worker_that_lost_its_lease_stops_its_pack_and_writes_nothing",
    ),
    *auth_errors.FAULTS,
    *workspaces.FAULTS,
    *retention.FAULTS,
)
