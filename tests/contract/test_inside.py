import json
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin

import httpx
import pytest
from jsonschema import Draft202012Validator

from house import House, PartnerProgram, execute, serving

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
ORDERS = "/v1/partners/orders"
# Every endpoint of the specification and of the wire contract's reads.
ENDPOINTS = [
    ("POST", "/v1/partners/auth/login"),
    ("GET", "/v1/partners/products"),
    ("GET", "/v1/partners/products/{}"),
    ("POST", ORDERS),
    ("GET", ORDERS),
    ("GET", f"{ORDERS}/{{}}"),
    ("GET", f"{ORDERS}/by-reference/{{}}"),
    ("GET", f"{ORDERS}/vouchers/{{}}"),
    ("GET", "/v1/partners/wallet/balance"),
    ("GET", "/v1/partners/wallet/transactions"),
]
FORMATS = {
    "date": r"\d{4}-\d\d-\d\d",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}


@pytest.fixture(scope="module")
def document(_session_house: House) -> dict[str, Any]:
    answer = _session_house.client().get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    made: dict[str, Any] = answer.json()
    return made


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in the JSON."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def find(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """The operation whose path has the names of its parameters where `path` has {}."""
    found = [
        operation
        for candidate, name, operation in operations(document)
        if name == method.lower() and re.sub(r"\{\w+\}", "{}", candidate) == path
    ]
    assert len(found) == 1, f"{method} {path}"
    return found[0]


def strict(schema: Any) -> Any:
    """The schema, in which an object has no member beside those that are described."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(value) for name, value in schema.items()}
    if made.get("type") == "object" and "properties" in made:
        made["additionalProperties"] = False
    return made


class Formats:
    """Checks the formats that the document uses."""

    def conforms(self, value: object, name: str) -> bool:
        return not isinstance(value, str) or re.fullmatch(FORMATS[name], value) is not None

    def check(self, instance: object, format: str) -> None:  # noqa: A002 — jsonschema's name
        assert self.conforms(instance, format), f"{instance!r} is no {format}"


def validate(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    whole = {"components": strict(document["components"]), **strict(schema)}
    checker: Any = Formats()
    errors = [
        f"{list(error.absolute_path)}: {error.message}"
        for error in Draft202012Validator(whole, format_checker=checker).iter_errors(value)
    ]
    assert errors == []


def assert_documented(document: dict[str, Any], method: str, path: str, answer: httpx.Response) -> None:
    """The answer's status, media type and body are those that the document describes for the operation."""
    described = find(document, method, path)["responses"]
    assert str(answer.status_code) in described, f"{answer.status_code} is not described: {answer.text}"
    response = described[str(answer.status_code)]
    if answer.status_code == 304:
        assert "content" not in response
        assert answer.content == b""
        return
    media_type = answer.headers["content-type"].partition(";")[0]
    validate(document, response["content"][media_type]["schema"], answer.json())


# ---- the document ----


def test_the_document_is_openapi_3_1_in_shape(document: dict[str, Any]) -> None:
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert document.keys() <= {
        "openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components", "security", "tags",
        "externalDocs",
    }  # fmt: skip
    assert all(isinstance(document["info"][name], str) and document["info"][name] for name in ("title", "version"))
    assert not {"identifier", "url"} <= document["info"].get("license", {}).keys(), "one of them, not both"
    assert all(path.startswith("/") for path in document["paths"])
    shapes = [re.sub(r"\{\w+\}", "{}", path) for path in document["paths"]]
    assert len(set(shapes)) == len(shapes)


def test_every_operation_is_whole(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for path, method, operation in operations(document):
        assert method in METHODS
        assert operation["summary"]
        assert operation["responses"]
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d|default", status)
            assert isinstance(response["description"], str)
            for media in response.get("content", {}).values():
                assert media["schema"]
        parameters = operation["parameters"]
        keys = [(parameter["name"].casefold(), parameter["in"]) for parameter in parameters]
        assert len(set(keys)) == len(keys)
        for parameter in parameters:
            assert parameter["in"] in {"path", "query", "header", "cookie"}
            assert parameter["schema"] is not None
            assert parameter["name"].casefold() not in {"authorization", "accept", "content-type"}
        in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path))
        assert all(parameter["required"] is True for parameter in parameters if parameter["in"] == "path")
        nothing_to_say = operation["operationId"] in {"testWebhook", "promoteSecret", "redeliverEvent"}
        assert ("requestBody" in operation) == (method in {"post", "put", "patch"} and not nothing_to_say)
        for requirement in operation.get("security", document.get("security", [])):
            assert requirement.keys() <= document["components"]["securitySchemes"].keys()


