"""Orders with their vouchers, opened."""

from collections.abc import Sequence

import msgspec

from giftrail.db import pool
from giftrail.delivery import model as delivery_model
from giftrail.delivery import store as delivery_store
from giftrail.kit import seal
from giftrail.orders import model, states, store
from giftrail.vouchers import model as vouchers
from giftrail.vouchers import store as voucher_store


async def read_order(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_id: str, ring: seal.KeyRing
) -> model.Order:
    """The partner's order with its vouchers. Raises OrderUnknown."""
    order = await store.find_order(conn, partner_id=partner_id, order_id=order_id)
    if order is None:
        raise model.OrderUnknown
    return (await _with_vouchers(conn, [order], partner_id=partner_id, ring=ring))[0]


async def read_order_by_reference(
    conn: pool.Connection | pool.Pool, *, partner_id: str, reference_id: str, ring: seal.KeyRing
) -> model.Order:
    """The partner's order of that reference with its vouchers. Raises OrderUnknown."""
    order = await store.find_order_by_reference(conn, partner_id=partner_id, reference_id=reference_id)
    if order is None:
        raise model.OrderUnknown
    return (await _with_vouchers(conn, [order], partner_id=partner_id, ring=ring))[0]


async def read_orders(
    conn: pool.Connection | pool.Pool, *, partner_id: str, order_ids: Sequence[str], ring: seal.KeyRing
) -> dict[str, model.Order]:
    """By id, those of the partner's orders that exist, with their vouchers."""
    if not order_ids:
        return {}
    orders = await store.list_orders_by_id(conn, partner_id=partner_id, order_ids=order_ids)
    return {order.order_id: order for order in await _with_vouchers(conn, orders, partner_id=partner_id, ring=ring)}


async def read_voucher(
    conn: pool.Connection | pool.Pool, *, partner_id: str, voucher_id: str, ring: seal.KeyRing
) -> vouchers.Voucher:
    """The partner's voucher, of an order that still stands. Raises OrderUnknown (wire contract, reverse)."""
    voucher = await voucher_store.find_voucher(conn, partner_id=partner_id, voucher_id=voucher_id, ring=ring)
    if voucher is None:
        raise model.OrderUnknown
    order = await store.find_order(conn, partner_id=partner_id, order_id=voucher.order_id)
    if order is None or order.status is not states.Status.SUCCESS:
        raise model.OrderUnknown
    return voucher


async def with_deliveries(
    conn: pool.Connection | pool.Pool, orders: Sequence[model.Order], *, partner_id: str
) -> list[model.Order]:
    """One partner's orders, each with what is on its way to its recipients."""
    delivered = [order.order_id for order in orders if order.recipients]
    if not delivered:
        return list(orders)
    of_order: dict[str, list[delivery_model.Delivery]] = {}
    for one in await delivery_store.list_deliveries(conn, partner_id=partner_id, order_ids=delivered):
        of_order.setdefault(one.order_id, []).append(one)
    return [msgspec.structs.replace(order, deliveries=tuple(of_order.get(order.order_id, ()))) for order in orders]


async def _with_vouchers(
    conn: pool.Connection | pool.Pool, orders: Sequence[model.Order], *, partner_id: str, ring: seal.KeyRing
) -> list[model.Order]:
    succeeded = [order.order_id for order in orders if order.status is states.Status.SUCCESS]
    of_order: dict[str, list[vouchers.Voucher]] = {}
    if succeeded:
        for voucher in await voucher_store.list_vouchers(conn, partner_id=partner_id, order_ids=succeeded, ring=ring):
            of_order.setdefault(voucher.order_id, []).append(voucher)
    opened = [msgspec.structs.replace(order, vouchers=tuple(of_order.get(order.order_id, ()))) for order in orders]
    return await with_deliveries(conn, opened, partner_id=partner_id)
