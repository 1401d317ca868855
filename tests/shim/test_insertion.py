"""What is inserted, where, and what is left alone."""

from __future__ import annotations

import copy
import re

import pytest

from .history import MODEL, assistant, compaction, inserted, user
from .stub import MARKER, TEXT, honest, no_content, reply, whole

ID_FORM = r"^(msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}$"


def test_memory_stands_first_and_the_history_is_left_as_it_was(shim, sidecar):
    history = [user("one"), assistant("msg_1000"), user("two", created=1002)]

    messages = shim.transform(history)["messages"]

    assert messages[0]["parts"][0]["text"] == TEXT
    assert messages[1:] == history


def test_the_message_has_the_host_s_shape(shim, sidecar):
    model = {"providerID": "other", "modelID": "m2", "variant": "high"}
    last = user("two", created=1002, agent="plan", model=model)

    first = shim.transform([user("one"), last])["messages"][0]

    info, (part,) = first["info"], first["parts"]
    assert re.match(ID_FORM, info["id"])
    assert re.match(ID_FORM, part["id"])
    assert info == {
        "id": info["id"],
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": 1000},
        "agent": "plan",
        "model": model,
    }
    assert part == {
        "id": part["id"],
        "sessionID": "ses_1",
        "messageID": info["id"],
        "type": "text",
        "text": TEXT,
        "synthetic": True,
    }


def test_agent_and_model_do_not_come_from_another_plugin_s_message(shim, sidecar):
    foreign = {"info": {"role": "user"}, "parts": [{"type": "text", "text": "by a plugin"}]}

    first = shim.transform([user(), foreign])["messages"][0]

    assert first["info"]["agent"] == "build"
    assert first["info"]["model"] == MODEL


def test_every_request_gets_the_same_bytes(shim, sidecar):
    sidecar.answer = honest()

    firsts = [shim.transform([user()])["messages"][0] for _ in range(3)]

    assert firsts[0] == firsts[1] == firsts[2]


def test_a_second_copy_of_the_plugin_inserts_nothing(shim, sidecar):
    shim.load("copy", query="?copy")
    once = shim.transform([user()])["messages"]

    twice = shim.transform(once, instance="copy")["messages"]

    assert twice == once
    assert len(sidecar.requests) == 1


def test_our_message_is_found_behind_another_plugin_s(shim, sidecar):
    foreign = user("by a plugin")
    once = [foreign, *shim.transform([user()])["messages"]]

    assert shim.transform(once)["messages"] == once


def test_our_message_is_found_with_another_plugin_s_part_ahead_of_ours(shim, sidecar):
    ours, theirs = shim.transform([user()])["messages"]
    ours["parts"].insert(0, {"type": "text", "text": "by a plugin"})
    once = [user("by a plugin"), ours, theirs]

    assert shim.transform(once)["messages"] == once


def test_our_part_is_found_behind_another_plugin_s_message(shim, sidecar):
    sidecar.answer = as_part
    shim.load("copy", query="?copy")
    once = [user("by a plugin"), *shim.transform([user()])["messages"]]

    assert shim.transform(once, instance="copy")["messages"] == once


def test_a_snapshot_of_another_version_of_ours_is_found_by_its_marker(shim, sidecar):
    other = user("<!-- opencode-agent-memory:snapshot:7 -->\nolder")
    other["parts"][0]["synthetic"] = True

    assert shim.transform([other, user()])["messages"] == [other, user()]


@pytest.mark.parametrize("place", ["first message", "later message", "later part", "assistant"])
def test_a_pasted_marker_does_not_keep_memory_out(shim, sidecar, place):
    pasted = user(MARKER + "look at this")
    history = [pasted, user()]
    if place == "later message":
        pasted["parts"][0]["synthetic"] = True
        history = [user(), pasted]
    if place == "later part":
        pasted["parts"] = [*user("hi")["parts"], {**pasted["parts"][0], "synthetic": True}]
    if place == "assistant":
        pasted["parts"][0]["synthetic"] = True
        pasted["info"]["role"] = "assistant"

    messages = shim.transform(history)["messages"]

    assert messages[0]["parts"][0]["text"] == TEXT