def test_every_schema_is_json_schema_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        Draft202012Validator.check_schema(schema)
    for part in walk(document):
        if isinstance(part.get("$ref"), str):
            target: Any = document
            for step in part["$ref"].removeprefix("#/").split("/"):
                target = target[step]
        if isinstance(part.get("format"), str):
            assert part["format"] in FORMATS


def test_patterns_mean_in_every_language_what_they_mean_here(document: dict[str, Any]) -> None:
    for part in walk(document):
        if isinstance(part.get("pattern"), str):
            # JSON Schema's patterns are ECMA-262's, in which \A and \Z are the letters.
            assert not re.search(r"\\[AZz]|\(\?P|\(\?[a-z]+\)", part["pattern"]), part["pattern"]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_every_endpoint_is_described(document: dict[str, Any], method: str, path: str) -> None:
    operation = find(document, method, path)
    request_id = [parameter for parameter in operation["parameters"] if parameter["name"] == "X-REQUEST-ID"]
    is_login = path.endswith("/login")
    assert [parameter["required"] for parameter in request_id] == [not is_login]
    assert operation["security"] == ([] if is_login else [{"token": []}])
    expected = {"200", "400", "401", "403", "429", "500", "503"}
    expected |= {"413", "415"} if method == "POST" else set()
    expected |= {"404"} if path.endswith("{}") or (path == ORDERS and method == "POST") else set()
    expected |= {"409"} if path == ORDERS and method == "POST" else set()
    assert expected <= operation["responses"].keys()


@pytest.mark.parametrize(
    ("method", "path", "names"),
    [
        (
            "GET",
            "/v1/partners/products",
            "pageNo limit q category tag status denominationType redemptionType updatedSince If-None-Match",
        ),
        ("GET", "/v1/partners/products/{}", "If-None-Match"),
        ("GET", ORDERS, "status from to limit cursor"),
        ("POST", ORDERS, "Prefer"),
        ("GET", "/v1/partners/wallet/transactions", "limit cursor from to"),
    ],
)
def test_every_parameter_of_the_contract_is_described(
    document: dict[str, Any], method: str, path: str, names: str
) -> None:
    described = {parameter["name"] for parameter in find(document, method, path)["parameters"]}
    assert set(names.split()) <= described


# ---- real answers ----

INSTRUCTIONS = [{"retailMode": "ONLINE", "retailModeName": "Online", "instructions": ["Open."]}]
Answers = list[tuple[str, str, httpx.Response]]


def catalogue_answers(house: House) -> Answers:
    full = house.brand(
        logoUrl="https://x.example/l",
        tncUrl="https://x.example/t",
        termsAndConditions=["One."],
        howToUseInstructions=INSTRUCTIONS,
        voucherExpiryInMonths=6,
        maxVouchersPerOrder=5,
    )
    kuwaiti = house.brand(currency="KWD", denominations=["0.125"], maxOrderAmount="9.5")
    partner = house.partner(brands=[full, house.flexible_brand, house.inactive_brand])
    abroad = house.partner(currency="KWD", brands=[kuwaiti])
    etag = partner.get("/products").headers["etag"]
    calls: list[tuple[PartnerProgram, str, dict[str, str | None]]] = [
        (partner, "/products", {}),
        (partner, "/products?limit=1", {}),
        (partner, "/products?category=none", {}),
        (abroad, "/products", {}),
        (partner, "/products", {"If-None-Match": etag}),
        (partner, "/products?limit=x", {}),
        (partner, f"/products/{full}", {}),
        (partner, f"/products/{house.flexible_brand}", {}),
        (abroad, f"/products/{kuwaiti}", {}),
        (partner, "/products/none", {}),
        (partner, "/products/none", {"Authorization": None}),
    ]
    return [
        ("GET", "/v1/partners/products" + ("/{}" if path.startswith("/products/") else ""), who.get(path, headers=more))
        for who, path, more in calls
    ]


