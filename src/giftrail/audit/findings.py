"""What must be true of orders, money and codes together, at every commit; a finding names the rows."""

from datetime import datetime, timedelta

from giftrail.audit import store
from giftrail.db import pool
from giftrail.delivery import send
from giftrail.leases import store as leases
from giftrail.orders import asking, undo
from giftrail.wallet import audit as books

# Twice the length of a lease.
STALE_LEASE = timedelta(seconds=180)
# Events are kept a little longer than this.
RETENTION = timedelta(days=89)
# Clients give an order up after 15 minutes; the service must have ended it by then.
OVERDUE = timedelta(minutes=15)


async def list_findings(conn: pool.Connection, *, now: datetime) -> list[str]:
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
        findings += await _list_work_findings(conn, now=now)
    return findings


async def _list_work_findings(conn: pool.Connection, *, now: datetime) -> list[str]:
    findings = [
        f"order {row['partner_id']}/{row['order_id']}: PROCESSING, but nobody will go on with it"
        for row in await store.list_processing_without_work(conn)
    ]
    findings += [
        f"order {row['partner_id']}/{row['order_id']}: PROCESSING since {row['created_at']:%Y-%m-%dT%H:%M:%SZ}"
        for row in await store.list_overdue_orders(conn, placed_before=now - OVERDUE)
    ]
    findings += [
        f"order {row['partner_id']}/{row['order_id']}: {row['status']} after PROCESSING, with {row['events']} events"
        " that tell so"
        for row in await store.list_untold_endings(conn, since=now - RETENTION)
    ]
    findings += [
        f"event {row['partner_id']}/{row['event_id']}: {row['endpoints']} endpoints wanted it,"
        f" but it is on its way to {row['deliveries']}"
        for row in await store.list_undelivered_events(conn, since=now - RETENTION)
    ]
    findings += [
        f"events of {row['partner_id']}: numbered {row['first']} to {row['last']}, {row['count']} in all,"
        f" the counter is at {row['last_sequence']}"
        for row in await store.list_sequence_gaps(conn)
    ]
    findings += [
        f"delivered code {row['provider']}/{row['provider_voucher_id']}: {row['state']}, but its order is"
        f" {row['status'] or 'unknown'}"
        for row in await store.list_codes_in_two_places(conn)
    ]
    findings += [
        f"{table.name} {'/'.join(row.values())}: its lease ended long ago and nobody took it over"
        for table in (asking.WORK, undo.WORK, send.WORK)
        for row in await leases.list_overdue(conn, table, before=now - STALE_LEASE)
    ]
    findings += [
        f"order {row['partner_id']}/{row['order_id']}: {row['status']} with {row['recipients']} recipients,"
        f" but {row['deliveries']} of them are delivered to"
        for row in await store.list_undelivered_vouchers(conn)
    ]
    findings += [
        f"spending {row['partner_id']}/{row['brand_id'] or 'all'}/{row['period']}: {row['orders']} orders are counted"
        f" from {row['window_start']:%Y-%m-%dT%H:%M:%SZ} on, but it has {row['counted']}, or of another amount"
        for row in await store.list_wrong_spending(conn)
    ]
    return findings