def test_another_plugin_s_edits_of_our_message_reach_nothing_else(shim, sidecar):
    sidecar.answer = honest()
    untouched = shim.transform([user()])["messages"][0]

    edited = shim.send("edited", instance="first", first=[user()], second=[user()])

    assert edited["second"] == [untouched, user()]
    assert edited["first"][1:] == [user()]


def test_a_frozen_list_is_left_alone_and_told_once(shim, sidecar):
    for _ in range(2):
        assert shim.transform([user()], freeze=True)["messages"] == [user()]

    (line,) = shim.logs()
    assert "froze the list of messages" in line


@pytest.mark.parametrize(
    "history",
    [
        [],
        [{"info": {"role": "user"}, "parts": []}],
        [{"info": {"role": "user", "sessionID": 5}, "parts": []}],
        [None, 5, "text", {}, {"info": None}, {"parts": None}],
    ],
)
def test_without_a_session_id_nothing_is_asked_and_nothing_told(shim, sidecar, history):
    assert shim.transform(copy.deepcopy(history))["messages"] == history
    assert shim.logs() == []
    assert sidecar.requests == []


@pytest.mark.parametrize("odd", [None, {}, {"info": None, "parts": []}, {"info": {"role": "user"}}])
def test_messages_of_no_usable_shape_make_the_epoch_unknown(shim, sidecar, odd):
    messages = shim.transform([odd, user(), odd])["messages"]

    assert messages[0]["parts"][0]["text"] == TEXT
    assert sidecar.requests[0].body["epoch"] is None
    assert shim.logs() == []


def test_odd_parts_do_no_harm(shim, sidecar):
    odd = user()
    odd["parts"] = [None, {"type": "text", "synthetic": True, "text": 5}, {}]

    messages = shim.transform([odd])["messages"]

    assert messages[0]["parts"][0]["text"] == TEXT
    assert shim.logs() == []


def test_the_sidecar_may_decide_that_nothing_is_inserted(shim, sidecar):
    sidecar.answer = whole(no_content())
    assert shim.transform([user()])["messages"] == [user()]

    sidecar.answer = whole()
    assert inserted(shim.transform([user()])) == TEXT
    assert shim.logs() == []  # not late: nothing had been missed


def test_the_decision_to_insert_nothing_outlives_the_sidecar(shim, sidecar):
    sidecar.answer = whole(no_content())
    shim.transform([user()])
    sidecar.stop()

    assert shim.transform([user()])["messages"] == [user()]
    assert len(shim.logs()) == 1


# The epoch: which history head the host is on.


def epoch_of(shim, sidecar, history: list[dict]) -> str | None:
    before = len(sidecar.requests)
    shim.transform(history)
    return sidecar.requests[before].body["epoch"]


def test_a_history_without_compaction_is_in_its_initial_epoch(shim, sidecar):
    assert epoch_of(shim, sidecar, [user(), assistant("msg_1000")]) == "initial"


def test_the_newest_completed_compaction_names_the_epoch(shim, sidecar):
    older, newer = compaction(2000), compaction(3000)

    assert epoch_of(shim, sidecar, older) == "2000"
    # The host puts the newest head first; an older pair may stand in the tail that it kept.
    assert epoch_of(shim, sidecar, [*newer, user(), *older, user(created=4000)]) == "3000"


@pytest.mark.parametrize(
    "outcome", [{"error": {"name": "MessageAbortedError"}}, {"finish": None}, {"summary": {}}]
)
def test_a_compaction_that_did_not_complete_moves_nothing(shim, sidecar, outcome):
    history = [user(), *compaction(2000, **outcome)]

    assert epoch_of(shim, sidecar, history) == "initial"


def test_a_retried_compaction_that_swallowed_a_prompt_moves_nothing(shim, sidecar):
    swallowed = user("a prompt", created=2000)
    summary = assistant("msg_2000", "summary", summary=True, finish="stop")

    assert epoch_of(shim, sidecar, [user(), swallowed, summary]) == "initial"


def test_a_compaction_without_a_time_makes_the_epoch_unknown(shim, sidecar):
    history = compaction(2000)
    del history[0]["info"]["time"]

    assert epoch_of(shim, sidecar, history) is None