def order_answers(house: House) -> Answers:
    partner, poor, shopper = house.partner(), house.partner(money_major=1), house.partner(kind="B2C")
    house.stock(house.stock_brand, 100, 3, valid_till="2099-12-31")
    body = partner.order_body()
    placed = [
        partner.place(body),
        partner.place(body),
        partner.place(product_id=house.flexible_brand, lines={12.5: 2}),
        partner.place(product_id=house.stock_brand, lines={100: 3}),
        partner.place(product_id=house.inactive_brand),
        poor.place(),
        shopper.place(),
    ]
    assert [answer.json()["status"] for answer in placed] == [*["SUCCESS"] * 4, "FAILED", "FAILED", "SUCCESS"]
    refused = [
        partner.place(body | {"amount": 5}),
        partner.place(body | {"amount": 200, "denominationDetails": [{"denomination": 100, "quantity": 2}]}),
        partner.place(productId="none"),
        shopper.place(customerDetails=None),
        partner.post("/orders", {}),
        partner.post("/orders", content=b"[]"),
        partner.post("/orders", content=b"{}", headers={"Content-Type": "text/plain"}),
        partner.post("/orders", content=b" " * 300_000),
        partner.post("/orders", {}, headers={"Authorization": "Bearer x"}),
    ]
    assert [answer.status_code for answer in refused] == [400, 409, 404, 400, 400, 400, 415, 413, 401]
    answers = [("POST", ORDERS, answer) for answer in (*placed, *refused)]
    for answer in placed[:5]:
        order = answer.json()
        answers += [
            ("GET", f"{ORDERS}/{{}}", partner.get(f"/orders/{order['id']}")),
            ("GET", f"{ORDERS}/by-reference/{{}}", partner.get(f"/orders/by-reference/{order['referenceId']}")),
        ]
        answers += [
            ("GET", f"{ORDERS}/vouchers/{{}}", partner.get(f"/orders/vouchers/{voucher['id']}"))
            for voucher in order["vouchers"]
        ]
    for path in ("{}", "by-reference/{}", "vouchers/{}"):
        answers += [
            ("GET", f"{ORDERS}/{path}", partner.get("/orders/" + path.format("none"), headers=headers))
            for headers in ({}, {"X-REQUEST-ID": "x"}, {"Authorization": None})
        ]
    answers += [("GET", ORDERS, partner.get(f"/orders{query}")) for query in ("", "?limit=2", "?limit=0", "?status=X")]
    return answers


def wallet_answers(house: House) -> Answers:
    partner, abroad = house.partner(money_major="0.5"), house.partner(currency="KWD", money_major="0.125")
    partner.place()
    balance, transactions = "/wallet/balance", "/wallet/transactions"
    return [
        ("GET", f"/v1/partners{path.partition('?')[0]}", who.get(path, headers=headers))
        for who, path, headers in (
            (partner, balance, {}),
            (abroad, balance, {}),
            (partner, balance, {"X-REQUEST-ID": None}),
            (partner, balance, {"Authorization": None}),
            (partner, transactions, {}),
            (abroad, transactions, {}),
            (partner, transactions + "?cursor=x", {}),
            (partner, transactions, {"Authorization": None}),
        )
    ]


def login_answers(house: House) -> Answers:
    partner = house.partner()
    sound = {"clientId": partner.client_id, "clientSecret": partner.client_secret}
    sent: list[Any] = [sound, sound | {"clientSecret": "x"}, {}, []]
    answers = [partner.http.post("/v1/partners/auth/login", json=body) for body in sent]
    answers.append(partner.http.post("/v1/partners/auth/login", content=b"x"))
    answers.append(partner.post("/auth/login", content=b" " * 300_000))
    assert [answer.status_code for answer in answers] == [200, 401, 400, 400, 415, 413]
    return [("POST", "/v1/partners/auth/login", answer) for answer in answers]


@pytest.mark.parametrize("ask", [login_answers, catalogue_answers, order_answers, wallet_answers])
def test_every_answer_is_as_the_document_says(
    house: House, document: dict[str, Any], ask: Callable[[House], Answers]
) -> None:
    for method, path, answer in ask(house):
        assert_documented(document, method, path, answer)


def ask_everything(partner: PartnerProgram) -> Answers:
    """Every endpoint once, whatever it answers."""
    answers: Answers = [("POST", "/v1/partners/auth/login", partner.log_in())]
    for method, path in ENDPOINTS[1:]:
        short = path.removeprefix("/v1/partners").format("none")
        answer = partner.post(short, partner.order_body()) if method == "POST" else partner.get(short)
        answers.append((method, path, answer))
    return answers


def test_refused_addresses_and_rates_are_as_the_document_says(database_url: str, document: dict[str, Any]) -> None:
    with serving(
        database_url, environment="production", rate_per_second=1, rate_burst=1, failed_logins_per_minute=1
    ) as house:
        partner = house.partner()
        partner.token = "x"
        for method, path, answer in ask_everything(partner):
            assert_documented(document, method, path, answer)
            assert answer.status_code == (403 if path.endswith("/login") else 401)
        partner.client_secret = "wrong"
        partner.log_in()
        answer = partner.log_in()
        assert answer.status_code == 429
        assert_documented(document, "POST", "/v1/partners/auth/login", answer)


