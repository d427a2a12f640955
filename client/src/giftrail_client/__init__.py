"""The partner's SDK of the gift voucher partner service: every client duty of its specification, done once.

from giftrail_client import Giftrail

with Giftrail("https://vouchers.example", client_id, client_secret) as giftrail:
order = giftrail.orders.place("chai-verandah", {500: 2})
"""

from giftrail_client.aio import AsyncGiftrail
from giftrail_client.errors import (
    AuthenticationFailed,
    BrandNotFound,
    CannotReach,
    GiftrailError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    OrderFailed,
    OrderStillProcessing,
    OrderTimedOut,
    OutcomeUnknown,
    RateLimited,
    ReferenceConflict,
    ServiceError,
    SpendingLimitExceeded,
    SubError,
    Unavailable,
    UnexpectedAnswer,
    WrongOrderState,
)
from giftrail_client.inbox import Inbox, Kept, MemoryInbox, SqliteInbox
from giftrail_client.mirror import AsyncCatalogMirror, CatalogMirror
from giftrail_client.models import (
    AmountRestrictions,
    Attempt,
    Balance,
    Brand,
    Delivery,
    Difference,
    Endpoint,
    Order,
    Page,
    Quote,
    RecipientDelivery,
    Reconciliation,
    Transaction,
    Voucher,
)
from giftrail_client.router import Answer, WebhookRouter
from giftrail_client.sync import Giftrail
from giftrail_client.tokens import FileTokenStore, MemoryTokenStore, Token, TokenStore
from giftrail_client.webhooks import Event, VerificationFailed, verify

__all__ = [
    "AmountRestrictions",
    "Answer",
    "AsyncCatalogMirror",
    "AsyncGiftrail",
    "Attempt",
    "AuthenticationFailed",
    "Balance",
    "Brand",
    "BrandNotFound",
    "CannotReach",
    "CatalogMirror",
    "Delivery",
    "Difference",
    "Endpoint",
    "Event",
    "FileTokenStore",
    "Giftrail",
    "GiftrailError",
    "Inbox",
    "InvalidRequest",
    "Kept",
    "MemoryInbox",
    "MemoryTokenStore",
    "NotAllowed",
    "NotFound",
    "Order",
    "OrderFailed",
    "OrderStillProcessing",
    "OrderTimedOut",
    "OutcomeUnknown",
    "Page",
    "Quote",
    "RateLimited",
    "RecipientDelivery",
    "Reconciliation",
    "ReferenceConflict",
    "ServiceError",
    "SpendingLimitExceeded",
    "SqliteInbox",
    "SubError",
    "Token",
    "TokenStore",
    "Transaction",
    "Unavailable",
    "UnexpectedAnswer",
    "VerificationFailed",
    "Voucher",
    "WebhookRouter",
    "WrongOrderState",
    "verify",
]