# The compaction request, which must not have memory in it.


def begin_compaction(shim, session: str = "ses_1") -> None:
    shim.hook("experimental.session.compacting", input={"sessionID": session})


def test_the_compaction_request_is_skipped_and_the_next_one_is_not(shim, sidecar):
    begin_compaction(shim)

    assert shim.transform([user()])["messages"] == [user()]
    assert sidecar.requests == []
    assert len(shim.transform([user()])["messages"]) == 2


def test_another_session_s_request_is_not_skipped(shim, sidecar):
    begin_compaction(shim, "ses_2")

    assert len(shim.transform([user()])["messages"]) == 2


def test_an_empty_compaction_request_does_not_cost_the_next_one_its_memory(shim, sidecar):
    begin_compaction(shim)
    shim.transform([])
    shim.hook("chat.params", input={"sessionID": "ses_1", "agent": "compaction"})

    assert len(shim.transform([user()])["messages"]) == 2


def test_an_ordinary_agent_s_parameters_do_not_end_the_skip(shim, sidecar):
    begin_compaction(shim)
    shim.hook("chat.params", input={"sessionID": "ses_1", "agent": "build"})

    assert len(shim.transform([user()])["messages"]) == 1


@pytest.mark.parametrize("kind", ["session.idle", "session.error"])
def test_an_aborted_compaction_does_not_cost_the_next_request_its_memory(shim, sidecar, kind):
    begin_compaction(shim)
    shim.event(kind, sessionID="ses_1")

    assert len(shim.transform([user()])["messages"]) == 2


def test_two_instances_in_one_directory_both_skip_the_compaction_request(shim, sidecar):
    shim.load("second")
    for instance in ("first", "second"):
        shim.hook("experimental.session.compacting", instance, input={"sessionID": "ses_1"})

    for instance in ("first", "second"):
        assert len(shim.transform([user()], instance=instance)["messages"]) == 1


# The other placement


def as_part(_sidecar, connection, request):
    connection.sendall(reply(Memory_Placement="part", Memory_Session=request.session))


def test_as_a_part_memory_leads_the_user_s_first_message(shim, sidecar):
    sidecar.answer = as_part
    history = [user("one"), assistant("msg_1000"), user("two", created=1002)]

    first, *others = shim.transform(history)["messages"]

    assert others == history[1:]
    assert first["info"] == history[0]["info"]
    ours, *theirs = first["parts"]
    assert theirs == history[0]["parts"]
    assert (ours["type"], ours["text"], ours["synthetic"]) == ("text", TEXT, True)
    assert ours["messageID"] == first["info"]["id"]


def test_as_a_part_memory_is_in_no_message_object_of_the_host_s(shim, sidecar):
    sidecar.answer = as_part

    assert shim.send("owned", instance="first", messages=[user()])["messages"] == [user()]


def test_as_a_part_memory_passes_over_what_stands_before_the_user_s_first_message(shim, sidecar):
    sidecar.answer = as_part
    kept_tail = assistant("msg_kept")

    messages = shim.transform([kept_tail, user("two")])["messages"]

    assert messages[0] == kept_tail
    assert messages[1]["parts"][0]["text"] == TEXT


def test_as_a_part_memory_is_a_message_where_the_user_has_none(shim, sidecar):
    sidecar.answer = as_part

    messages = shim.transform([assistant("msg_kept")])["messages"]

    assert [message["info"]["role"] for message in messages] == ["user", "assistant"]
    assert messages[0]["parts"][0]["text"] == TEXT


def test_a_placement_stays_while_the_sidecar_is_away(shim, sidecar):
    sidecar.answer = as_part
    first = shim.transform([user()])["messages"]
    sidecar.stop()

    assert shim.transform([user()])["messages"] == first
    ours, theirs = shim.transform([*compaction(3000), user()])["messages"][0]["parts"]
    assert (ours["text"], theirs["type"]) == (TEXT, "compaction")


def test_a_second_copy_sees_a_part_of_the_first(shim, sidecar):
    sidecar.answer = as_part
    messages = shim.transform([user()])["messages"]
    shim.load("copy", query="?copy")

    assert shim.transform(messages, instance="copy")["messages"] == messages
