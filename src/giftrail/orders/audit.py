"""What must be true of orders, money and codes together, at every commit; a finding names the rows."""

from giftrail.db import pool
from giftrail.orders import store
from giftrail.wallet import audit as books


async def list_findings(conn: pool.Connection) -> list[str]:
    """One sentence for each thing that cannot be; none when all is well. Reads everything in one snapshot."""
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        findings = await books.list_findings(conn)
        findings += [
            f"order {row['partner_id']}/{row['order_id']}: {row['status']} with debit {row['debit_minor']},"
            f" but its transfers are {', '.join(row['kinds'] or ['none'])}"
            for row in await store.list_unpaid_or_paid_twice(conn)
        ]
        findings += [
            f"order {row['partner_id']}/{row['order_id']}: {row['status']}, but amount {row['amount_minor']} and debit"
            f" {row['debit_minor']} do not follow from its lines and discount"
            for row in await store.list_wrong_amounts(conn)
        ]
        findings += [
            f"transfer {row['partner_id']}/{row['wallet_version']}: its order {row['order_id']} does not exist"
            for row in await store.list_transfers_without_order(conn)
        ]
        findings += [
            f"order {row['partner_id']}/{row['order_id']}: {row['status'] or 'unknown'},"
            " but its vouchers are not those of its lines"
            for row in await store.list_wrong_vouchers(conn)
        ]
        findings += [
            f"voucher {row['partner_id']}/{row['voucher_id']}: its code is not recorded"
            f" as sold once by {row['provider']}"
            for row in await store.list_codes_not_sold_once(conn)
        ]
        findings += [
            f"sold code of voucher {row['partner_id']}/{row['voucher_id']}: the voucher does not exist"
            for row in await store.list_sold_without_voucher(conn)
        ]
    return findings
