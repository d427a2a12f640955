import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

import counter
from giftrail.db import changes, pool
from giftrail.kit import money
from giftrail.partners import directory, login, manage, model, store
from giftrail.wallet import ledger, onboard

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
KEY = ("k1", bytes(range(32)))


async def create(conn: pool.Connection, name: str = "Acme Rewards", **changes_: Any) -> model.Partner:
    values: dict[str, Any] = {"name": name, "kind": model.Kind.B2B, "currency": "INR", "now": NOW} | changes_
    async with conn.transaction():
        return await onboard.create_partner(conn, **values)


async def test_a_new_partner_has_an_empty_wallet_and_may_call_from_nowhere(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn, kind=model.Kind.B2C, currency="KWD", region="KW", rate_per_second=5, rate_burst=6)
        found = await manage.read_partner(conn, name_or_id=made.partner_id)
        assert found == made == await manage.read_partner(conn, name_or_id="Acme Rewards")
        assert (found.kind, found.currency, found.region) == (model.Kind.B2C, "KWD", "KW")
        assert (found.rate_per_second, found.rate_burst) == (5, 6)
        assert (found.credentials, found.networks, found.suspended_at) == (frozenset(), (), None)
        assert not found.allows(ipaddress.ip_address("127.0.0.1"))
        wallet = await ledger.read_wallet(conn, partner_id=made.partner_id)
        assert (wallet.available_minor, wallet.currency, wallet.version) == (0, "KWD", 0)


@pytest.mark.parametrize(
    ("values", "refusal", "named"),
    [
        ({"name": ""}, manage.PartnerInvalid, "name"),
        ({"name": "   "}, manage.PartnerInvalid, "name"),
        ({"name": "x" * 101}, manage.PartnerInvalid, "100"),
        ({"name": "two\nlines"}, manage.PartnerInvalid, "name"),
        ({"name": "nul\0"}, manage.PartnerInvalid, "name"),
        ({"currency": "RUP"}, money.UnknownCurrency, "RUP"),
        ({"region": "IND"}, manage.PartnerInvalid, "IND"),
        ({"region": "in"}, manage.PartnerInvalid, "in"),
        ({"region": "ÀÉ"}, manage.PartnerInvalid, "region"),
        ({"rate_per_second": -1}, manage.PartnerInvalid, "rate_per_second -1"),
        ({"rate_per_second": 1_000_001}, manage.PartnerInvalid, "rate_per_second"),
        ({"rate_burst": 0}, manage.PartnerInvalid, "rate_burst 0"),
    ],
)
async def test_what_a_partner_cannot_be_is_refused_by_name_and_stores_nothing(
    database_url: str, values: dict[str, Any], refusal: type[Exception], named: str
) -> None:
    async with pool.connect(database_url) as conn:
        with pytest.raises(refusal, match=named):
            await create(conn, **values)
        assert await store.list_partners(conn) == []
        assert await conn.fetchval("SELECT count(*) FROM wallet") == 0


