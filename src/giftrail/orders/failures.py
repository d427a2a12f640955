"""Why a sound order is not served: the specification's four reasons and the code of each cause.

The table of the wire contract, Place Order, in the order in which causes are told when there are several.
"""

from enum import StrEnum

from giftrail.catalog import rules


class Reason(StrEnum):
    """The failureReason values of the specification."""

    BRAND = "Brand not available"
    DENOMINATION = "Denomination not available"
    BALANCE = "Insufficient balance"
    GENERATION = "Voucher generation failed"


INSUFFICIENT_BALANCE = "E300"
GENERATION_FAILED = "E200"

REASONS: dict[str, Reason] = {
    rules.Refusal.NOT_ACTIVE: Reason.BRAND,
    rules.Refusal.NOT_ENABLED: Reason.BRAND,
    rules.Refusal.NO_PROVIDER: Reason.BRAND,
    rules.Refusal.TOO_MANY_VOUCHERS: Reason.DENOMINATION,
    rules.Refusal.TOO_MANY_OF_ONE_DENOMINATION: Reason.DENOMINATION,
    rules.Refusal.TOO_MANY_DENOMINATIONS: Reason.DENOMINATION,
    rules.Refusal.DENOMINATION_NOT_AVAILABLE: Reason.DENOMINATION,
    rules.Refusal.OUTSIDE_VOUCHER_BOUNDS: Reason.DENOMINATION,
    rules.Refusal.OUTSIDE_ORDER_BOUNDS: Reason.DENOMINATION,
    INSUFFICIENT_BALANCE: Reason.BALANCE,
    GENERATION_FAILED: Reason.GENERATION,
}
