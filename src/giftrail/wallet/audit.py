"""What must be true of the books at every commit; a finding names the rows."""

from giftrail.db import pool
from giftrail.wallet import store


async def list_findings(conn: pool.Connection) -> list[str]:
    """One sentence for each thing in the books that cannot be; none when they add up."""
    findings = [
        f"transfer {row['partner_id']}/{row['wallet_version']}: its entries add to {row['total']}, not to 0"
        for row in await store.list_unbalanced(conn)
    ]
    findings += [
        f"entry {row['partner_id']}/{row['wallet_version']}/{row['account']}: it belongs to no transfer"
        for row in await store.list_entries_without_transfer(conn)
    ]
    findings += [
        f"wallet {row['partner_id']}: available {row['available']} and held {row['held']},"
        f" but its entries say {row['entries_available']} and {row['entries_held']}"
        for row in await store.list_wallets_unlike_their_entries(conn)
    ]
    findings += [
        f"transfer {row['partner_id']}/{row['wallet_version']}: its amount or balances are not those of its entries"
        for row in await store.list_transfers_unlike_their_entries(conn)
    ]
    findings += [
        f"wallet {row['partner_id']}: version {row['version']}, but its transfers are"
        f" {row['first']} to {row['last']}, {row['count']} in all"
        for row in await store.list_gaps(conn)
    ]
    findings += [
        f"entry {row['partner_id']}/{row['wallet_version']}/{row['account']}: its balance"
        " does not follow the one before"
        for row in await store.list_broken_balances(conn)
    ]
    findings += [
        f"wallet {row['partner_id']}: held {row['held_minor']}, but its open holds add to {row['open_minor']}"
        for row in await store.list_holds_unlike_held(conn)
    ]
    findings += [
        f"transfer {row['partner_id']}/{row['wallet_version']}: this {row['kind']} ends no hold of its order and amount"
        for row in await store.list_wrong_resolutions(conn)
    ]
    return findings
