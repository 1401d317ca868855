"""The agent's tools as the shim registers and runs them."""

from __future__ import annotations

import importlib.util
import json
import threading

import pytest

from sidecar.tools import definitions

from .conftest import ROOT, SHIM, TRANSFORM
from .history import assistant, inserted, user
from .stub import MARKER, TEXT, error, reply, whole

ANSWER = "project:notes has 1 of 5000 characters."
APPROVAL = error("403 Forbidden", "The user has to be asked first.")


def test_the_table_in_the_shim_is_the_one_generated_from_the_structs():
    spec = importlib.util.spec_from_file_location(
        "generate_tools", ROOT / "plugin-shim" / "generate_tools.py"
    )
    generate_tools = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate_tools)
    text = SHIM.read_text(encoding="utf-8")
    assert generate_tools.with_tools(text) == text


def test_the_tools_are_there_without_a_sidecar_with_the_schemas_of_the_structs(shim):
    tools = shim.send("tools", instance="first")
    assert tools["foreign"] == {"jsonSchema": "untouched"}
    assert shim.logs() == []
    assert list(tools["definitions"]) == list(definitions())
    for name, definition in definitions().items():
        assert tools["definitions"][name] == {
            "description": definition["description"],
            "args": {},
            "jsonSchema": {
                "type": "object",
                "properties": definition["properties"],
                "required": definition["required"],
                "additionalProperties": False,
            },
        }


def call(shim, name="memory_set", *, messages=None, consent="yes", **args):
    return shim.send(
        "tool", instance="first", name=name, args=args, messages=messages, consent=consent
    )


def test_a_call_goes_to_the_sidecar_with_its_arguments_and_its_turn(shim, sidecar):
    sidecar.answer = whole(reply(body=ANSWER.encode(), ETag=None))
    ours = user(MARKER, id="msg_000000000000OpencodeMemory")
    history = [user(created=1000), user(created=2000), assistant("msg_2000", created=2001), ours]
    outcome = call(shim, label="notes", value="$& x", messages=history)
    assert outcome["result"] == {"title": "notes", "output": ANSWER, "metadata": {}}
    (request,) = sidecar.requests
    assert request.line == "POST /v1/tools/memory_set HTTP/1.1"
    assert request.body["arguments"] == {"label": "notes", "value": "$& x"}
    assert request.body["session_id"] == "ses_1"
    assert request.body["turn_id"] == "msg_2000"
    assert request.body["directory"] == shim.directory


def test_without_a_history_the_step_stands_for_the_turn(shim, sidecar):
    sidecar.answer = whole(reply(body=b"x", ETag=None))
    call(shim, "memory_list")
    assert sidecar.requests[0].body["turn_id"] == "msg_step"


def test_a_refusal_reaches_the_model_whole(shim, sidecar):
    sentence = "The edit was refused.\n" + json.dumps({"value": "x" * 2000})
    sidecar.answer = whole(error("409 Conflict", sentence))
    refused = call(shim, label="notes", value="x")
    assert refused["threw"] == sentence
    assert refused["asked"] == []


def test_an_error_that_is_none_of_the_sidecar_s_reaches_the_model_as_its_number(shim, sidecar):
    sidecar.answer = whole(reply("500 Internal Server Error", b"{", ETag=None))
    assert call(shim, "memory_list")["threw"] == "HTTP status 500"


def test_without_a_sidecar_a_call_answers_with_what_to_do(shim):
    assert "opencode-memory start" in call(shim, "memory_list")["threw"]


def test_the_user_is_asked_when_the_settings_want_it_and_the_call_made_again(shim, sidecar):
    def answer(_sidecar, connection, request):
        approved = request.body.get("approved")
        connection.sendall(reply(body=ANSWER.encode(), ETag=None) if approved else APPROVAL)

    sidecar.answer = answer
    outcome = call(shim, label="notes", value="x")
    assert outcome["result"]["output"] == ANSWER
    (question,) = outcome["asked"]
    assert question["permission"] == "memory_set"
    assert question["patterns"] == ["notes"]
    assert question["metadata"] == {"label": "notes", "value": "x"}


def test_what_the_user_does_not_allow_is_not_done(shim, sidecar):
    sidecar.answer = whole(APPROVAL)
    assert "rejected" in call(shim, label="notes", value="x", consent="no")["threw"]
    assert len(sidecar.requests) == 1


EVENT = {
    "name": "event",
    "input": {"event": {"type": "session.compacted", "properties": {"sessionID": "ses_1"}}},
}
CALL = {"command": "tool", "name": "memory_list", "args": {}}


@pytest.mark.parametrize(
    ("waits", "first"),
    [(EVENT, None), (CALL, None), (CALL, APPROVAL)],
    ids=["an event", "a call", "an approved call"],
)
def test_what_waits_holds_up_no_prompt(shim, sidecar, waits, first):
    all_prompted = threading.Event()

    def answer(_sidecar, connection, request):
        if request.line.startswith("POST /v1/snapshot "):
            connection.sendall(reply())
            prompts = [each for each in sidecar.requests if each.line == request.line]
            if len(prompts) == 20:
                all_prompted.set()
        elif first and not request.body.get("approved"):
            connection.sendall(first)
        else:
            all_prompted.wait(5)
            connection.sendall(reply(body=ANSWER.encode(), ETag=None))

    sidecar.answer = answer
    prompts = {"name": TRANSFORM, "output": {"messages": [user()]}, "times": 20}
    calls = [{"instance": "first", **each} for each in (waits, prompts)]
    _, transform = shim.send("together", calls=calls)
    assert inserted(transform) == TEXT
    assert shim.logs() == []
