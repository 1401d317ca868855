"""What finished steps have cost: sent once each, on the side, and not lost at the exit."""

from __future__ import annotations

import threading

import pytest

from ..process import until
from .history import inserted, user
from .stub import TEXT, error, honest, no_content, then_stall, whole

TOKENS = {"input": 10, "output": 2, "reasoning": 1, "cache": {"read": 900, "write": 40}}


def message(identity: str = "msg_1", session: str = "ses_1", **more: object) -> dict:
    """An assistant's message that is complete."""
    return {
        "id": identity,
        "sessionID": session,
        "role": "assistant",
        "time": {"created": 1_000_000, "completed": 1_002_500},
        "providerID": "anthropic",
        "modelID": "claude",
        "agent": "build",
        "tokens": TOKENS,
        "cost": 0.25,
        **more,
    }


def steps(sidecar) -> list[dict]:
    sent = [request for request in sidecar.requests if request.line.startswith("POST /v1/usage ")]
    return [step for request in sent for step in request.body["steps"]]


def takes_usage(_sidecar, connection, request):
    if request.line.startswith("POST /v1/usage "):
        connection.sendall(no_content())
    else:
        honest()(_sidecar, connection, request)


@pytest.fixture
def book(sidecar):
    sidecar.answer = takes_usage
    return sidecar


def answer(shim, *given: str, **more: object) -> None:
    """An answer begins, and is complete."""
    whole = message(*given, **more)
    shim.event("message.updated", info={**whole, "time": {"created": 1_000_000}})
    shim.event("message.updated", info=whole)


def test_a_finished_step_is_sent_with_all_that_it_cost(shim, book):
    answer(shim)
    until(lambda: steps(book), "the step")

    assert steps(book) == [
        {
            "session_id": "ses_1",
            "message_id": "msg_1",
            "parent_id": None,
            "started_at": 1000.0,
            "finished_at": 1002.5,
            "provider": "anthropic",
            "model": "claude",
            "agent": "build",
            "outcome": "done",
            "compaction": False,
            "input": 10,
            "output": 2,
            "reasoning": 1,
            "cache_read": 900,
            "cache_write": 40,
            "cost": 0.25,
        }
    ]


def test_what_is_no_finished_step_of_an_assistant_is_not_sent(shim, book):
    for info in (
        message("msg_copied"),  # as a fork's are
        message(time={"created": 1_000_000}),
        message(role="user"),
        message(time=None),
        None,
    ):
        shim.event("message.updated", info=info)
    answer(shim, "msg_last")
    shim.hook("dispose")

    assert [step["message_id"] for step in steps(book)] == ["msg_last"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"error": {"name": "MessageAbortedError"}}, {"outcome": "aborted"}),
        ({"error": {"name": "APIError"}}, {"outcome": "failed"}),
        ({"summary": True, "agent": "compaction"}, {"compaction": True}),
        ({"agent": None, "mode": "plan"}, {"agent": "plan"}),
        ({"tokens": None, "cost": None}, {"input": 0, "cache_read": 0, "cost": 0}),
        ({"cost": "free"}, {"cost": 0}),
        ({"cost": -1}, {"cost": 0}),
        ({"tokens": {"input": -1, "output": "x", "cache": {}}}, {"input": 0, "output": 0}),
    ],
)
def test_what_a_step_was_is_said(shim, book, more, said):
    answer(shim, **more)
    shim.hook("dispose")

    (step,) = steps(book)
    assert {name: step[name] for name in said} == said


def test_a_subagents_step_names_its_parent(shim, book):
    shim.event("session.created", info={"id": "ses_1", "parentID": "ses_parent"})
    answer(shim)
    shim.hook("dispose")

    assert steps(book)[0]["parent_id"] == "ses_parent"


def test_steps_wait_for_a_sidecar_that_is_away_and_come_in_their_order(shim, book):
    book.answer = lambda _sidecar, connection, _request: connection.sendall(
        error("503 Service Unavailable", "Not now.")
    )
    for number in range(3):
        answer(shim, f"msg_{number}", cost=1)
    answer(shim, "msg_0", cost=2)
    until(lambda: shim.logs(), "the refusal")
    book.answer = takes_usage
    answer(shim, "msg_3", cost=1)
    shim.hook("dispose")

    last = [(step["message_id"], step["cost"]) for step in steps(book)][-4:]
    assert last == [("msg_1", 1), ("msg_2", 1), ("msg_0", 2), ("msg_3", 1)]


def test_no_step_that_was_refused_for_now_is_lost(shim, book):
    book.answer = whole(error("503 Service Unavailable", "Not now."))
    for number in range(3):
        answer(shim, f"msg_{number}")
    until(lambda: shim.logs(), "the refusal")
    taken = []

    def take(_sidecar, connection, request):
        taken.extend(step["message_id"] for step in request.body["steps"])
        connection.sendall(no_content())

    book.answer = take
    shim.hook("dispose")

    assert taken == ["msg_0", "msg_1", "msg_2"]


def test_what_the_host_says_again_is_sent_once_as_it_said_it_last(shim, start_sidecar):
    for identity, cost in (("msg_1", 1), ("msg_2", 1), ("msg_1", 2)):
        answer(shim, identity, cost=cost)
    sidecar = start_sidecar()
    sidecar.answer = takes_usage
    shim.hook("dispose")

    assert [(step["message_id"], step["cost"]) for step in steps(sidecar)] == [
        ("msg_2", 1),
        ("msg_1", 2),
    ]


def test_what_the_host_says_while_a_step_is_on_its_way_is_sent_after_it(shim, book):
    said_again = threading.Event()

    def take(_sidecar, connection, _request):
        said_again.wait(10)
        connection.sendall(no_content())

    book.answer = take
    answer(shim, cost=1)
    until(lambda: steps(book), "the step")
    answer(shim, cost=2)
    said_again.set()
    shim.hook("dispose")

    assert [step["cost"] for step in steps(book)] == [1, 2]


def test_what_the_sidecar_refuses_for_good_is_not_sent_again(shim, book):
    book.answer = lambda _sidecar, connection, _request: connection.sendall(
        error("400 Bad Request", "No step.")
    )
    answer(shim)
    shim.hook("dispose")
    shim.hook("dispose")

    assert len(steps(book)) == 1
    (line,) = shim.logs()
    assert "No step." in line


def test_a_sidecar_that_hangs_holds_up_neither_a_prompt_nor_the_exit(shim, sidecar):
    stalled = then_stall()

    def stall_usage(sidecar, connection, request):
        answer = stalled if request.line.startswith("POST /v1/usage ") else honest()
        answer(sidecar, connection, request)

    sidecar.answer = stall_usage
    answer(shim)
    result = shim.transform([user()])
    ending = shim.hook("dispose")

    assert inserted(result) == TEXT
    assert result["elapsed"] < 500
    assert ending["elapsed"] < 2500


def test_of_too_many_unsent_steps_the_oldest_go(shim, home, start_sidecar):
    for number in range(1005):
        answer(shim, f"msg_{number}")
    sidecar = start_sidecar()
    sidecar.answer = takes_usage
    shim.hook("dispose")

    identities = [step["message_id"] for step in steps(sidecar)]
    assert identities == [f"msg_{number}" for number in range(5, 1005)]
    # What the real sidecar takes at once.
    assert max(len(request.raw) for request in sidecar.requests) < 64 * 1024
