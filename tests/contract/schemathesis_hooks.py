"""What schemathesis cannot know: brands that exist, and amounts that are the sum of their lines.

Loaded by its command line through SCHEMATHESIS_HOOKS. Of the placements that are sound in shape most are mended, so
that orders come of them.
"""

import itertools
from typing import Any

import schemathesis

BRANDS = ("fixed", "flexible", "inactive", "stocked")
DENOMINATIONS = (100, 250, 500)
_numbers = itertools.count()


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Mend the body of a placement."""
    del context, kwargs
    is_sound = case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE
    if case.operation.label != "POST /v1/partners/orders" or not is_sound or not isinstance(case.body, dict):
        return
    number = next(_numbers)
    if number % 4 == 3:
        return
    lines: list[Any] = [
        {"denomination": denomination, "quantity": 1 + number % 2} for denomination in DENOMINATIONS[: 1 + number % 3]
    ]
    case.body |= {
        "productId": BRANDS[number // 4 % len(BRANDS)],
        "referenceId": f"schemathesis-{number // 2}",  # some are sent again, most of them with other content
        "denominationDetails": lines,
        "amount": sum(line["denomination"] * line["quantity"] for line in lines),
    }
