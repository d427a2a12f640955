"""Pages of the catalogue are kept within bounds, and only as long as they are right."""

from giftrail.partner_api import pages

PAGE = pages.Page('"a"', b"x" * 1000)


def test_a_page_is_found_until_the_catalogue_changes() -> None:
    kept = pages.Pages()
    kept.keep("prt_1", b"pageNo=1", PAGE, catalog_number=1)
    assert kept.find("prt_1", b"pageNo=1", catalog_number=1) is PAGE
    for partner_id, query, number in (("prt_1", b"pageNo=1", 2), ("prt_2", b"pageNo=1", 1), ("prt_1", b"pageNo=2", 1)):
        assert kept.find(partner_id, query, catalog_number=number) is None


def test_ever_new_questions_take_no_more_than_the_bound() -> None:
    kept, empty = pages.Pages(), pages.Page('"b"', b"")
    kept.keep("prt_2", b"mine", PAGE, catalog_number=1)
    for number in range(2 * pages.MAX_BYTES_KEPT // pages.BYTES_BESIDE):
        kept.keep("prt_1", b"q=%d" % number, empty, catalog_number=1)
        assert kept.find("prt_2", b"mine", catalog_number=1) is PAGE, "what is asked for stays"
    assert kept.bytes_kept <= pages.MAX_BYTES_KEPT
    assert kept.find("prt_1", b"q=0", catalog_number=1) is None


def test_a_page_that_is_kept_anew_is_counted_once() -> None:
    kept = pages.Pages()
    for number in range(10):
        kept.keep("prt_1", b"", PAGE, catalog_number=number)
    assert kept.bytes_kept == len(PAGE.body) + pages.BYTES_BESIDE
