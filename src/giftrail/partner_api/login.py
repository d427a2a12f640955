"""Login (specification, Login): shape 400, credentials 401, address 403, so that no answer reveals a clientId."""

from giftrail.partner_api import guard, problems, requests, shapes, wire
from giftrail.partner_api.endpoints import Answer, Call, Endpoint
from giftrail.partners import login


async def log_in(call: Call) -> Answer:
    """A token for a pair of clientId and clientSecret of this environment."""
    wanted, violations = requests.read_struct(call.body, shapes.LoginRequest)
    if wanted is None:
        raise problems.invalid(violations)
    around = call.around
    settings = around.settings
    key = f"{call.address} {wanted.client_id}"
    known = around.directory.find_by_credential(wanted.client_id)
    limit = settings.failed_logins_per_minute
    if known is not None and known.failed_logins_per_minute is not None:
        limit = known.failed_logins_per_minute
    # Taken before the look-up and put back after a right one, so that parallel guesses are counted too.
    verdict = around.login_buckets.take(key, per_second=limit / 60, burst=max(1, limit))
    headers = verdict.headers("failed-logins") if verdict else {}
    if verdict is not None and not verdict.allowed:
        raise problems.Problem(
            problems.Code.RATE_LIMITED, "too many failed logins; wait as long as Retry-After says", headers=headers
        )
    try:
        partner = await login.check_credentials(
            around.database.read,
            client_id=wanted.client_id,
            client_secret=wanted.client_secret,
            environment=settings.environment,
        )
    except login.WrongCredentials:
        raise problems.Problem(
            problems.Code.UNAUTHORIZED,
            f"clientId and clientSecret are no pair of the {settings.environment} environment",
            headers=headers,
        ) from None
    around.login_buckets.put_back(key, burst=max(1, limit))
    guard.check_address(around, partner, call.address)
    token = around.tokens.sign(partner_id=partner.partner_id, credential_id=wanted.client_id, now=call.now)
    body = shapes.Login(token=token, expires_in_secs=around.tokens.lifetime_seconds)
    return Answer(wire.encode(body), headers=headers)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/v1/partners/auth/login",
        operation="login",
        summary="Obtain an access token",
        handle=log_in,
        request=shapes.LoginRequest,
        response=shapes.Login,
        errors=(problems.Code.UNAUTHORIZED, problems.Code.ADDRESS_NOT_ALLOWED, problems.Code.RATE_LIMITED),
        authenticated=False,
        secret=True,
    ),
)