def test_429_is_as_the_document_says(house: House, document: dict[str, Any]) -> None:
    partner = house.partner(rate_per_second=1, rate_burst=1)
    for method, path, answer in ask_everything(partner)[3:]:
        assert answer.status_code == 429
        assert_documented(document, method, path, answer)


def test_405_and_unknown_paths_have_the_body_of_every_error(house: House, document: dict[str, Any]) -> None:
    partner = house.partner()
    for method, path in (("DELETE", "/v1/partners/products"), ("GET", "/none")):
        answer = partner.http.request(method, path, headers=partner.headers())
        validate(document, {"$ref": "#/components/schemas/Error"}, answer.json())


@contextmanager
def through_a_link(url: str) -> Iterator[tuple[str, Path]]:
    """The database's address by a link to the folder of its socket, which can be taken away; and the link."""
    folder = re.search(r"host=([^&]+)", url)
    assert folder
    with tempfile.TemporaryDirectory(prefix="away-") as place:
        link = Path(place) / "link"
        link.symlink_to(unquote(folder[1]))
        yield url.replace(folder[1], quote(str(link), safe="")), link


@contextmanager
def database_away(server_url: str, url: str, link: Path, *, how: str) -> Iterator[None]:
    """Nobody is connected to the database, and nobody can connect."""
    name = re.search(r"/(test_\w+)\?", url)
    assert name
    whereto = link.readlink()
    if how == "gone":
        link.unlink()
    else:
        execute(server_url, f"ALTER DATABASE {name[1]} ALLOW_CONNECTIONS false")
    execute(server_url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name[1]}'")
    try:
        yield
    finally:
        if how == "gone":
            link.symlink_to(whereto)
        else:
            execute(server_url, f"ALTER DATABASE {name[1]} ALLOW_CONNECTIONS true")


@pytest.mark.parametrize("how", ["gone", "closed"])
def test_without_the_database_it_says_so_and_recovers(
    server_url: str, database_url: str, document: dict[str, Any], how: str
) -> None:
    with through_a_link(database_url) as (url, link), serving(url, stale_after_seconds=1) as house:
        partner = house.partner()
        assert partner.place().status_code == 200
        with database_away(server_url, database_url, link, how=how):
            for method, path, answer in ask_everything(partner):
                if answer.status_code in {200, 404}:
                    assert "/products" in path, "only the catalogue is known by heart"
                    continue
                assert answer.status_code == 503
                assert answer.json()["id"] == "E011"
                assert int(answer.headers["retry-after"]) >= 1
                assert_documented(document, method, path, answer)
            assert partner.http.get("/readyz").status_code == 503
            assert partner.http.get("/livez").status_code == 200
        house.settle()
        assert partner.log_in().status_code == 200
        assert partner.place().status_code == 200


# ---- the page ----


