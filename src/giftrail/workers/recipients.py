"""What recipients are told: read from the order, its brand and its partner when a message is sent."""

from collections.abc import Callable
from datetime import datetime

from giftrail.catalog import store as catalog
from giftrail.db import pool
from giftrail.delivery import message, model, send
from giftrail.kit import seal
from giftrail.orders import read, states
from giftrail.orders import store as orders
from giftrail.partners import store as partners
from giftrail.vouchers import model as vouchers


def content_reader(database: pool.Database, *, ring: seal.KeyRing, now: Callable[[], datetime]) -> send.ReadContent:
    """A reader of what a message tells; it answers with a sentence when nothing is to be told any more."""

    async def read_content(delivery: model.Delivery) -> message.Content | str:
        async with database.read.acquire() as conn:
            order = await read.read_order(conn, partner_id=delivery.partner_id, order_id=delivery.order_id, ring=ring)
            if order.status is not states.Status.SUCCESS or order.reversal_pending:
                return "the order is being reversed" if order.reversal_pending else f"the order is {order.status}"
            if all(one.code.valid_till is not None and one.code.valid_till < now().date() for one in order.vouchers):
                return "its vouchers have expired"
            partner = await partners.find_partner(conn, name_or_id=order.partner_id)
            brand = await catalog.find_brand(conn, brand_id=order.brand_id)
            details = await orders.read_details(conn, partner_id=order.partner_id, order_id=order.order_id)
        if partner is None or brand is None or partner.delivery is None or partner.suspended_at is not None:
            return "the service no longer delivers for the partner"
        return message.Content(
            partner_name=partner.name,
            delivery=partner.delivery,
            brand_title=brand.title,
            is_gift=details.is_gift,
            recipient_name=details.recipient_name,
            sender_name=details.sender_name,
            wish=details.wish,
            vouchers=[_told(one, with_codes=partner.delivery.codes_in_messages) for one in order.vouchers],
            how_to_use=[line for how in brand.how_to_use for line in how["instructions"]],
        )

    return read_content


def _told(voucher: vouchers.Voucher, *, with_codes: bool) -> message.Voucher:
    return message.Voucher(
        amount_minor=voucher.amount_minor,
        currency=voucher.currency,
        valid_till=voucher.code.valid_till,
        card_number=voucher.code.card_number if with_codes else None,
        card_pin=voucher.code.card_pin if with_codes else None,
    )
