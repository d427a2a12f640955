"""Workers die while vouchers are on their way to recipients: what was promised with the order is sent all the same."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from crash.estate import GENERATED, Estate, wait_until
from giftrail import app
from giftrail.db import pool
from giftrail.partners import manage
from giftrail.partners import model as partners
from house import PartnerProgram, execute
from post import HANG, SENDER, MailServer, mail_server

ADDRESS = "meera@example.com"
GIFT = {"recipientType": "OTHER", "recipientName": "Meera", "recipientEmail": ADDRESS, "senderName": "Asha"}


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


def settings(port: int) -> dict[str, Any]:
    return {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_security": "none", "mail_from": SENDER}


def giver(house: Estate) -> PartnerProgram:
    program = house.buyer()

    async def deed(conn: pool.Connection) -> None:
        await manage.set_delivery(
            conn, partner_id=program.partner.partner_id, delivery=partners.Delivery(), now=app.now()
        )

    house.do(deed)
    return program


def place(program: PartnerProgram) -> str:
    order = program.place(product_id=GENERATED, deliveryDetails=GIFT).json()
    assert (order["status"], order["delivery"]["channels"][0]["state"]) == ("SUCCESS", "PENDING")
    return str(order["id"])


def end_leases(house: Estate) -> None:
    """Let so much time pass that the leases of the dead are over."""
    execute(house.url, "UPDATE recipient_delivery SET next_at = now(), lease_until = now() WHERE state = 'DUE'")


def is_claimed(house: Estate) -> bool:
    return bool(house.sql("SELECT FROM recipient_delivery WHERE state = 'DUE' AND lease_token IS NOT NULL"))


def wait_until_sent(program: PartnerProgram, order_id: str) -> dict[str, Any]:
    def channel() -> dict[str, Any]:
        found: dict[str, Any] = program.get(f"/orders/{order_id}").json()["delivery"]["channels"][0]
        return found

    wait_until(lambda: channel()["state"] == "SENT")
    return channel()


def test_what_was_committed_and_not_sent_is_sent_once_by_the_next_worker(crashing: Estate, mail: MailServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        crashing.start("api", **settings(silent.getsockname()[1]))
        program = giver(crashing)
        order_id = place(program)
        worker = crashing.start("work", **settings(silent.getsockname()[1]))
        wait_until(lambda: is_claimed(crashing))
        crashing.kill(worker)
    end_leases(crashing)
    crashing.start("work", **settings(mail.port))
    told = wait_until_sent(program, order_id)
    assert [address for address, _ in mail.taken] == [ADDRESS]
    assert told["attempts"] == 1, "one that nobody heard of is no attempt that came to an end"


def test_what_was_placed_with_a_process_that_died_at_once_is_sent(crashing: Estate, mail: MailServer) -> None:
    process = crashing.start("serve", work_poll_seconds=5, **settings(mail.port))
    program = giver(crashing)
    mail.answers["MAIL"] = [HANG]
    order_id = place(program)
    crashing.kill(process)
    mail.answers["MAIL"].clear()
    assert mail.taken == []
    end_leases(crashing)
    crashing.start("serve", **settings(mail.port))
    wait_until_sent(program, order_id)
    assert [address for address, _ in mail.taken] == [ADDRESS]


def test_what_was_cut_off_in_the_middle_is_sent_again_as_the_same_mail(crashing: Estate, mail: MailServer) -> None:
    crashing.start("api", **settings(mail.port))
    program = giver(crashing)
    mail.answers["DATA"] = [HANG]
    order_id = place(program)
    worker = crashing.start("work", **settings(mail.port))
    wait_until(lambda: len(mail.seen) == 1)
    crashing.kill(worker)
    end_leases(crashing)
    crashing.start("work", **settings(mail.port))
    wait_until_sent(program, order_id)
    first, second = (content.split(b"Message-ID: ")[1].split(b"\r\n")[0] for _, content in mail.seen)
    assert first == second
    assert len(mail.taken) == 1
