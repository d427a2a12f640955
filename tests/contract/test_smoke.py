from house import House


def test_an_order_is_placed_and_read(house: House) -> None:
    partner = house.partner()
    answer = partner.place(lines={100: 2, 250: 1})
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert order["status"] == "SUCCESS"
    assert len(order["vouchers"]) == 3
    assert partner.get(f"/orders/{order['id']}").json() == order
    assert partner.balance() == 100_000 - 450
