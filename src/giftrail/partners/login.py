"""Login and the token: who it is, until when, for which environment (specification, Authentication)."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt

from giftrail.db import pool
from giftrail.kit import ids
from giftrail.partners import manage, model, store

_ALGORITHM = "HS256"
_ISSUER = "giftrail"
# What an unknown clientId is compared with, so that it takes as long as a wrong secret.
_NOBODYS_DIGEST = manage.digest_secret("")
# Verified tokens kept by their digest, so that a busy partner's token is verified once.
_MAX_TOKENS_KEPT = 10_000


class WrongCredentials(Exception):
    """The pair is unknown, wrong, revoked, suspended or of another environment; never said which."""


class TokenRefused(Exception):
    """The token is malformed, expired, or was not signed by this environment."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says."""

    partner_id: str
    credential_id: str
    expires_at: float  # seconds since the epoch


async def check_credentials(pool_: pool.Pool, *, client_id: str, client_secret: str, environment: str) -> model.Partner:
    """The partner whose credentials these are. Raises WrongCredentials."""
    row = await store.find_credential(pool_, credential_id=client_id) if "\0" not in client_id else None
    expected = row["secret_digest"] if row else _NOBODYS_DIGEST
    matches = hmac.compare_digest(manage.digest_secret(client_secret), expected)
    if row is None or not matches or row["revoked_at"] or row["environment"] != environment:
        raise WrongCredentials
    partner = await store.find_partner(pool_, name_or_id=row["partner_id"])
    if partner is None or partner.suspended_at:
        raise WrongCredentials
    return partner


class Tokens:
    """Signs and verifies access tokens of one environment.

    `keys` are (id, key) pairs; the first signs, all verify, so that keys can be changed without logging anyone out.
    """

    def __init__(self, keys: Sequence[tuple[str, bytes]], *, environment: str, lifetime_seconds: int) -> None:
        self.lifetime_seconds = lifetime_seconds
        self._environment = environment
        self._keys = dict(keys)
        self._current_id = keys[0][0]
        self._verified: dict[bytes, Claims] = {}

    def sign(self, *, partner_id: str, credential_id: str, now: datetime) -> str:
        """A token (JWT) for a partner that has logged in with a credential."""
        claims = {
            "iss": _ISSUER,
            "aud": self._environment,
            "sub": partner_id,
            "cid": credential_id,
            "iat": now,
            "exp": now + timedelta(seconds=self.lifetime_seconds),
            "jti": ids.new("tok", now=now),
        }
        return jwt.encode(claims, self._keys[self._current_id], algorithm=_ALGORITHM, headers={"kid": self._current_id})

    def verify(self, token: str, *, now: datetime) -> Claims:
        """What the token says. Raises TokenRefused. Whether the credential was revoked is the caller's to check."""
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._read(token)
            if len(self._verified) >= _MAX_TOKENS_KEPT:
                self._verified.clear()
            self._verified[digest] = claims
        if claims.expires_at <= now.timestamp():
            self._verified.pop(digest, None)
            raise TokenRefused
        return claims

    def _read(self, token: str) -> Claims:
        try:
            key = self._keys[jwt.get_unverified_header(token)["kid"]]
            read = jwt.decode(
                token,
                key,
                algorithms=[_ALGORITHM],
                audience=self._environment,
                issuer=_ISSUER,
                options={"require": ["exp", "sub", "aud", "iss"], "verify_exp": False, "verify_iat": False},
            )
            return Claims(partner_id=read["sub"], credential_id=read["cid"], expires_at=float(read["exp"]))
        except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
            raise TokenRefused from None
