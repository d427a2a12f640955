"""The headers of a webhook: both signatures over the stored bytes, made anew at each attempt (wire contract §7)."""

from datetime import datetime

from giftrail.webhooks import model
from giftrail_client import webhooks as signatures


def headers(
    endpoint: model.Endpoint, body: bytes, *, event_id: str, kind: str, attempt: int, now: datetime
) -> dict[str, str]:
    """X-Verify with the secret in force; webhook-signature with each secret that a receiver may have."""
    secrets = [endpoint.secret]
    if endpoint.staged_secret is not None:
        secrets.append(endpoint.staged_secret)
    if endpoint.old_secret is not None and endpoint.old_secret_until is not None and now < endpoint.old_secret_until:
        secrets.append(endpoint.old_secret)
    timestamp = int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "Giftrail",
        "X-Verify": signatures.sign(body, endpoint.secret),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            signatures.sign_standard(body, secret, event_id=event_id, timestamp=timestamp) for secret in secrets
        ),
        "X-Event-Type": kind,
        "X-Delivery-Attempt": str(attempt),
    }
