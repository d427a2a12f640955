import os

import pytest

from giftrail.kit import seal

OLD, NEW = ("k1", os.urandom(32)), ("k2", os.urandom(32))
PLAIN = b"6006491727270001"


def test_what_was_sealed_opens_in_its_place_and_shows_nothing_outside() -> None:
    ring = seal.KeyRing([OLD])
    sealed = ring.seal(PLAIN, bound_to="voucher/a/b/c")
    assert ring.open(sealed, bound_to="voucher/a/b/c") == PLAIN
    assert PLAIN not in sealed
    assert ring.seal(PLAIN, bound_to="voucher/a/b/c") != sealed


@pytest.mark.parametrize("elsewhere", ["voucher/a/b/d", "voucher/x/b/c", "voucher/a/x/c", "", "voucher/a/b/c "])
def test_a_moved_row_does_not_open(elsewhere: str) -> None:
    ring = seal.KeyRing([OLD])
    sealed = ring.seal(PLAIN, bound_to="voucher/a/b/c")
    with pytest.raises(seal.CannotOpen):
        ring.open(sealed, bound_to=elsewhere)


def test_keys_rotate_with_two_keys_in_the_ring() -> None:
    before = seal.KeyRing([OLD]).seal(PLAIN, bound_to="x")
    ring = seal.KeyRing([NEW, OLD])
    after = ring.seal(PLAIN, bound_to="x")
    assert ring.open(before, bound_to="x") == ring.open(after, bound_to="x") == PLAIN
    assert [ring.sealed_by_current(sealed) for sealed in (before, after)] == [False, True]
    retired = seal.KeyRing([NEW])
    assert retired.open(after, bound_to="x") == PLAIN
    with pytest.raises(seal.CannotOpen):
        retired.open(before, bound_to="x")


def test_a_wrong_key_of_the_same_id_does_not_open() -> None:
    sealed = seal.KeyRing([("k1", os.urandom(32))]).seal(PLAIN, bound_to="x")
    with pytest.raises(seal.CannotOpen):
        seal.KeyRing([("k1", os.urandom(32))]).open(sealed, bound_to="x")


def test_a_change_of_any_byte_is_noticed() -> None:
    ring = seal.KeyRing([OLD, NEW])
    sealed = ring.seal(PLAIN, bound_to="x")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(seal.CannotOpen):
            ring.open(bytes(changed), bound_to="x")


@pytest.mark.parametrize("kept", range(50))
def test_a_truncated_seal_cannot_be_opened_and_says_so(kept: int) -> None:
    ring = seal.KeyRing([OLD])
    sealed = ring.seal(b"a longer text, so that fifty bytes are less than all", bound_to="x")
    with pytest.raises(seal.CannotOpen):
        ring.open(sealed[:kept], bound_to="x")


@pytest.mark.parametrize("key_id", ["k", "2025-03", "clé", "キー", "x" * 32])
def test_any_key_id_that_the_settings_allow_seals_and_opens(key_id: str) -> None:
    ring = seal.KeyRing([(key_id, OLD[1])])
    assert ring.open(ring.seal(PLAIN, bound_to="x"), bound_to="x") == PLAIN


def test_one_key_id_that_begins_another_is_not_taken_for_it() -> None:
    ring = seal.KeyRing([("k1", OLD[1]), ("k11", NEW[1])])
    turned = seal.KeyRing([("k11", NEW[1]), ("k1", OLD[1])])
    assert not ring.sealed_by_current(turned.seal(PLAIN, bound_to="x"))
    assert ring.open(turned.seal(PLAIN, bound_to="x"), bound_to="x") == PLAIN


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused_by_its_id(length: int) -> None:
    with pytest.raises(ValueError, match="'k9'"):
        seal.KeyRing([OLD, ("k9", bytes(length))])


def test_a_ring_has_a_key() -> None:
    with pytest.raises(ValueError, match="at least one"):
        seal.KeyRing([])


def test_a_digest_is_the_same_for_the_same_parts_only() -> None:
    key, other = OLD[1], NEW[1]
    assert seal.digest(key, "a", "b") == seal.digest(key, "a", "b")
    different = {
        seal.digest(key, "a", "b"),
        seal.digest(key, "ab"),
        seal.digest(key, "ab", ""),
        seal.digest(key, "", "ab"),
        seal.digest(key, "b", "a"),
        seal.digest(other, "a", "b"),
    }
    assert len(different) == 6
