"""The catalogue (specification, List brands and Get a brand; wire contract, reads)."""

import hashlib
import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime

import msgspec

from giftrail.catalog import model, snapshot
from giftrail.partner_api import pages, problems, queries, shapes, wire
from giftrail.partner_api.endpoints import Answer, Call, Endpoint, Parameter

MAX_LIMIT = 500
DEFAULT_LIMIT = 20
# What a request without pageNo and limit is given at once.
MAX_WHOLE_LIST = 1_000
_SEARCH_CHARACTERS = 200


async def list_brands(call: Call) -> Answer:
    """A page of the brands enabled for the partner, active or not, by title and id."""
    query, partner_id = call.query, call.partner.partner_id
    catalog = await call.around.catalog.read_catalog(partner_id)
    known = call.around.catalog_pages.find(partner_id, _question(call), catalog_number=catalog.number)
    if known is not None:
        return _answer(call, known)
    page_no, limit = query.number("pageNo"), query.number("limit")
    keeps = _filters(query)
    query.check()
    offers = [offer for offer in catalog.offers if all(keep(offer) for keep in keeps)]
    if page_no is None and limit is None:
        page_no, limit = 1, MAX_WHOLE_LIST
        # The whole list is two of the largest pages, so what follows it is the third.
        following = shapes.PageCursor(page_no=MAX_WHOLE_LIST // MAX_LIMIT + 1, limit=MAX_LIMIT)
    else:
        page_no, limit = page_no or 1, min(limit or DEFAULT_LIMIT, MAX_LIMIT)
        following = shapes.PageCursor(page_no=page_no + 1, limit=limit)
    start = (page_no - 1) * limit
    page = shapes.BrandPage(
        data=[wire.brand(offer) for offer in offers[start : start + limit]],
        page_no=page_no,
        limit=limit,
        total=len(offers),
        next_cursor=following if start + limit < len(offers) else None,
    )
    return _answer(call, _keep(call, page, catalog_number=catalog.number))


async def get_brand(call: Call) -> Answer:
    """One brand, if it is enabled for the partner."""
    partner_id, brand_id = call.partner.partner_id, call.path_values["product_id"]
    number = (await call.around.catalog.read_catalog(partner_id)).number
    known = call.around.catalog_pages.find(partner_id, _question(call), catalog_number=number)
    if known is not None:
        return _answer(call, known)
    brand = call.around.catalog.find_brand(brand_id)
    entitlement = (await call.around.catalog.read_entitlements(partner_id)).get(brand_id)
    if brand is None or entitlement is None or not entitlement.enabled:
        raise problems.not_found()
    offer = snapshot.Offer(
        brand=brand,
        discount_percentage=entitlement.discount_percentage,
        updated_at=max(brand.updated_at, entitlement.updated_at),
    )
    return _answer(call, _keep(call, wire.brand(offer), catalog_number=number))


def _filters(query: queries.Query) -> list[Callable[[snapshot.Offer], bool]]:
    keeps: list[Callable[[snapshot.Offer], bool]] = []
    if words := set((query.text("q") or "").casefold().split()):
        if sum(map(len, words)) > _SEARCH_CHARACTERS:
            query.complain("q", f"has more than {_SEARCH_CHARACTERS} characters")
        keeps.append(lambda offer: _holds(offer.brand, words))
    if categories := {category.casefold() for category in query.texts("category")}:
        keeps.append(lambda offer: not categories.isdisjoint(name.casefold() for name in offer.brand.category))
    if tags := {tag.casefold() for tag in query.texts("tag")}:
        keeps.append(lambda offer: not tags.isdisjoint(name.casefold() for name in offer.brand.tags))
    if statuses := query.choices("status", list(model.Status)):
        keeps.append(lambda offer: offer.brand.status in statuses)
    if types := query.choices("denominationType", list(model.DenominationType)):
        keeps.append(lambda offer: offer.brand.denomination_type in types)
    if redemptions := query.choices("redemptionType", list(model.RedemptionType)):
        keeps.append(lambda offer: offer.brand.redemption_type in redemptions)
    if (since := query.moment("updatedSince")) is not None:
        moment: datetime = since
        keeps.append(lambda offer: offer.updated_at >= moment)
    return keeps


def _holds(brand: model.Brand, words: AbstractSet[str]) -> bool:
    text = "\n".join((brand.title, brand.description or "", *brand.tags)).casefold()
    return all(word in text for word in words)


def _question(call: Call) -> bytes:
    return b"%b?%b" % (call.raw_path, call.query.raw)


def _keep(call: Call, answer: msgspec.Struct, *, catalog_number: int) -> pages.Page:
    body = wire.encode(answer)
    page = pages.Page(f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"', body)
    call.around.catalog_pages.keep(call.partner.partner_id, _question(call), page, catalog_number=catalog_number)
    return page


def _answer(call: Call, page: pages.Page) -> Answer:
    headers = {"ETag": page.etag, "Cache-Control": "private, no-cache"}
    asked = call.headers.get("if-none-match")
    if asked is not None:
        known = re.findall(r'\*|"[^"]*"', asked)
        if page.etag in known or "*" in known:
            return Answer(b"", status=304, headers=headers)
    return Answer(page.body, headers=headers)


_LIST_PARAMETERS = (
    Parameter("pageNo", "query", "the page, from 1", {"type": "integer", "minimum": 1}),
    Parameter(
        "limit",
        "query",
        f"brands a page; above {MAX_LIMIT} it is {MAX_LIMIT}",
        {"type": "integer", "minimum": 1},
    ),
    Parameter("q", "query", "words that title, description or tags hold"),
    Parameter("category", "query", "in any case; repeatable", {"type": "array", "items": {"type": "string"}}),
    Parameter("tag", "query", "in any case; repeatable", {"type": "array", "items": {"type": "string"}}),
    Parameter("status", "query", "brand status", {"enum": [*model.Status]}),
    Parameter("denominationType", "query", "denomination type", {"enum": [*model.DenominationType]}),
    Parameter("redemptionType", "query", "redemption type", {"enum": [*model.RedemptionType]}),
    Parameter("updatedSince", "query", "changed at or after", {"type": "string", "format": "date-time"}),
    Parameter("If-None-Match", "header", "the ETag of an earlier answer: 304 when nothing changed"),
)

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/partners/products",
        operation="listBrands",
        summary="List the brands enabled for the partner",
        handle=list_brands,
        response=shapes.BrandPage,
        parameters=_LIST_PARAMETERS,
    ),
    Endpoint(
        method="GET",
        path="/v1/partners/products/{product_id}",
        operation="getBrand",
        summary="Get a brand",
        handle=get_brand,
        response=shapes.Brand,
        parameters=(Parameter("product_id", "path", "the brand's id", required=True), _LIST_PARAMETERS[-1]),
        errors=(problems.Code.NOT_FOUND,),
    ),
)