async def test_a_name_is_taken_once(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        await create(conn)
        with pytest.raises(manage.PartnerExists, match="Acme Rewards"):
            await create(conn)
        assert await conn.fetchval("SELECT count(*) FROM wallet") == 1


async def test_an_unknown_partner_is_named(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        with pytest.raises(manage.PartnerUnknown, match="'Nobody'"):
            await manage.read_partner(conn, name_or_id="Nobody")


@pytest.mark.parametrize(
    "values",
    [
        {"kind": model.Kind.B2C},
        {"region": "KW"},
        {"request_id_mode": model.RequestIdMode.GENERATE},
        {"rate_per_second": 0, "rate_burst": 1},
        {"rate_per_second": None},
    ],
)
async def test_what_can_be_set_is_set_and_nothing_else(database_url: str, values: dict[str, Any]) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn, rate_per_second=9)
        await manage.set_partner(conn, partner_id=made.partner_id, values=values, now=NOW)
        found = await manage.read_partner(conn, name_or_id=made.partner_id)
        changed = {name for name in model.Partner.__dataclass_fields__ if getattr(found, name) != getattr(made, name)}
        assert changed == values.keys() | {"version"}
        assert {name: getattr(found, name) for name in values} == values


@pytest.mark.parametrize(
    "values",
    [{"currency": "USD"}, {"name": "Other"}, {"suspended_at": None}, {"region": "India"}, {"rate_burst": 0}],
)
async def test_what_cannot_be_set_is_refused(database_url: str, values: dict[str, Any]) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        with pytest.raises(manage.PartnerInvalid):
            await manage.set_partner(conn, partner_id=made.partner_id, values=values, now=NOW)
        assert await manage.read_partner(conn, name_or_id=made.partner_id) == made


async def test_every_deed_raises_the_version_that_the_processes_watch(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        partner_id = made.partner_id
        credential = await manage.create_credential(conn, partner_id=partner_id, environment="staging", now=NOW)
        seen = (await changes.read_versions(conn))["partners"]
        for deed in (
            manage.suspend_partner(conn, partner_id=partner_id, now=NOW),
            manage.resume_partner(conn, partner_id=partner_id, now=NOW),
            manage.set_partner(conn, partner_id=partner_id, values={"region": "KW"}, now=NOW),
            manage.allow_network(conn, partner_id=partner_id, network="10.0.0.0/8", now=NOW),
            manage.remove_network(conn, partner_id=partner_id, network="10.0.0.0/8", now=NOW),
            manage.create_credential(conn, partner_id=partner_id, environment="staging", now=NOW),
            manage.revoke_credential(conn, client_id=credential.client_id, now=NOW),
        ):
            async with conn.transaction():
                await deed
            seen += 1
            assert (await changes.read_versions(conn))["partners"] == seen
            found = await store.list_partners(conn, changed_since_version=seen - 1)
            assert [one.version for one in found] == [seen]


async def test_of_a_secret_only_its_digest_is_kept(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        first = await manage.create_credential(conn, partner_id=made.partner_id, environment="staging", now=NOW)
        second = await manage.create_credential(conn, partner_id=made.partner_id, environment="staging", now=NOW)
        assert len({first.client_id, second.client_id, first.client_secret, second.client_secret}) == 4
        assert len(first.client_secret) >= 43
        rows = [str(tuple(row)) for row in await conn.fetch("SELECT * FROM credential")]
        assert not [row for row in rows for one in (first, second) if one.client_secret in row]
        found = await manage.read_partner(conn, name_or_id=made.partner_id)
        assert found.credentials == {first.client_id, second.client_id}


@pytest.mark.parametrize(
    "wrong",
    ["secret", "empty secret", "client", "nul", "environment", "revoked", "suspended"],
)
async def test_wrong_credentials_are_never_told_apart(database_url: str, wrong: str) -> None:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=2) as read, read.acquire() as conn:
        made = await create(conn)
        credential = await manage.create_credential(conn, partner_id=made.partner_id, environment="staging", now=NOW)
        asked = {
            "client_id": credential.client_id,
            "client_secret": credential.client_secret,
            "environment": "staging",
        }
        assert (await login.check_credentials(pool.Pool(read), **asked)).partner_id == made.partner_id
        match wrong:
            case "secret":
                asked["client_secret"] += "x"
            case "empty secret":
                asked["client_secret"] = ""
            case "client":
                asked |= {"client_id": "crd_nobody", "client_secret": ""}
            case "nul":
                asked["client_id"] += "\0"
            case "environment":
                asked["environment"] = "production"
            case "revoked":
                assert await manage.revoke_credential(conn, client_id=credential.client_id, now=NOW) == made.partner_id
            case "suspended":
                await manage.suspend_partner(conn, partner_id=made.partner_id, now=NOW)
        with pytest.raises(login.WrongCredentials) as caught:
            await login.check_credentials(pool.Pool(read), **asked)
        assert str(caught.value) == ""


async def test_a_credential_is_revoked_once(database_url: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        credential = await manage.create_credential(conn, partner_id=made.partner_id, environment="staging", now=NOW)
        await manage.revoke_credential(conn, client_id=credential.client_id, now=NOW)
        for client_id in (credential.client_id, "crd_nobody"):
            with pytest.raises(manage.CredentialUnknown, match=client_id):
                await manage.revoke_credential(conn, client_id=client_id, now=NOW)
        assert (await manage.read_partner(conn, name_or_id=made.partner_id)).credentials == frozenset()


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("198.51.100.0/24", "198.51.100.255", "198.51.101.0"),
        ("198.51.100.7", "198.51.100.7", "198.51.100.8"),
        ("2001:db8::/32", "2001:db8::1", "2001:db9::1"),
        ("0.0.0.0/0", "8.8.8.8", "::1"),
    ],
)
async def test_a_network_is_allowed_and_removed(database_url: str, network: str, inside: str, outside: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        for _ in range(2):  # twice is once
            await manage.allow_network(conn, partner_id=made.partner_id, network=network, now=NOW)
        found = await manage.read_partner(conn, name_or_id=made.partner_id)
        assert found.networks == (ipaddress.ip_network(network),)
        assert found.allows(ipaddress.ip_address(inside))
        assert not found.allows(ipaddress.ip_address(outside))
        await manage.remove_network(conn, partner_id=made.partner_id, network=network, now=NOW)
        with pytest.raises(manage.NetworkUnknown, match="not in the list"):
            await manage.remove_network(conn, partner_id=made.partner_id, network=network, now=NOW)


@pytest.mark.parametrize("network", ["", "10.0.0.1/8", "10.0.0.0/33", "example.com", "::1/200"])
async def test_what_is_no_network_is_refused(database_url: str, network: str) -> None:
    async with pool.connect(database_url) as conn:
        made = await create(conn)
        for deed in (manage.allow_network, manage.remove_network):
            with pytest.raises(manage.PartnerInvalid):
                await deed(conn, partner_id=made.partner_id, network=network, now=NOW)


async def test_the_directory_sees_what_changed_and_never_goes_back(database_url: str) -> None:
    database = await pool.open_database(
        database_url, read_connections=2, write_connections=1, statement_timeout_seconds=5
    )
    try:
        async with pool.connect(database_url) as conn:
            known = directory.Directory(database)
            made = await counter.new_partner(conn)
            assert known.find(made.partner_id) is None
            assert await known.find_fresh(made.partner_id) == made
            assert known.find(made.partner_id) == made
            await manage.suspend_partner(conn, partner_id=made.partner_id, now=NOW)
            await known.refresh((await changes.read_versions(conn))["partners"])
            suspended = known.find(made.partner_id)
            assert suspended is not None
            assert suspended.suspended_at == NOW
            known._keep(made)
            assert known.find(made.partner_id) == suspended
            assert await known.find_fresh("prt_nobody") is None
    finally:
        database.terminate()


def tokens(*keys: tuple[str, bytes], environment: str = "staging") -> login.Tokens:
    return login.Tokens(keys or (KEY,), environment=environment, lifetime_seconds=3600)


def test_a_token_tells_who_until_when() -> None:
    token = tokens().sign(partner_id="prt_1", credential_id="crd_1", now=NOW)
    fresh = tokens()
    for _ in range(2):  # the second time from memory
        claims = fresh.verify(token, now=NOW + timedelta(seconds=3599))
        assert (claims.partner_id, claims.credential_id) == ("prt_1", "crd_1")
    with pytest.raises(login.TokenRefused):
        fresh.verify(token, now=NOW + timedelta(seconds=3600))
    with pytest.raises(login.TokenRefused):
        tokens().verify(token, now=NOW + timedelta(seconds=3600))


def test_a_token_of_a_retired_key_or_another_environment_is_refused() -> None:
    other = ("k2", bytes(range(100, 132)))
    token = tokens().sign(partner_id="prt_1", credential_id="crd_1", now=NOW)
    assert tokens(other, KEY).verify(token, now=NOW).partner_id == "prt_1"
    forged = ("k1", other[1])
    for keys, environment in (((other,), "staging"), ((forged,), "staging"), ((KEY,), "production")):
        with pytest.raises(login.TokenRefused):
            tokens(*keys, environment=environment).verify(token, now=NOW)


@pytest.mark.parametrize(
    "token",
    ["", "a", "a.b.c", "....", "é" * 50, "eyJhbGciOiJub25lIiwia2lkIjoiazEifQ.eyJzdWIiOiJwcnRfMSJ9."],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(login.TokenRefused):
        tokens().verify(token, now=NOW)
