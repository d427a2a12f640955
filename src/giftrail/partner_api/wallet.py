"""The wallet (wire contract, reads)."""

from giftrail.partner_api import queries, shapes, wire
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Parameter
from giftrail.wallet import ledger, store

MAX_LIMIT = 200
DEFAULT_LIMIT = 50


async def get_balance(call: Call) -> Answer:
    """What can still be spent, what is held, and the threshold of the low-balance event."""
    wallet = await ledger.read_wallet(call.around.database.read, partner_id=call.partner.partner_id)
    return Answer(wire.encode(wire.balance(wallet)))


async def list_transactions(call: Call) -> Answer:
    """The statement, newest first."""
    query = call.query
    limit = min(query.number("limit") or DEFAULT_LIMIT, MAX_LIMIT)
    cursor = query.cursor(r"[0-9]{1,18}")
    created_from, created_to = query.moment("from"), query.moment("to")
    query.check()
    found = await store.list_transfers(
        call.around.database.read,
        partner_id=call.partner.partner_id,
        before_version=int(cursor) if cursor else None,
        created_from=created_from,
        created_to=created_to,
        limit=limit + 1,
    )
    more = len(found) > limit
    body = shapes.TransactionList(
        data=[wire.transaction(transfer, currency=call.partner.currency) for transfer in found[:limit]],
        next_cursor=queries.write_cursor(str(found[limit - 1].wallet_version)) if more else None,
    )
    return Answer(wire.encode(body))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/partners/wallet/balance",
        operation="getWalletBalance",
        summary="Get the wallet's balance",
        handle=get_balance,
        response=shapes.Balance,
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/wallet/transactions",
        operation="listWalletTransactions",
        summary="List the wallet's movements, newest first",
        handle=list_transactions,
        response=shapes.TransactionList,
        parameters=(
            Parameter("limit", "query", f"at most {MAX_LIMIT}", {"type": "integer", "minimum": 1}),
            Parameter("cursor", "query", "the nextCursor of the page before"),
            Parameter("from", "query", "at or after", {"type": "string", "format": "date-time"}),
            Parameter("to", "query", "before", {"type": "string", "format": "date-time"}),
        ),
    ),
)
