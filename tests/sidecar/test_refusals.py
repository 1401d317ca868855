from __future__ import annotations

from sidecar.refusals import MOST, Refusals


def test_enough_is_the_third_of_a_kind_in_a_turn_of_a_session() -> None:
    refusals = Refusals()
    assert [refusals.note("ses_a", "msg_1", "over_limit") for _ in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert not refusals.note("ses_a", "msg_1", "old_text_missing")
    assert not refusals.note("ses_a", "msg_2", "over_limit")
    assert not refusals.note("ses_b", "msg_1", "over_limit")


def test_of_very_many_turns_the_oldest_is_forgotten() -> None:
    refusals = Refusals()
    for _ in range(MOST):
        refusals.note("ses_a", "msg_0", "over_limit")
    for number in range(1, 1001):
        refusals.note("ses_a", f"msg_{number}", "over_limit")
    assert not refusals.note("ses_a", "msg_0", "over_limit")
