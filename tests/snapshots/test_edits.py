import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.edits import (
    MAX_COUNT,
    Edit,
    EditError,
    EditUnchangedError,
    OldTextAmbiguousError,
    OldTextEmptyError,
    OldTextMissingError,
    OverLimitError,
    apply_edits,
    check_limit,
    count_occurrences,
    size,
)


def edited(text: str, *pairs: tuple[str, str]) -> str:
    *_, last = apply_edits(text, [Edit(old_text=old, new_text=new) for old, new in pairs])
    return last


def test_an_edit_replaces_the_one_occurrence():
    assert edited("A cost B", ("cost", "price")) == "A price B"


@pytest.mark.parametrize("new", ["$& [$`] [$'] $$5", r"\1 \g<0> \n", "{0} %s", "\\"])
def test_new_text_is_literal(new):
    assert edited("A cost B", ("cost", new)) == f"A {new} B"


def test_old_text_is_literal():
    assert edited("a.c abc (", ("a.c", "x"), ("(", ")")) == "x abc )"


def test_later_edits_see_the_result_of_earlier_ones():
    assert edited("one", ("one", "two"), ("two", "three")) == "three"


def test_an_edit_may_make_room_for_a_later_one():
    assert edited("a a", ("a a", "a b"), ("a", "c")) == "c b"


@pytest.mark.parametrize(
    ("text", "old", "new", "error", "count"),
    [
        ("text", "", "x", OldTextEmptyError, 0),
        ("", "", "x", OldTextEmptyError, 0),
        ("text", "nowhere", "x", OldTextMissingError, 0),
        ("foo foo foo", "foo", "x", OldTextAmbiguousError, 3),
        ("aaaa", "aaa", "x", OldTextAmbiguousError, 2),
        ("text", "text", "text", EditUnchangedError, 1),
    ],
)
def test_an_edit_that_can_mean_two_things_or_none_is_refused_with_the_count(
    text, old, new, error, count
):
    with pytest.raises(error) as caught:
        edited(text, (old, new))
    assert (caught.value.count, caught.value.position, caught.value.current) == (count, 1, text)


def test_a_refusal_in_a_batch_names_the_edit_and_carries_the_text_before_the_batch():
    with pytest.raises(EditError, match="Edit 2 of 3") as caught:
        edited("one two", ("one", "1"), ("one", "x"), ("two", "2"))
    assert (caught.value.position, caught.value.current) == (2, "one two")


def test_occurrences_that_begin_at_every_character_are_counted_in_bounded_time():
    assert count_occurrences("a" * 1_000_000, "a" * 500_000) == MAX_COUNT


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3))
def test_overlapping_occurrences_count(text, part):
    starts = [i for i in range(len(text)) if text.startswith(part, i)]
    assert count_occurrences(text, part) == len(starts)


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("abc", 3), ("é", 1), ("🎉🎉🎉", 6), ("\ud800", 1), ("\uffff", 1)]
)
def test_size_is_javascripts_length(text, units):
    assert size(text) == units


@pytest.mark.parametrize(
    ("old", "new", "limit"),
    [("", "12345", 5), ("1234567890", "1234567", 5), ("12345", "1234", 5), ("x", "🎉", 2)],
)
def test_a_write_within_the_limit_or_one_that_shortens_is_allowed(old, new, limit):
    check_limit(old=old, new=new, limit=limit, policy="refuse")


@pytest.mark.parametrize(
    ("old", "new", "limit", "overage"),
    [
        ("", "123456", 5, 1),
        ("1234567", "abcdefg", 5, 2),
        ("1234", "12345678", 5, 3),
        ("", "🎉", 1, 1),
    ],
)
def test_a_write_over_the_limit_that_does_not_shorten_is_refused(old, new, limit, overage):
    with pytest.raises(OverLimitError) as caught:
        check_limit(old=old, new=new, limit=limit, policy="refuse")
    error = caught.value
    assert (error.size, error.limit, error.overage) == (limit + overage, limit, overage)
    assert error.current == old
    check_limit(old=old, new=new, limit=limit, policy="allow")