class References(HTMLParser):
    """What a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.found += [value for name, value in attrs if name in {"src", "href", "action", "data"} and value]


def test_the_page_loads_only_what_the_service_serves(house: House) -> None:
    client = house.client()
    page = client.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    references = References()
    references.feed(page.text)
    assert references.found
    for reference in references.found:
        if reference.startswith("data:"):
            continue
        url = urljoin(f"{house.base_url}/docs", reference)
        assert url.startswith(f"{house.base_url}/"), reference
        asset = client.get(url)
        assert asset.status_code == 200
        assert asset.content
        wanted = "text/css" if url.endswith(".css") else "text/javascript"
        assert asset.headers["content-type"].startswith(wanted)
        if url.endswith(".css"):
            assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", asset.text)
    assert not re.search(r"https?://", page.text)
    assert "openapi.json" in client.get("/docs/start.js").text


def test_the_page_may_load_nothing_from_elsewhere(house: House) -> None:
    policy = house.client().get("/docs").headers["content-security-policy"]
    directives = {name: sources for name, *sources in (part.split() for part in policy.split(";"))}
    assert directives["default-src"] in (["'none'"], ["'self'"])
    assert {source for sources in directives.values() for source in sources} <= {
        "'none'", "'self'", "'unsafe-inline'", "data:",
    }  # fmt: skip
    assert directives["script-src"] == ["'self'"]


# ---- health and figures ----


def test_a_service_that_lives_and_is_ready_says_so(house: House) -> None:
    for path in ("/livez", "/readyz"):
        answer = house.client().get(path)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")


@pytest.mark.parametrize(
    ("spoil", "repair"),
    [
        ("INSERT INTO schema_migration (number, name, digest) VALUES (9999, 'newer', 'x')",
         "DELETE FROM schema_migration WHERE number = 9999"),
        ("UPDATE schema_migration SET digest = 'x' || digest WHERE number = 1",
         "UPDATE schema_migration SET digest = substr(digest, 2) WHERE number = 1"),
        (("CREATE TABLE kept AS SELECT * FROM schema_migration ORDER BY number DESC LIMIT 1;"
          " DELETE FROM schema_migration WHERE number = (SELECT number FROM kept)"),
         "INSERT INTO schema_migration SELECT * FROM kept"),
        ("ALTER TABLE schema_migration RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO schema_migration"),
    ],
    ids=["newer", "edited", "older", "none"],
)  # fmt: skip
def test_a_schema_that_differs_is_not_ready_but_alive(database_url: str, spoil: str, repair: str) -> None:
    with serving(database_url) as house:
        client = house.client()
        execute(database_url, spoil)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["message"]
        assert "Traceback" not in answer.text
        assert client.get("/livez").status_code == 200
        execute(database_url, repair)
        assert client.get("/readyz").status_code == 200


def samples(house: House) -> dict[str, float]:
    """Each figure by its name and labels."""
    answer = house.client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    lines = [line for line in answer.text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-zA-Z_:][\w:]*(\{.*\})? \S+( \d+)?", line) for line in lines)
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def rise(before: dict[str, float], after: dict[str, float], name: str, *labels: str) -> float:
    """By how much the figures with the name and labels rose."""
    return sum(
        value - before.get(key, 0)
        for key, value in after.items()
        if key.partition("{")[0] == name and all(label in key for label in labels)
    )


def test_metrics_count_requests_and_orders(house: House) -> None:
    partner = house.partner(money_major=250)
    partner.log_in()
    before = samples(house)
    body = partner.order_body()
    assert [partner.place(body).status_code for _ in range(2)] == [200, 200]
    partner.place(lines={250: 1})
    partner.get("/orders/none")
    partner.http.delete("/v1/partners/products", headers=partner.headers())
    after = samples(house)
    for name, labels, expected in (
        ("giftrail_requests_total", ['route="/v1/partners/orders"', 'method="POST"', 'status="200"'], 3),
        ("giftrail_requests_total", ['route="/v1/partners/orders/{order_id}"', 'method="GET"', 'status="404"'], 1),
        ("giftrail_requests_total", ['status="405"'], 1),
        ("giftrail_request_seconds_count", ['route="/v1/partners/orders"'], 3),
        ("giftrail_orders_total", ['status="SUCCESS"'], 1),
        ("giftrail_orders_total", ['status="FAILED"', 'failure_code="E300"'], 1),
        ("giftrail_orders_replayed_total", [], 1),
    ):
        assert rise(before, after, name, *labels) == expected, (name, labels)
    assert any(name.startswith("giftrail_database_connections{") for name in after)


def test_metrics_name_nobody_and_tell_no_secret(house: House) -> None:
    partner = house.partner()
    order = partner.place().json()
    partner.get(f"/orders/{order['id']}")
    odd = uuid.uuid4().hex
    partner.get(f"/orders/{odd}")
    partner.http.request(odd.upper()[:5], "/v1/partners/orders", headers=partner.headers())
    partner.http.get(f"/{odd}")
    text = house.client().get("/metrics").text
    secrets = [partner.partner.partner_id, partner.partner.name, partner.client_id, partner.client_secret, odd]
    secrets += [partner.token, order["id"], order["referenceId"], odd.upper()[:5]]
    secrets += [order["vouchers"][0][name] for name in ("id", "cardNumber", "cardPin")]
    assert [secret for secret in secrets if secret in text] == []


def test_metrics_are_for_the_operator_s_networks(database_url: str) -> None:
    with serving(database_url, metrics_networks="10.0.0.0/8,127.0.0.3/32", trusted_proxies="127.0.0.3/32") as house:
        assert house.client().get("/metrics").status_code == 403
        for forwarded, status in ((None, 200), ("10.1.2.3", 200), ("203.0.113.7", 403)):
            transport = httpx.HTTPTransport(local_address="127.0.0.3")
            headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
            with httpx.Client(base_url=house.base_url, transport=transport) as proxy:
                assert proxy.get("/metrics", headers=headers).status_code == status, forwarded


def test_answers_are_json_a_strict_reader_takes(house: House) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    partner = house.partner()
    for _, _, answer in ask_everything(partner):
        json.loads(answer.content.decode("utf-8"), parse_constant=refuse)
