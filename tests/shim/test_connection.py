"""One connection, and what is said on it."""

from __future__ import annotations

import json
import os
import re
import sys
import time

import pytest

from ..process import Child, until
from .history import assistant, compaction, inserted, user
from .stub import (
    MARKER,
    TEXT,
    TOKEN,
    after,
    byte_by_byte,
    error,
    honest,
    no_content,
    publish,
    reply,
    then_close,
    then_stall,
    when_asked_again,
    whole,
)


def test_the_request_carries_ids_and_small_facts(start_shim, sidecar, home):
    shim = start_shim(OPENCODE_CONFIG_DIR="own-config")
    shim.transform([user()])

    (request,) = sidecar.requests
    assert request.line == "POST /v1/snapshot HTTP/1.1"
    assert request.headers == {
        "Host": "localhost",
        "Memory-Protocol": "1",
        "Content-Type": "application/json",
        "Content-Length": str(len(json.dumps(request.body, separators=(",", ":")))),
    }
    body = request.body
    assert re.fullmatch("[0-9a-f]{64}", body.pop("origin"))
    assert body == {
        "session_id": "ses_1",
        "parent_id": None,
        "epoch": "initial",
        "directory": str(home / "work"),
        "config_directories": [
            str(home / "config" / "opencode"),
            str(home / "work" / "own-config"),
        ],
    }


def test_the_origin_is_the_same_in_a_fork_and_in_no_other_session(shim, sidecar):
    sidecar.answer = whole(error("500 Internal Server Error", "Never held."))
    original = [user("hello"), assistant("msg_1000"), user("more", created=2000)]
    fork = [user("hello", session="ses_2", id="msg_copied")]
    for history in (
        original,
        fork,
        [user("other", session="ses_3")],
        [user("hello", session="ses_4", created=1001)],
        [*compaction(3000), user("hello", session="ses_5")],
    ):
        shim.transform(history)
    first, copied, *others = (request.body["origin"] for request in sidecar.requests)
    assert copied == first
    assert len({first, *others}) == 4


def test_the_origin_is_that_of_its_forks_once_the_epoch_shows(shim, sidecar):
    for history in ([user(), {}], [user()], [user(session="ses_2", id="msg_copied")]):
        shim.transform(history)

    _, shown, fork = (request.body["origin"] for request in sidecar.requests)
    assert shown == fork


def test_a_session_s_origin_stays_until_its_epoch_or_its_first_message_changes(shim, sidecar):
    undone = user("another", id="msg_later", created=4000)
    for history in ([user()], [user("edited")], [undone], [*compaction(3000), user()]):
        shim.transform(history)
    first, second, *others = (request.body["origin"] for request in sidecar.requests)
    assert first == second
    assert len({first, *others}) == 3


