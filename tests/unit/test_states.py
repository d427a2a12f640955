import pytest

from giftrail.orders import states
from giftrail.orders.states import Status


def test_the_states_are_the_specification_s_five() -> None:
    assert {status.value for status in Status} == {"PROCESSING", "SUCCESS", "FAILED", "CANCELLED", "REVERSED"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {Status.SUCCESS, Status.PROCESSING, Status.FAILED}),
        (Status.PROCESSING, {Status.SUCCESS, Status.FAILED, Status.CANCELLED}),
        (Status.SUCCESS, {Status.REVERSED}),
        (Status.FAILED, set()),
        (Status.CANCELLED, set()),
        (Status.REVERSED, set()),
    ],
)
def test_who_may_follow_whom(before: Status | None, after: set[Status]) -> None:
    assert {to for from_, to in states.TRANSITIONS if from_ is before} == after


def test_the_drawing_shows_every_transition_and_every_end() -> None:
    drawn = states.draw().splitlines()
    assert drawn[0] == "stateDiagram-v2"
    assert len(drawn) == 1 + len(states.TRANSITIONS) + 3
    assert {line.strip() for line in drawn if line.endswith("--> [*]")} == {
        "FAILED --> [*]",
        "CANCELLED --> [*]",
        "REVERSED --> [*]",
    }
    assert any(line.strip().startswith("[*] --> SUCCESS:") for line in drawn)
