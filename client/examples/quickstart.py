"""A voucher in twenty lines. Set GIFTRAIL_BASE_URL, GIFTRAIL_CLIENT_ID and GIFTRAIL_CLIENT_SECRET first."""

import os

from giftrail_client import Giftrail

base_url, client_id = os.environ["GIFTRAIL_BASE_URL"], os.environ["GIFTRAIL_CLIENT_ID"]
with Giftrail(base_url, client_id, os.environ["GIFTRAIL_CLIENT_SECRET"]) as giftrail:
    print("can be spent:", giftrail.wallet.balance().balance)
    for brand in giftrail.brands.iterate(status="ACTIVE"):
        plan = brand.plan(500)  # the fewest vouchers that make up 500 within the brand's rules
        if plan:
            break
    else:
        raise SystemExit("no brand has vouchers for 500")
    order = giftrail.orders.place(brand.id, plan)
    order = giftrail.orders.wait(order)  # at once when it is finished already
    if order.failed:
        raise SystemExit(f"{order.failure_reason} ({order.failure_code})")
    for voucher in order.vouchers:
        print(brand.title, voucher.amount, voucher.display(), "until", voucher.valid_till)
