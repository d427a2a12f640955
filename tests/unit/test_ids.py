import re
from datetime import UTC, datetime, timedelta, timezone

from giftrail.kit import ids

NOON = datetime(2025, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def test_an_id_tells_its_type_and_nothing_readable_else() -> None:
    assert re.fullmatch(r"ord_[0-9a-f]{32}", ids.new("ord", now=NOON))


def test_ids_of_one_instant_are_all_different() -> None:
    assert len({ids.new("vch", now=NOON) for _ in range(5_000)}) == 5_000


def test_ids_of_later_milliseconds_sort_later() -> None:
    made = [ids.new("ord", now=NOON + timedelta(milliseconds=n)) for n in range(200)]
    made.append(ids.new("ord", now=datetime(9999, 12, 31, tzinfo=UTC)))
    assert made == sorted(made)


def test_the_clock_s_zone_does_not_change_the_order() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert ids.floor("ord", at=there) == ids.floor("ord", at=NOON)


def test_a_floor_divides_earlier_ids_from_later_ones() -> None:
    bound = ids.floor("ord", at=NOON)
    for _ in range(100):
        assert ids.new("ord", now=NOON - timedelta(milliseconds=1)) < bound <= ids.new("ord", now=NOON)


def test_a_time_before_1970_is_the_least_floor() -> None:
    assert ids.floor("ord", at=datetime(1, 1, 1, tzinfo=UTC)) == "ord_" + "0" * 12
