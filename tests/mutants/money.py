"""Mutations of money: the ledger's scripts, its rebuild and its audit."""

from tests.mutants.mutation import Simulation, mutation

_SIMULATION = Simulation.WITH_ALL_FAULTS
_LEDGER = "tests/money/test_ledger.py"
_JOBS = "tests/runs/test_jobs.py"

MUTATIONS = (
    mutation(
        "drop-receipt",
        "A settle whose reply was lost refunds again when it is repeated.",
        "money/lua/ledger.lua",
        "  redis.call('HSET', keys[3], 'charge_usd_micros', as_text(charge),"
        " 'refund_usd_micros', refund, 'kind', kind)\n",
        "",
        f"{_LEDGER}::test_closing_twice_moves_money_once_and_answers_the_first_receipt",
        _SIMULATION,
    ),
    mutation(
        "drop-index-entry",
        "A reservation that is older than an hour takes the client's money with it.",
        "money/lua/ledger.lua",
        "  redis.call('HSET', keys[5], run_id, reserved)\n",
        "",
        f"{_LEDGER}::test_a_reservation_whose_hour_has_passed_is_closed_from_the_index",
        _SIMULATION,
    ),
    mutation(
        "drop-age-entry",
        "A reservation without a run, left by a crash, is never found.",
        "money/lua/ledger.lua",
        "  redis.call('ZADD', keys[4], now_ms(), run_id)\n",
        "",
        f"{_JOBS}::TestReconcile::test_d2_a_reservation_without_a_run_is_refunded_after_five_minutes",
        _SIMULATION,
    ),
    mutation(
        "reserve-twice",
        "A repeated reserve takes the amount again.",
        "money/lua/ledger.lua",
        "  if redis.call('EXISTS', keys[2], keys[3]) > 0"
        " or redis.call('HEXISTS', keys[5], run_id) == 1 then\n"
        "    return {'ERR_ALREADY_RESERVED'}\n  end\n",
        "",
        f"{_LEDGER}::test_reserve_answers_the_locked_codes",
        _SIMULATION,
    ),
    mutation(
        "overspend-balance",
        "Parallel reserves make the balance negative.",
        "money/lua/ledger.lua",
        "  if tonumber(balance) < amount then return {'ERR_INSUFFICIENT', balance} end\n",
        "",
        f"{_LEDGER}::test_of_100_parallel_reserves_of_60_percent_exactly_one_succeeds",
    ),
    mutation(
        "settle-beyond-reservation",
        "The client pays for a pack that costs more than agreed.",
        "money/lua/ledger.lua",
        "  if charge > reserved then charge = reserved end\n",
        "",
        f"{_LEDGER}::test_a_charge_above_the_reservation_is_cut_to_it",
    ),
    mutation(
        "print-numbers-as-lua-does",
        "10^14 becomes 1e+14, and the balance is destroyed.",
        "money/lua/ledger.lua",
        "local function as_text(amount) return string.format('%.0f', amount) end\n",
        "local function as_text(amount) return tostring(amount) end\n",
        f"{_LEDGER}::test_ten_to_the_14_survives_reserve_and_settle_to_the_micro",
    ),
    mutation(
        "fee-without-cap",
        "A failed run of a hundred dollars costs two.",
        "money/fees.py",
        "    return min(max(MINIMUM_FEE_FLOOR_USD_MICROS, reserved_usd_micros * 2 // 100),"
        " MINIMUM_FEE_CAP_USD_MICROS)\n",
        "    return max(MINIMUM_FEE_FLOOR_USD_MICROS, reserved_usd_micros * 2 // 100)\n",
        "tests/money/test_fees.py",
    ),
    mutation(
        "rebuild-over-reservations-in-flight",
        "A reservation whose insert is still to come is given away.",
        "money/lua/books.lua",
        "      in_flight = in_flight + tonumber(amount)\n",
        "",
        "tests/money/test_rebuild.py::test_a_rebuild_of_a_healthy_ledger_changes_nothing",
    ),
    mutation(
        "rebuild-from-stale-facts",
        "A rebuild that arrives late overwrites the moves made meanwhile.",
        "money/lua/rebuild.lua",
        "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end\n",
        "",
        "tests/money/test_rebuild.py::test_a_script_that_lands_late_changes_nothing",
    ),
    mutation(
        "measure-moving-balance",
        "A healthy ledger with traffic is reported as drifting, and repaired wrongly.",
        "money/lua/measure.lua",
        "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end\n",
        "",
        "tests/money/test_drift.py::test_a_balance_that_never_rests_is_left_for_the_next_firing",
    ),
    mutation(
        "repair-contradicted-ledger",
        "A row that was changed by hand becomes the truth, without a report.",
        "money/drift.py",
        "    if contradicted:\n",
        "    if not contradicted and contradicted:\n",
        "tests/money/test_drift.py::test_a_receipt_that_contradicts_its_row_is_left_to_an_operator",
    ),
    mutation(
        "refund-too-little",
        "Settling refunds a micro less than the rest of the reservation.",
        "money/lua/ledger.lua",
        "  redis.call('INCRBY', keys[1], refund)\n",
        "  redis.call('INCRBY', keys[1], as_text(math.max(reserved - charge - 1, 0)))\n",
        _SIMULATION,
    ),
)
