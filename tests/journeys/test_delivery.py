"""Vouchers to recipients, from the order to the mailbox and the phone, over real sockets."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import new_database
from giftrail import app
from giftrail.attempts import plan
from giftrail.db import pool
from giftrail.partners import manage
from giftrail.partners import model as partners
from house import KEYS, House, PartnerProgram, serving
from post import SENDER, Gateway, MailServer, gateway, mail_server, part_of, until

PROGRAM = str(Path(sys.executable).parent / "giftrail")
PUBLIC_URL = "https://gifts.example"
LINK = re.compile(rf"{PUBLIC_URL}/v/([\w-]{{32}})")
SLOW_BRAND = "sandbox-after-1-seconds"
REFUSED_BRAND = "sandbox-refused"
TRIES = 3


@pytest.fixture(scope="module")
def mail() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


@pytest.fixture(scope="module")
def phone() -> Iterator[Gateway]:
    with gateway() as made:
        yield made


@pytest.fixture(scope="module")
def delivering(server_url: str, mail: MailServer, phone: Gateway) -> Iterator[House]:
    """A house with a mail server and a gateway, which tries again soon."""
    with (
        pytest.MonkeyPatch.context() as patched,
        serving(
            new_database(server_url),
            smtp_host="127.0.0.1",
            smtp_port=mail.port,
            smtp_security="none",
            mail_from=SENDER,
            sms_url=f"{phone.url}/send",
            sms_body='{"to": "$to", "sender": "$from", "body": {"text": "$text"}, "ref": "$id"}',
            sms_headers={"X-Key": "a key of the gateway"},
            sms_from="GIFTS",
            public_url=f"{PUBLIC_URL}/",
            emails_per_second=1000,
            sms_per_second=1000,
            work_poll_seconds=0.02,
        ) as house,
    ):
        patched.setattr(plan, "DELAYS_SECONDS", (0.01,) * (TRIES - 1))
        for brand_id in (SLOW_BRAND, REFUSED_BRAND):
            house.brand(brand_id, providers=["sandbox"])
        house.brand("sandbox-reversible", providers=["sandbox"], reversible=True)
        yield house
    assert house.audit() == []


def switch(house: House, program: PartnerProgram, delivery: partners.Delivery | None) -> None:
    """Delivery for the partner, on, otherwise, or off."""

    async def deed(conn: pool.Connection) -> None:
        await manage.set_delivery(conn, partner_id=program.partner.partner_id, delivery=delivery, now=app.now())

    house.do(deed)


def new_program(house: House, *, on: bool = True, region: str = "IN", **members: Any) -> PartnerProgram:
    brands = ["fixed", "flexible", "stocked", SLOW_BRAND, REFUSED_BRAND, "sandbox-reversible"]
    program = house.partner(brands=brands, region=region)
    if on:
        switch(house, program, partners.Delivery(**members))
    return program


@pytest.fixture
def program(delivering: House) -> PartnerProgram:
    return new_program(delivering, reply_to="help@acme.example")


def mailbox() -> str:
    return f"m{uuid.uuid4().hex[:12]}@example.com"


def number() -> tuple[str, str]:
    """A mobile number of India as people write it, and in E.164."""
    digits = f"{uuid.uuid4().int % 10**8:08}"
    return f"98{digits[:3]} {digits[3:]}", f"+9198{digits}"


def texts(phone: Gateway, to: str) -> list[dict[str, Any]]:
    bodies = [json.loads(body) for _, _, body in list(phone.requests)]
    return [body for body in bodies if body["to"] == to]


def channels(program: PartnerProgram, order_id: str) -> dict[str, dict[str, Any]]:
    delivery = program.get(f"/orders/{order_id}").json()["delivery"]
    return {one["channel"]: one for one in delivery["channels"]}


def wait_for(program: PartnerProgram, order_id: str, *, state: str, channel: str = "EMAIL") -> dict[str, Any]:
    until(lambda: channels(program, order_id)[channel]["state"] == state)
    return channels(program, order_id)[channel]


def gift(email: str | None = None, phone_number: str | None = None, **members: Any) -> dict[str, Any]:
    details = {
        "recipientType": "OTHER",
        "recipientName": "Meera",
        "recipientEmail": email,
        "recipientPhoneNumber": phone_number,
        "senderName": "Asha",
        "wishMessage": "Happy birthday!\nYours, Asha",
    } | members
    return {name: value for name, value in details.items() if value is not None}


def to_self(email: str | None, phone_number: str | None = None) -> dict[str, Any]:
    return {
        "customerDetails": {"name": "Asha Rao", "email": email, "phoneNumber": phone_number},
        "deliveryDetails": {"recipientType": "SELF"},
    }


def codes(order: dict[str, Any]) -> list[str]:
    return [code for one in order["vouchers"] for code in (one["cardNumber"], one["cardPin"]) if code]


def test_a_gift_goes_to_the_recipient_by_mail_and_by_text_message_from_its_sender(
    program: PartnerProgram, mail: MailServer, phone: Gateway
) -> None:
    address, (given, e164) = mailbox(), number()
    order = program.place(lines={250: 2}, deliveryDetails=gift(address, given)).json()
    assert order["status"] == "SUCCESS"
    assert {one["channel"]: one["state"] for one in order["delivery"]["channels"]} == {
        "EMAIL": "PENDING",
        "SMS": "PENDING",
    }
    told = wait_for(program, order["id"], state="SENT")
    assert (told["attempts"], told["reason"]) == (1, None)
    assert told["sentAt"]
    wait_for(program, order["id"], state="SENT", channel="SMS")
    [sent] = mail.to(address)
    assert sent.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in sent.iter_parts()] == ["text/plain", "text/html"]
    assert sent["From"].addresses[0].addr_spec == SENDER
    assert sent["From"].addresses[0].display_name == program.partner.name
    assert sent["Reply-To"] == "help@acme.example"
    assert sent["To"] == address
    assert sent["Subject"] == "Asha sent you a Brand fixed gift voucher"
    for kind in ("plain", "html"):
        text = part_of(sent, kind)
        assert "Hello Meera," in text
        assert "Happy birthday!" in text
        assert text.count("₹250") == 2
        assert len(set(LINK.findall(text))) == 1
        assert not [code for code in codes(order) if code in text]
    [text_message] = texts(phone, e164)
    assert text_message["sender"] == "GIFTS"
    assert text_message["body"]["text"].startswith("Asha sent you a Brand fixed gift voucher of ₹500: ")
    assert LINK.search(text_message["body"]["text"])
    assert not [code for code in codes(order) if code in text_message["body"]["text"]]
    headers = next(headers for _, headers, body in phone.requests if json.loads(body) == text_message)
    assert headers["x-key"] == "a key of the gateway"
    # The customer, who gave it, gets nothing.
    assert mail.to("asha@example.com") == []
    assert texts(phone, "+919800000000") == []


def test_a_voucher_of_ones_own_goes_to_the_customer(program: PartnerProgram, mail: MailServer, phone: Gateway) -> None:
    address, (given, e164) = mailbox(), number()
    body = to_self(address, given)
    body["deliveryDetails"] |= {"recipientEmail": mailbox(), "recipientPhoneNumber": number()[0]}
    order = program.place(**body).json()
    wait_for(program, order["id"], state="SENT")
    wait_for(program, order["id"], state="SENT", channel="SMS")
    [sent] = mail.to(address)
    assert sent["Subject"] == f"Your Brand fixed gift voucher from {program.partner.name}"
    assert "Hello Asha Rao," in part_of(sent, "plain")
    assert len(texts(phone, e164)) == 1
    assert mail.to(body["deliveryDetails"]["recipientEmail"]) == []


def test_the_link_of_a_message_opens_the_order(program: PartnerProgram, mail: MailServer, delivering: House) -> None:
    address = mailbox()
    order = program.place(deliveryDetails=gift(address)).json()
    wait_for(program, order["id"], state="SENT")
    link = LINK.search(part_of(mail.to(address)[0], "plain"))
    assert link
    page = delivering.client().get(f"/v/{link[1]}")
    assert page.status_code == 200
    assert "Happy birthday!" in page.text


def test_an_order_that_was_processing_is_delivered_when_it_has_ended(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    body = program.order_body(SLOW_BRAND, deliveryDetails=gift(address))
    order = program.post("/orders", body, headers={"Prefer": "wait=0"}).json()
    assert order["status"] == "PROCESSING"
    assert order["delivery"] == {
        "channels": [{"channel": "EMAIL", "state": "PENDING", "attempts": 0, "sentAt": None, "reason": None}]
    }
    assert mail.to(address) == []
    refused = program.post(f"/orders/{order['id']}/resend-delivery")
    assert (refused.status_code, refused.json()["id"]) == (409, refused.json()["id"])
    until(lambda: program.get(f"/orders/{order['id']}").json()["status"] == "SUCCESS")
    wait_for(program, order["id"], state="SENT")
    assert len(mail.to(address)) == 1


def test_an_order_that_failed_is_not_delivered(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    for body in (
        program.order_body(lines={300: 1}, deliveryDetails=gift(address)),
        program.order_body(REFUSED_BRAND, deliveryDetails=gift(address)),
    ):
        order = program.post("/orders", body, headers={"Prefer": "wait=20"}).json()
        assert (order["status"], order["delivery"]) == ("FAILED", None)
        assert program.post(f"/orders/{order['id']}/resend-delivery").status_code == 409
    assert mail.to(address) == []


def test_what_fails_for_now_is_tried_again_with_the_same_message_id(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    mail.answers["DATA"] = ["451 come back later", "250 OK"]
    order = program.place(deliveryDetails=gift(address)).json()
    told = wait_for(program, order["id"], state="SENT")
    assert (told["attempts"], told["reason"]) == (2, None)
    first, second = (content for recipient, content in mail.seen if recipient == address)
    assert first.split(b"Message-ID:")[1].split(b"\r\n")[0] == second.split(b"Message-ID:")[1].split(b"\r\n")[0]
    links = {LINK.search(content.replace(b"=\r\n", b"").decode())[1] for content in (first, second)}  # type: ignore[index]
    assert len(links) == 2, "each try has a link of its own"
    assert len(mail.to(address)) == 1


def test_what_fails_for_now_too_often_has_failed(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    mail.refused[address] = "450 mailbox busy"
    order = program.place(deliveryDetails=gift(address)).json()
    told = wait_for(program, order["id"], state="FAILED")
    assert (told["attempts"], told["reason"], told["sentAt"]) == (TRIES, "450 mailbox busy", None)


def test_a_mailbox_that_does_not_exist_bounces_at_once(program: PartnerProgram, mail: MailServer) -> None:
    address, (given, _) = mailbox(), number()
    mail.refused[address] = "550 no such user here"
    order = program.place(deliveryDetails=gift(address, given)).json()
    told = wait_for(program, order["id"], state="BOUNCED")
    assert (told["attempts"], told["reason"]) == (1, "550 no such user here")
    assert wait_for(program, order["id"], state="SENT", channel="SMS")["attempts"] == 1


def test_a_message_that_is_refused_for_good_has_failed_at_once(program: PartnerProgram, mail: MailServer) -> None:
    mail.answers["DATA"] = ["554 we do not like it"]
    order = program.place(deliveryDetails=gift(mailbox())).json()
    told = wait_for(program, order["id"], state="FAILED")
    assert (told["attempts"], told["reason"]) == (1, "554 we do not like it")


def test_a_number_that_the_gateway_refuses(program: PartnerProgram, phone: Gateway) -> None:
    phone.answers = [(400, b'{"code": 21614, "message": "not a mobile number"}')]
    order = program.place(deliveryDetails=gift(None, number()[0])).json()
    told = wait_for(program, order["id"], state="BOUNCED", channel="SMS")
    assert told["attempts"] == 1
    assert "not a mobile number" in told["reason"]


def test_a_partner_for_whom_the_service_does_not_deliver(delivering: House, mail: MailServer, phone: Gateway) -> None:
    program = new_program(delivering, on=False)
    address, (given, e164) = mailbox(), number()
    order = program.place(deliveryDetails=gift(address, given)).json()
    assert (order["status"], order["delivery"]) == ("SUCCESS", None)
    odd = program.place(deliveryDetails=gift("no address", "no number")).json()
    assert (odd["status"], odd["delivery"]) == ("SUCCESS", None)
    assert program.post(f"/orders/{order['id']}/resend-delivery").status_code == 409
    # Switched on later, it delivers what is placed from then on, and nothing of before.
    switch(delivering, program, partners.Delivery())
    later = mailbox()
    second = program.place(deliveryDetails=gift(later)).json()
    wait_for(program, second["id"], state="SENT")
    assert program.get(f"/orders/{order['id']}").json()["delivery"] is None
    assert (mail.to(address), texts(phone, e164)) == ([], [])


def test_an_order_without_delivery_details_is_not_delivered(program: PartnerProgram) -> None:
    for body in ({}, {"deliveryDetails": None}):
        order = program.place(**body).json()
        assert (order["status"], order["delivery"]) == ("SUCCESS", None)


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"deliveryDetails": {"recipientType": "OTHER", "recipientName": "Meera"}}, "deliveryDetails", "nothing to"),
        (to_self(None), "customerDetails", "nothing to send"),
        ({"deliveryDetails": {"recipientType": "SELF"}, "customerDetails": None}, "customerDetails", "nothing to"),
        ({"deliveryDetails": {"wishMessage": "Hi"}, "customerDetails": None}, "customerDetails", "nothing to"),
        (to_self("asha at example"), "customerDetails.email", "no e-mail address"),
        (to_self(None, "12"), "customerDetails.phoneNumber", "no phone number"),
        ({"deliveryDetails": gift("x@", None)}, "deliveryDetails.recipientEmail", "no e-mail address"),
        ({"deliveryDetails": gift("a@example.com\r\nBcc: b@example.com")}, "deliveryDetails.recipientEmail", ""),
        ({"deliveryDetails": gift(None, "+1 555")}, "deliveryDetails.recipientPhoneNumber", "no phone number"),
        ({"deliveryDetails": gift("a@example.com", recipientName="")}, "deliveryDetails.recipientName", "missing"),
        ({"deliveryDetails": gift("a@example.com", recipientType="BOTH")}, "deliveryDetails.recipientType", ""),
        ({"deliveryDetails": gift("a@example.com", wishMessage="x" * 501)}, "deliveryDetails.wishMessage", ""),
    ],
)
def test_nothing_to_send_to_is_told_at_placement(
    program: PartnerProgram, body: dict[str, Any], field: str, words: str
) -> None:
    asked = program.order_body(**body)
    answer = program.place(asked)
    assert answer.status_code == 400, answer.text
    [error] = answer.json()["subErrors"]
    assert error["fieldName"] == field
    assert words in error["message"]
    assert program.get(f"/orders/by-reference/{asked['referenceId']}").status_code == 404
    assert program.balance() == 100_000


def test_an_order_placed_before_is_replayed_though_it_could_not_be_placed_now(delivering: House) -> None:
    program = new_program(delivering, on=False)
    body = program.order_body(deliveryDetails=gift("no address"))
    order = program.place(body).json()
    switch(delivering, program, partners.Delivery())
    again = program.place(body)
    assert (again.status_code, again.headers["Idempotent-Replayed"], again.json()) == (200, "true", order)
    assert program.place(body | {"referenceId": f"ref-{uuid.uuid4().hex}"}).status_code == 400


def test_a_replay_delivers_nothing_again(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    body = program.order_body(deliveryDetails=gift(address))
    order = program.place(body).json()
    wait_for(program, order["id"], state="SENT")
    again = program.place(body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["delivery"]["channels"][0]["state"] == "SENT"
    marker = mailbox()
    second = program.place(deliveryDetails=gift(marker)).json()
    wait_for(program, second["id"], state="SENT")
    assert len(mail.to(address)) == 1


def test_a_number_without_a_country_belongs_to_the_partners_region(delivering: House, phone: Gateway) -> None:
    program = new_program(delivering, region="GB")
    digits = f"{uuid.uuid4().int % 10**6:06}"
    order = program.place(deliveryDetails=gift(None, f"07400 {digits}")).json()
    wait_for(program, order["id"], state="SENT", channel="SMS")
    assert len(texts(phone, f"+447400{digits}")) == 1


def test_the_list_of_orders_shows_what_became_of_each(program: PartnerProgram, mail: MailServer) -> None:
    good, bad = mailbox(), mailbox()
    mail.refused[bad] = "550 no such user here"
    bounced = program.place(deliveryDetails=gift(bad)).json()
    sent = program.place(deliveryDetails=gift(good)).json()
    plain = program.place().json()
    wait_for(program, bounced["id"], state="BOUNCED")
    wait_for(program, sent["id"], state="SENT")
    listed = {one["id"]: one["delivery"] for one in program.get("/orders").json()["data"]}
    assert listed[plain["id"]] is None
    assert [one["state"] for one in listed[sent["id"]]["channels"]] == ["SENT"]
    assert [(one["state"], one["reason"]) for one in listed[bounced["id"]]["channels"]] == [
        ("BOUNCED", "550 no such user here")
    ]


def test_a_delivery_is_asked_for_again_but_not_at_once(
    program: PartnerProgram, mail: MailServer, delivering: House
) -> None:
    address, (given, _) = mailbox(), number()
    order = program.place(deliveryDetails=gift(address, given)).json()
    wait_for(program, order["id"], state="SENT")
    wait_for(program, order["id"], state="SENT", channel="SMS")
    path = f"/orders/{order['id']}/resend-delivery"
    soon = program.post(path, {"channels": ["EMAIL"]})
    assert (soon.status_code, soon.json()["id"]) == (429, "E010")
    assert 3_500 < int(soon.headers["Retry-After"]) <= 3_600
    let_time_pass(delivering, order["id"], "61 min")
    for round_ in (1, 2, 3):
        answer = program.post(path, {"channels": ["EMAIL"]})
        assert answer.status_code == 200, answer.text
        assert {one["channel"] for one in answer.json()["delivery"]["channels"]} == {"EMAIL", "SMS"}
        until(lambda round_=round_: len(mail.to(address)) == 1 + round_)  # type: ignore[misc]
        until(lambda: channels(program, order["id"])["EMAIL"]["state"] == "SENT")
        let_time_pass(delivering, order["id"], "61 min")
    fourth = program.post(path, {"channels": ["EMAIL"]})
    assert fourth.status_code == 429, "three a day"
    assert 3_600 < int(fourth.headers["Retry-After"]) < 24 * 3_600
    # The other channel has a count of its own; without a body both are asked for.
    assert program.post(path).status_code == 429
    assert program.post(path, {"channels": ["SMS"]}).status_code == 200
    let_time_pass(delivering, order["id"], "25 hours")
    assert program.post(path).status_code == 200
    assert len({mail_["Message-ID"] for mail_ in mail.to(address)}) >= 4


def let_time_pass(house: House, order_id: str, interval: str) -> None:
    """As if the deliveries of the order had begun so much earlier."""

    async def deed(conn: pool.Connection) -> None:
        await conn.execute(
            f"UPDATE recipient_delivery SET created_at = created_at - interval '{interval}' WHERE order_id = $1",
            order_id,
        )

    house.do(deed, settle=False)


def test_what_cannot_be_delivered_again_is_told(program: PartnerProgram, delivering: House) -> None:
    order = program.place(deliveryDetails=gift(mailbox())).json()
    path = f"/orders/{order['id']}/resend-delivery"
    assert program.post("/orders/ord_none/resend-delivery").status_code == 404
    assert new_program(delivering).post(path).status_code == 404
    missing = program.post(path, {"channels": ["SMS"]})
    assert (missing.status_code, "SMS" in missing.json()["message"]) == (409, True)
    for body, field in (
        ({"channels": ["PIGEON"]}, "channels[0]"),
        ({"channels": ["email"]}, "channels[0]"),
        ({"channels": "EMAIL"}, "channels"),
        ({"channels": [7]}, "channels[0]"),
    ):
        answer = program.post(path, body)
        assert answer.status_code == 400, body
        assert [error["fieldName"] for error in answer.json()["subErrors"]] == [field]
    assert program.http.post(f"/v1/partners{path}", headers={"X-REQUEST-ID": str(uuid.uuid4())}).status_code == 401


def test_an_empty_list_of_channels_asks_for_nothing(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    order = program.place(deliveryDetails=gift(address)).json()
    wait_for(program, order["id"], state="SENT")
    answer = program.post(f"/orders/{order['id']}/resend-delivery", {"channels": []})
    assert answer.status_code in {400, 409}
    assert len(mail.to(address)) == 1


def test_an_order_that_was_reversed_is_not_delivered_again(program: PartnerProgram) -> None:
    body = program.order_body("sandbox-reversible", deliveryDetails=gift(mailbox()))
    order = program.post("/orders", body, headers={"Prefer": "wait=20"}).json()
    wait_for(program, order["id"], state="SENT")
    done = program.post(f"/orders/{order['id']}/reverse", headers={"Prefer": "wait=20"})
    assert done.json()["status"] == "REVERSED"
    assert program.post(f"/orders/{order['id']}/resend-delivery").status_code == 409


def test_a_partner_may_be_switched_to_codes_in_the_mail_and_to_hindi(
    delivering: House, mail: MailServer, phone: Gateway
) -> None:
    program = new_program(delivering, codes_in_messages=True, language="hi", colour="#aa0000")
    address, (given, e164) = mailbox(), number()
    order = program.place(lines={500: 1}, deliveryDetails=gift(address, given)).json()
    wait_for(program, order["id"], state="SENT")
    wait_for(program, order["id"], state="SENT", channel="SMS")
    [sent] = mail.to(address)
    assert sent["Subject"] == "Asha ने आपको Brand fixed का गिफ़्ट वाउचर भेजा है"
    for kind in ("plain", "html"):
        assert "नमस्ते Meera," in part_of(sent, kind)
        assert all(code in part_of(sent, kind) for code in codes(order))
    assert "#aa0000" in part_of(sent, "html")
    [told] = texts(phone, e164)
    assert all(code in told["body"]["text"] for code in codes(order))
    assert "गिफ़्ट वाउचर" in told["body"]["text"]


def test_a_gift_cannot_write_into_the_mails_headers_or_its_html(program: PartnerProgram, mail: MailServer) -> None:
    address = mailbox()
    nasty = gift(
        address,
        senderName='"><img src=x onerror=alert(1)> {{1234*5678}} %(x)s',
        recipientName="<script>alert(1)</script>",
        wishMessage="<b>bold</b> {{ 1234*5678 }} {% raw %} ${1234*5678}\n.\n..dots\n\nFrom me",
    )
    order = program.place(deliveryDetails=nasty).json()
    assert order["status"] == "SUCCESS", order
    wait_for(program, order["id"], state="SENT")
    [sent] = mail.to(address)
    html, text = part_of(sent, "html"), part_of(sent, "plain")
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert "{{ 1234*5678 }}" in html
    assert "{{ 1234*5678 }}" in text
    assert str(1234 * 5678) not in html
    assert "..dots" in text
    assert sent["Subject"].startswith('"><img src=x')


class Desk:
    """The real program on the database of a running service."""

    def __init__(self, house: House, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIFTRAIL_")}
        keys = {f"GIFTRAIL_{name.upper()}": secret.get_secret_value() for name, secret in KEYS.items()}
        self._env = kept | keys | {
            "GIFTRAIL_DATABASE_URL": house.url, "GIFTRAIL_DATA_DIR": str(folder / "data"), "NO_COLOR": "1",
            "COLUMNS": "300",
        }  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, *words], env=self._env, capture_output=True, text=True, check=False, timeout=60)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)

    def refused(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode != 0, done
        return done.stderr


@pytest.fixture
def desk(delivering: House, tmp_path: Path) -> Desk:
    return Desk(delivering, tmp_path)


def test_the_operator_switches_delivery_on_and_off(delivering: House, desk: Desk, mail: MailServer) -> None:
    program = new_program(delivering, on=False)
    name = program.partner.name
    assert desk.json("partner", "deliver", name, "--reply-to", "help@acme.example", "--language", "hi")["delivers"]
    delivering.settle()
    address = mailbox()
    wait_for(program, program.place(deliveryDetails=gift(address)).json()["id"], state="SENT")
    assert mail.to(address)[0]["Reply-To"] == "help@acme.example"
    # What is not named stays as it is.
    desk.json("partner", "deliver", name, "--codes-in-messages")
    delivering.settle()
    second = mailbox()
    order = program.place(deliveryDetails=gift(second)).json()
    wait_for(program, order["id"], state="SENT")
    text = part_of(mail.to(second)[0], "plain")
    assert "नमस्ते" in text
    assert all(code in text for code in codes(order))
    assert desk.json("partner", "deliver", name, "--off")["delivers"] is False
    delivering.settle()
    assert program.place(deliveryDetails=gift(mailbox())).json()["delivery"] is None
    for option, value, word in (("--language", "xx", "no words"), ("--reply-to", "nobody", "no e-mail address")):
        assert word in desk.refused("partner", "deliver", name, option, value)


def test_the_operator_sees_deliveries_and_reveals_and_never_a_code(
    delivering: House, desk: Desk, program: PartnerProgram, mail: MailServer
) -> None:
    address = mailbox()
    mail.refused[address] = "550 no such user here"
    order = program.place(lines={100: 2}, deliveryDetails=gift(address)).json()
    wait_for(program, order["id"], state="BOUNCED")
    rows = desk.json("delivery", "list", "--state", "bounced")
    [row] = [one for one in rows if one["orderId"] == order["id"]]
    assert (row["channel"], row["address"], row["state"], row["attempts"], row["reason"]) == (
        "EMAIL", address, "BOUNCED", 1, "550 no such user here",
    )  # fmt: skip
    assert {one["state"] for one in rows} == {"BOUNCED"}
    shown = desk.json("delivery", "show", order["id"])
    assert (shown["status"], shown["reveals"]) == ("SUCCESS", [])
    del mail.refused[address]
    # No cooldown for the operator.
    again = desk.json("delivery", "resend", order["id"], "--channel", "email")
    assert [one["state"] for one in again["deliveries"]] == ["PENDING"]
    until(lambda: mail.to(address))
    link = LINK.search(part_of(mail.to(address)[0], "plain"))
    assert link
    assert httpx.post(f"{delivering.base_url}/v/{link[1]}/reveal", trust_env=False).status_code == 200
    wait_for(program, order["id"], state="SENT")
    shown = desk.json("delivery", "show", order["id"])
    assert [one["state"] for one in shown["deliveries"]] == ["BOUNCED", "SENT"]
    assert [one["address"] for one in shown["reveals"]] == ["127.0.0.1"]
    said = desk.run("delivery", "show", order["id"]).stdout
    assert order["id"] in said
    assert not [code for code in codes(order) if code in said + str(shown) + str(rows)]
    assert "there is no order" in desk.refused("delivery", "show", "ord_none")
    assert "no recipient by SMS" in desk.refused("delivery", "resend", order["id"], "--channel", "sms")


def test_the_operator_gives_a_brand_its_picture(
    delivering: House, desk: Desk, program: PartnerProgram, mail: MailServer, tmp_path: Path
) -> None:
    pictures = {"good.png": b"\x89PNG\r\n\x1a\n and so on", "bad.svg": b"<svg onload='alert(1)'/>"}
    for name, content in pictures.items():
        (tmp_path / name).write_bytes(content)
    told = desk.json("brand", "picture", "flexible", str(tmp_path / "good.png"))
    assert (told["mediaType"], told["bytes"]) == ("image/png", len(pictures["good.png"]))
    assert "neither PNG" in desk.refused("brand", "picture", "flexible", str(tmp_path / "bad.svg"))
    address = mailbox()
    order = program.place(product_id="flexible", deliveryDetails=gift(address)).json()
    wait_for(program, order["id"], state="SENT")
    link = LINK.search(part_of(mail.to(address)[0], "plain"))
    assert link
    picture = delivering.client().get(f"/v/{link[1]}/picture")
    assert (picture.headers["Content-Type"], picture.content) == ("image/png", pictures["good.png"])
