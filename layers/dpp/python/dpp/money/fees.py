"""The cost of a run if its pack delivers no result (RUN-23; 001 §12.2)."""

MINIMUM_FEE_FLOOR_USD_MICROS = 5_000
MINIMUM_FEE_CAP_USD_MICROS = 100_000


def minimum_fee(reserved_usd_micros: int) -> int:
    """Micros: 2 % of the reservation, rounded down, at least 5 000 and at most 100 000.

    It can exceed a tiny reservation; `charge_within` then limits it to the reserved amount.
    """
    return min(max(MINIMUM_FEE_FLOOR_USD_MICROS, reserved_usd_micros * 2 // 100), MINIMUM_FEE_CAP_USD_MICROS)


def charge_within(cost_usd_micros: int, reserved_usd_micros: int) -> int:
    """Micros charged for a cost: at most what the client reserved (RUN-24)."""
    if cost_usd_micros < 0:
        raise ValueError("a cost must not be negative")
    return min(cost_usd_micros, reserved_usd_micros)