def test_an_epoch_that_began_while_the_sidecar_was_away_says_with_which_bytes(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = whole(error("500 Internal Server Error", "Away."))
    for created in (3000, 4000, 4000):
        assert inserted(shim.transform([*compaction(created), user()])) == TEXT
    sidecar.answer = whole()
    shim.transform([*compaction(4000), user()])
    shim.transform([*compaction(5000), user()])

    began = [request.body.get("began") for request in sidecar.requests]
    assert began == [None, None, None, '"1"', '"1"', None]


def test_a_subagent_s_parent_is_known_from_its_creation_or_asked_for_once(shim, sidecar):
    shim.event("session.created", info={"id": "ses_1", "parentID": "ses_parent"}, sessionID="ses_1")
    shim.transform([user()])
    shim.load("asking", parents={"ses_2": "ses_parent", "ses_3": None})
    for session in ("ses_2", "ses_2", "ses_3", "ses_unknown"):
        shim.transform([user(session=session)], instance="asking")
    parents = [request.body["parent_id"] for request in sidecar.requests]
    assert parents == ["ses_parent", "ses_parent", "ses_parent", None, None]
    asked = shim.send("asked", instance="asking")["asked"]
    assert asked == ["ses_2", "ses_3", "ses_unknown"]


def test_a_host_that_could_not_tell_the_parent_is_asked_again(shim, sidecar):
    shim.load("asking", parents={})
    for _ in range(2):
        shim.transform([user()], instance="asking")

    assert shim.send("asked", instance="asking")["asked"] == ["ses_1", "ses_1"]


def test_a_host_that_never_tells_the_parent_holds_nothing_up_for_long(shim, sidecar):
    shim.load("silent", parents="never")
    result = shim.transform([user()], instance="silent")
    assert inserted(result) == TEXT
    assert 400 < result["elapsed"] < 2000


def test_config_directories_default_to_the_home_and_are_named_once(start_shim, sidecar, home):
    own = str(home / ".config" / "opencode")
    shim = start_shim(XDG_CONFIG_HOME="", OPENCODE_CONFIG_DIR=own + "/")
    shim.transform([user()])

    assert sidecar.requests[0].body["config_directories"] == [own]


def test_the_endpoint_is_found_below_the_home_by_default(start_shim, sidecar, home):
    (home / ".local").mkdir()
    (home / "data").rename(home / ".local" / "share")
    shim = start_shim(XDG_DATA_HOME="")

    assert inserted(shim.transform([user()])) == TEXT


def test_the_history_does_not_travel(shim, sidecar):
    shim.transform([user("x" * 1024, session="ses_1")])
    shim.transform([user("x" * 4 * 1024 * 1024, session="ses_2")])

    small, large = (len(request.raw) for request in sidecar.requests)
    assert abs(large - small) <= 64


def test_a_thousand_requests_use_one_connection(shim, sidecar):
    sidecar.answer = honest()

    result = shim.transform([user()], times=1000)

    assert inserted(result) == TEXT
    assert len(sidecar.requests) == 1000
    assert sidecar.connections == 1


def test_bytes_already_held_are_confirmed_and_not_sent_again(shim, sidecar):
    sidecar.answer = honest()
    shim.transform([user()])
    shim.transform([user()])

    first, second = sidecar.requests
    assert "If-None-Match" not in first.headers
    assert "If-None-Match" in second.headers


def test_a_message_that_hides_the_epoch_costs_no_bytes_already_held(shim, sidecar):
    sidecar.answer = honest()
    odd = {}
    for history in ([user()], [user(), odd], compaction(2000)):
        shim.transform(history)
    for history in ([user(session="ses_2"), odd], [user(session="ses_2")]):
        shim.transform(history)

    confirmed = ["If-None-Match" in request.headers for request in sidecar.requests]
    assert confirmed == [False, True, False, False, True]


def test_new_bytes_for_a_known_session_replace_the_old_ones(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = whole(reply(body=(TEXT + "more").encode(), ETag='"2"'))

    assert inserted(shim.transform([user()])) == TEXT + "more"


def test_over_tcp_the_token_goes_along(shim, start_sidecar):
    sidecar = start_sidecar("tcp")

    assert inserted(shim.transform([user()])) == TEXT
    headers = sidecar.requests[0].headers
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("name", [None, "another"])
def test_over_tcp_who_was_given_a_dead_sidecar_s_port_is_not_believed(shim, start_sidecar, name):
    start_sidecar("tcp").answer = whole(reply(Memory_Instance=name))

    assert inserted(shim.transform([user()])) is None
    assert "not from the sidecar that published the endpoint" in shim.logs()[0]


def test_over_tcp_the_real_sidecar_is_believed(start_shim, env, home):
    command = [sys.executable, "-P", "-m", "sidecar", "serve", "--transport", "tcp"]
    child = Child(command, {**env, "XDG_RUNTIME_DIR": str(home)}, home, home / "sidecar.log")
    try:
        endpoint = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
        until(endpoint.exists, "the endpoint")
        shim = start_shim()
        assert inserted(shim.transform([user()])).startswith(MARKER)
        called = shim.send("tool", instance="first", name="memory_list", args={})
        assert "There is no memory block" in called["result"]["output"]
        assert shim.logs() == []
    finally:
        child.end()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_reply_may_come_byte_by_byte(shim, start_sidecar, kind):
    start_sidecar(kind).answer = byte_by_byte()

    assert inserted(shim.transform([user()])) == TEXT


def test_a_large_memory_arrives_whole(shim, sidecar):
    text = TEXT + "記憶" * 500_000
    sidecar.answer = whole(reply(body=text.encode()))

    assert inserted(shim.transform([user()])) == text


def test_a_byte_order_mark_behind_the_marker_survives(shim, sidecar):
    text = TEXT + "\ufeffend\r\n\0"
    sidecar.answer = whole(reply(body=text.encode()))

    assert inserted(shim.transform([user()])) == text


def test_proxy_variables_change_nothing(start_shim, start_sidecar):
    dead = "http://127.0.0.1:9"
    proxies = {name: dead for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy")}
    shim = start_shim(**proxies)

    for kind in ("unix", "tcp"):
        sidecar = start_sidecar(kind)
        assert inserted(shim.transform([user(session=f"ses_{kind}")])) == TEXT
        sidecar.stop()


def test_sessions_in_parallel_each_get_their_own_bytes(shim, sidecar):
    sidecar.answer = honest(lambda request: TEXT + request.body["session_id"])
    sessions = [f"ses_{n}" for n in range(12)]

    for _ in range(3):
        results = shim.transform_together(sessions)
        assert [inserted(result) for result in results] == [TEXT + session for session in sessions]
    assert sidecar.connections == 1


def test_several_directories_of_one_process_share_the_connection(shim, sidecar):
    shim.load("second", directory="/elsewhere")
    shim.transform([user()])
    shim.transform([user(session="ses_2")], instance="second")

    assert sidecar.connections == 1
    assert sidecar.requests[1].body["directory"] == "/elsewhere"


def test_a_connection_that_was_closed_while_idle_is_made_anew(shim, sidecar):
    shim.transform([user()])
    sidecar.hang_up()

    assert inserted(shim.transform([user(session="ses_2")])) == TEXT
    assert shim.logs() == []


def test_a_reused_connection_that_dies_silently_costs_one_retry(shim, sidecar):
    shim.transform([user()])
    fresh = sidecar.connections + 1

    def close_old(_sidecar, connection, request):
        if request.connection == fresh:
            connection.sendall(reply(Memory_Session=request.session))
        else:
            then_close(b"")(_sidecar, connection, request)

    sidecar.answer = close_old

    assert inserted(shim.transform([user(session="ses_2")])) == TEXT
    assert shim.logs() == []


def test_there_is_one_retry_and_no_more(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = then_close(b"")

    assert inserted(shim.transform([user(session="ses_2")])) is None
    assert len(sidecar.requests) == 3


def test_a_fresh_connection_that_dies_is_not_retried(shim, sidecar):
    sidecar.answer = then_close(b"")

    assert inserted(shim.transform([user()])) is None
    assert len(sidecar.requests) == 1


def test_a_reply_that_had_begun_is_not_retried(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = then_close(reply()[:30])

    assert inserted(shim.transform([user(session="ses_2")])) is None
    assert len(sidecar.requests) == 2


def test_a_killed_and_restarted_sidecar_is_found_at_its_new_endpoint(shim, start_sidecar):
    first = start_sidecar()
    shim.transform([user()])
    first.stop()
    second = start_sidecar()

    assert inserted(shim.transform([user()])) == TEXT
    assert inserted(shim.transform([user(session="ses_2")])) == TEXT
    assert len(second.requests) == 2
    assert shim.logs() == []


@pytest.mark.parametrize("then", [then_close, then_stall], ids=["at once", "late"])
def test_a_sidecar_that_asks_to_close_gets_a_new_connection_next_time(shim, sidecar, then):

    def close(sidecar, connection, request):
        data = reply(Connection="close", Memory_Session=request.session)
        then(data)(sidecar, connection, request)

    sidecar.answer = close

    for session in ("ses_1", "ses_2"):
        assert inserted(shim.transform([user(session=session)])) == TEXT
    assert [request.connection for request in sidecar.requests] == [1, 2]


def test_what_comes_unasked_ends_the_connection_and_is_no_reply(shim, sidecar):
    sidecar.answer = honest(lambda request: TEXT + request.body["session_id"])
    shim.transform([user(session="ses_1")])

    sidecar.say(reply())
    sidecar.wait_for_close()

    assert inserted(shim.transform([user(session="ses_2")])) == TEXT + "ses_2"
    assert shim.logs() == []


@pytest.mark.parametrize(
    ("history", "due"),
    [([user(session="ses_2")], "ses_2 initial"), (compaction(2000), "ses_1 2000")],
    ids=["another session", "another epoch"],
)
def test_a_late_reply_is_not_taken_for_the_next_one(shim, sidecar, history, due):
    """A missed deadline ends the connection, so what was due on it is gone."""
    answer = honest(lambda request: f"{TEXT}{request.session} {request.body['epoch']}")
    sidecar.answer = answer
    held = inserted(shim.transform([user()]))
    sidecar.answer = when_asked_again(reply(body=(TEXT + "late").encode()))
    assert inserted(shim.transform([user()])) == held

    # The shim asks again some five seconds later.
    sidecar.answer = answer
    give_up = time.monotonic() + 15
    while (text := inserted(shim.transform(history))) in (None, held):
        assert time.monotonic() < give_up
        sidecar.stopped.wait(0.05)

    assert text == TEXT + due


def test_a_request_that_gave_up_in_the_queue_is_not_sent(shim, sidecar):
    answer = honest()
    sidecar.answer = answer
    shim.transform([user(session="ses_1")])
    # Within the deadline of ses_2, which comes first, and beyond that of ses_1, which holds bytes.
    sidecar.answer = after(0.8, answer)

    results = shim.transform_together(["ses_2", "ses_1"])
    shim.transform([user(session="ses_3")])

    assert [inserted(result) for result in results] == [TEXT, TEXT]
    asked = [request.body["session_id"] for request in sidecar.requests]
    assert asked == ["ses_1", "ses_2", "ses_3"]


def test_an_idle_connection_does_not_keep_the_process_alive(shim, sidecar):
    shim.transform([user()])

    began = time.monotonic()
    assert shim.close() == 0
    assert time.monotonic() - began < 1.5  # nor does the timer of a request that was answered


def test_a_request_under_way_is_waited_for(shim, sidecar):
    def answer(sidecar, connection, request):
        shim.process.stdin.close()
        after(0.5, whole())(sidecar, connection, request)

    sidecar.answer = answer

    assert inserted(shim.transform([user()])) == TEXT
    assert shim.process.wait(10) == 0


def test_events_are_sent_as_they_come(shim, sidecar):
    sidecar.answer = whole(no_content())
    shim.event("session.compacted", sessionID="ses_1")
    shim.event("session.deleted", info={"id": "ses_2"})
    shim.event("session.deleted", sessionID="ses_3", info={"id": "ses_3"})
    shim.event("session.idle", sessionID="ses_1")
    shim.event("message.updated", sessionID="ses_1", info={"id": "msg_1"})

    assert {request.line for request in sidecar.requests} == {"POST /v1/events HTTP/1.1"}
    assert [event for request in sidecar.requests for event in request.body["events"]] == [
        {"type": "compacted", "session_id": "ses_1"},
        {"type": "deleted", "session_id": "ses_2"},
        {"type": "deleted", "session_id": "ses_3"},
    ]
    assert shim.logs() == []


def test_a_deleted_session_s_bytes_are_dropped(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = whole(no_content())
    shim.event("session.deleted", sessionID="ses_1")
    sidecar.stop()

    assert inserted(shim.transform([user()])) is None


EVENT = {"event": {"type": "session.deleted", "properties": {"sessionID": "ses_1"}}}
SEND_EVENT = {"instance": "first", "name": "event", "input": EVENT}
DISPOSE = {"instance": "first", "name": "dispose"}


def test_dispose_waits_for_events_and_closes_the_connection(shim, sidecar):
    sidecar.answer = after(0.3, whole(no_content()))

    sent, disposed = shim.send("together", calls=[SEND_EVENT, DISPOSE])

    assert sent["finished"] < disposed["finished"]
    sidecar.wait_for_close()
    assert shim.logs() == []


def test_dispose_waits_a_bounded_time(shim, sidecar):
    sidecar.answer = then_stall()

    _, disposed = shim.send("together", calls=[SEND_EVENT, DISPOSE])

    assert disposed["threw"] is None
    assert disposed["elapsed"] < 2500


def test_dispose_of_one_directory_does_not_end_another_s_request(shim, sidecar):
    shim.load("second", directory="/elsewhere")
    sidecar.answer = after(0.3, whole())
    transform = {
        "instance": "second",
        "name": "experimental.chat.messages.transform",
        "output": {"messages": [user()]},
    }

    result, _ = shim.send("together", calls=[transform, DISPOSE])

    assert inserted(result) == TEXT


def test_the_bytes_of_256_sessions_are_held_the_least_recently_used_go_first(shim, sidecar):
    sidecar.answer = honest(lambda request: TEXT + request.body["session_id"])
    for n in range(257):
        shim.transform([user(session=f"ses_{n}")])
        if n == 255:
            shim.transform([user(session="ses_0")])
    sidecar.stop()

    assert inserted(shim.transform([user(session="ses_0")])) == TEXT + "ses_0"
    assert inserted(shim.transform([user(session="ses_2")])) == TEXT + "ses_2"
    assert inserted(shim.transform([user(session="ses_1")])) is None


def test_a_token_that_would_write_headers_of_its_own_is_not_used(shim, start_sidecar, home):
    sidecar = start_sidecar("tcp")
    shim.transform([user()])
    port = int(sidecar.requests[0].headers["Host"].split(":")[1])
    publish(home, port=port, token="ab\r\nX-Own: yes")
    sidecar.hang_up()
    sidecar.wait_for_close()

    shim.transform([user(session="ses_2")])

    assert len(sidecar.requests) == 1
    assert "no endpoint in" in shim.logs()[0]


def test_an_endpoint_file_that_names_nothing_usable_is_as_good_as_none(shim, home):
    file = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
    publish(home)
    contents = [
        file.read_text(),
        "",
        "{",
        "null",
        "[]",
        '{"socket": 5}',
        '{"port": 80}',
        '{"port": 99999999, "token": "ab"}',
    ]
    for content in contents:
        file.write_text(content)
        assert inserted(shim.transform([user()])) is None
    file.write_bytes(b"\xff\xfe\0")
    assert inserted(shim.transform([user()])) is None
    file.unlink()
    os.mkfifo(file)
    assert inserted(shim.transform([user()])) is None

    (line,) = shim.logs()
    assert "opencode-memory start" in line
