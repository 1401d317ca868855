"""Two requests, and the first place where they are not the same prompt."""

from __future__ import annotations

import json

import pytest

from sidecar.verify.prefix import first_difference, pieces

TOOLS = [{"type": "function", "function": {"name": "bash"}}]
MARK = {"cache_control": {"type": "ephemeral"}}


def body(*messages: dict, **more: object) -> bytes:
    return json.dumps({"messages": messages, **more}, separators=(",", ":")).encode()


def system(text: str) -> dict:
    return {"role": "system", "content": text}


def user(content: object) -> dict:
    return {"role": "user", "content": content}


def text(value: str, **more: object) -> dict:
    return {"type": "text", "text": value, **more}


def test_the_pieces_stand_in_the_providers_order_and_not_in_the_bodys() -> None:
    found = pieces(body(system("s"), user("a"), tools=TOOLS))
    assert [piece.place for piece in found] == [
        "tools, item 0",
        "system, message 0, part 0",
        "message 0, part 0",
    ]


def test_a_request_that_goes_on_is_an_extension() -> None:
    earlier = body(system("s"), user("a"), tools=TOOLS)
    later = body(system("s"), user("a"), user("b"), tools=TOOLS)
    assert first_difference(earlier, later) is None


def test_a_request_sent_twice_is_no_extension() -> None:
    again = body(user("a"))
    assert first_difference(again, again).place == "message 0, part 0: nothing follows"


def test_a_request_that_lost_its_end_is_no_extension() -> None:
    difference = first_difference(body(user("a"), user("b")), body(user("a")))
    assert difference.place == "message 1, part 0: nothing follows"


@pytest.mark.parametrize(
    ("later", "place"),
    [
        (body(system("s"), user("a"), user("b"), tools=[]), "tools, item 0"),
        (body(system("S"), user("a"), user("b"), tools=TOOLS), "system, message 0, part 0"),
        (body(system("s"), user("A"), user("b"), tools=TOOLS), "message 0, part 0"),
        (
            body(system("s"), {"role": "assistant", "content": "a"}, user("b"), tools=TOOLS),
            "message 0, part 0",
        ),
        (body(system("s"), user([text("a"), text("b")]), tools=TOOLS), None),
    ],
)
def test_the_first_difference_is_named_by_its_place(later: bytes, place: str | None) -> None:
    difference = first_difference(body(system("s"), user("a"), tools=TOOLS), later)
    assert (difference and difference.place) == place


def test_the_excerpts_show_what_stands_around_the_difference() -> None:
    difference = first_difference(
        body(user("x" * 500 + "before")), body(user("x" * 500 + "after"), user("b"))
    )
    assert "before" in difference.before
    assert "after" in difference.after
    assert len(difference.before) < 200


def test_moving_a_cache_mark_or_the_form_it_brings_is_no_difference() -> None:
    earlier = body(user([text("a", **MARK)]), system=[text("s", **MARK)])
    later = body(user("a"), user([text("b", **MARK)]), system=[text("s")])
    assert first_difference(earlier, later) is None


def test_a_cache_mark_that_is_the_users_own_text_is_compared() -> None:
    earlier = body(user([{"type": "tool_use", "input": {"cache_control": 1}}]))
    later = body(user([{"type": "tool_use", "input": {"cache_control": 2}}]), user("b"))
    assert first_difference(earlier, later).place == "message 0, part 0"


def test_bytes_are_compared_and_not_what_they_mean() -> None:
    earlier = b'{"messages":[{"role":"user","content":[{"type":"text","text":"\xc3\xa4"}]}]}'
    escaped = earlier.replace(b"\xc3\xa4", b"\\u00e4")
    reordered = earlier.replace(
        b'"type":"text","text":"\xc3\xa4"', b'"text":"\xc3\xa4","type":"text"'
    )
    for later in (escaped, reordered):
        assert first_difference(earlier, later).place == "message 0, part 0"


def test_tool_calls_are_part_of_the_prompt() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    other = {"role": "assistant", "content": None, "tool_calls": [{"id": "2"}]}
    difference = first_difference(body(user("a"), call), body(user("a"), other, user("b")))
    assert difference.place == "message 1, part 1"
