"""A sidecar that is away, hung, or talking nonsense: the prompt goes through, the head stays."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from .history import compaction, inserted, user
from .stub import (
    TEXT,
    after,
    error,
    no_content,
    not_modified,
    reply,
    then_close,
    then_stall,
    whole,
)

HELD_MS, BARE_MS, SLACK_MS = 500, 2000, 1500

UNUSABLE = {
    "a broken status line": whole(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    "another HTTP": whole(reply().replace(b"HTTP/1.1", b"HTTP/2")),
    "half a head": then_close(reply()[:40]),
    "half a body": then_close(reply()[:-10]),
    "nothing at all": then_close(b""),
    "two replies": whole(reply() + reply()),
    "a body longer than it says": whole(reply() + b"x"),
    "a body behind a 204": whole(no_content() + b"x"),
    "chunks": whole(reply(Transfer_Encoding="chunked", Content_Length=None)),
    "chunks and a length": whole(reply(Transfer_Encoding="chunked")),
    "no length": whole(reply(Content_Length=None)),
    "a length that is no number": whole(reply(Content_Length=f"{len(TEXT.encode())}.0")),
    "a length beyond the limit": whole(reply(Content_Length=str(4 * 1024 * 1024 + 1))),
    "a head beyond the limit": then_stall(reply()[:20] + b"x" * 17 * 1024),
    "a whole head beyond the limit": whole(reply(Filler="x" * 17 * 1024)),
    "no protocol": whole(reply(Memory_Protocol=None)),
    "another protocol": whole(reply(Memory_Protocol="2")),
    "another session's": whole(reply(Memory_Session="ses_2")),
    "no session's": whole(reply(Memory_Session=None)),
    "no ETag": whole(reply(ETag=None)),
    "an ETag that is none": whole(reply(ETag="1")),
    "HTML": whole(reply(body=b"<html>hello</html>")),
    "a byte order mark before the marker": whole(reply(body=f"\ufeff{TEXT}".encode())),
    "text that is not UTF-8": whole(reply(body=TEXT.encode() + b"\xff")),
    "nothing new to who has nothing": whole(not_modified()),
    "an error": whole(error("500 Internal Server Error", "The disk is full.")),
    "an error that is no JSON": whole(reply("500 Internal Server Error", b'{"error": {"mess')),
    "a redirection": whole(reply("302 Found", b"")),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_unusable_reply_leaves_the_messages_alone_and_is_told_once(shim, sidecar, kind):
    sidecar.answer = UNUSABLE[kind]
    for _ in range(3):
        result = shim.transform([user()])
        assert result["messages"] == [user()]
        assert result["elapsed"] < HELD_MS

    (line,) = shim.logs()
    assert line.startswith("The memory sidecar ")


@pytest.mark.parametrize("kind", sorted(UNUSABLE.keys() - {"nothing new to who has nothing"}))
def test_with_bytes_held_an_unusable_reply_does_not_move_the_head(shim, sidecar, kind):
    shim.transform([user()])
    sidecar.answer = UNUSABLE[kind]
    for _ in range(2):
        assert inserted(shim.transform([user()])) == TEXT
    assert len(shim.logs()) == 1

    sidecar.answer = whole()
    assert inserted(shim.transform([user()])) == TEXT
    assert shim.logs()[1:] == ["The memory sidecar answers again."]


@pytest.mark.parametrize("status_line", [b"HTTP/2 200", b"SSH-2.0-OpenSSH_9.9"])
def test_something_else_that_listens_there_is_told_as_such(shim, sidecar, status_line):
    sidecar.answer = whole(reply().replace(b"HTTP/1.1 200 OK", status_line))
    shim.transform([user()])

    assert "it is not HTTP/1.1" in shim.logs()[0]


STALLS = {"never": then_stall(), "after the head": then_stall(reply()[:-20])}


@pytest.mark.parametrize("kind", STALLS)
def test_a_hung_sidecar_costs_one_deadline_and_then_nothing(shim, sidecar, kind):
    sidecar.answer = STALLS[kind]

    first = shim.transform([user()])
    second = shim.transform([user()])

    assert first["messages"] == second["messages"] == [user()]
    assert first["elapsed"] < BARE_MS + SLACK_MS
    assert second["elapsed"] < HELD_MS
    assert len(sidecar.requests) == 1
    (line,) = shim.logs()
    assert "did not answer in time" in line


def test_with_bytes_held_a_hung_sidecar_does_not_move_the_head(shim, sidecar):
    shim.transform([user()])
    sidecar.answer = then_stall()

    first = shim.transform([user()])
    second = shim.transform([user()])

    assert inserted(first) == inserted(second) == TEXT
    assert first["elapsed"] < HELD_MS + SLACK_MS
    assert len(sidecar.requests) == 2
    assert len(shim.logs()) == 1


def test_many_sessions_at_a_hung_sidecar_wait_one_deadline_and_not_one_each(shim, sidecar):
    sidecar.answer = then_stall()

    results = shim.transform_together([f"ses_{n}" for n in range(12)])

    assert all(inserted(result) is None for result in results)
    assert max(result["elapsed"] for result in results) < BARE_MS + SLACK_MS
    assert len(shim.logs()) == 1


def test_without_a_sidecar_the_prompt_goes_through_and_one_line_says_so(shim):
    for n in range(5):
        result = shim.transform([user(session=f"ses_{n}")])
        assert result["messages"] == [user(session=f"ses_{n}")]
        assert result["elapsed"] < HELD_MS

    (line,) = shim.logs()
    assert "endpoint.json" in line
    assert "opencode-memory start" in line


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_sidecar_that_stays_away_costs_the_host_no_descriptors(shim, sidecar, home):
    (home / "data/opencode/agent-memory/launcher.json").write_text("{}")
    shim.transform([user()])
    sidecar.stop()
    descriptors = Path(f"/proc/{shim.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    shim.transform([user()], times=100)

    assert len(list(descriptors.iterdir())) < before + 50


def test_a_killed_sidecar_is_told_once_and_its_return_once(shim, start_sidecar):
    first = start_sidecar()
    shim.transform([user()])
    first.stop()
    for _ in range(3):
        assert inserted(shim.transform([user()])) == TEXT
    start_sidecar()
    for _ in range(3):
        assert inserted(shim.transform([user()])) == TEXT

    gone, back = shim.logs()
    assert "cannot be reached" in gone
    assert back == "The memory sidecar answers again."


def test_memory_that_comes_late_is_inserted_once_and_for_all_and_told(shim, start_sidecar):
    assert inserted(shim.transform([user()])) is None
    sidecar = start_sidecar()
    assert inserted(shim.transform([user()])) == TEXT
    sidecar.stop()
    assert inserted(shim.transform([user()])) == TEXT

    assert "Memory joined session ses_1" in shim.logs()[2]
    assert len(shim.logs()) == 4


def test_memory_that_was_there_from_the_start_is_not_called_late(shim, start_sidecar):
    shim.transform([user()])
    start_sidecar()
    shim.transform([user(session="ses_2")])

    assert not any("joined" in line for line in shim.logs())


def test_a_decision_to_insert_nothing_that_comes_late_is_not_called_memory(shim, start_sidecar):
    shim.transform([user()])
    start_sidecar().answer = whole(no_content())
    assert shim.transform([user()])["messages"] == [user()]

    assert not any("joined" in line for line in shim.logs())


def test_after_a_compaction_without_a_sidecar_the_bytes_held_go_on_until_it_answers(
    shim, start_sidecar
):
    sidecar = start_sidecar()
    shim.transform([user()])
    sidecar.stop()
    assert inserted(shim.transform(compaction(2000))) == TEXT
    assert inserted(shim.transform(compaction(2000))) == TEXT

    sidecar = start_sidecar()
    sidecar.answer = whole(reply(body=f"{TEXT}new".encode()))
    assert inserted(shim.transform(compaction(2000))) == TEXT + "new"
    assert "If-None-Match" not in sidecar.requests[0].headers


def test_memory_that_takes_a_while_is_waited_for_where_it_is_new(shim, start_sidecar):
    assert inserted(shim.transform([user()])) is None
    sidecar = start_sidecar()
    sidecar.answer = after(0.8, whole())
    assert inserted(shim.transform([user()])) == TEXT
    sidecar.answer = after(0.8, whole(reply(body=f"{TEXT}new".encode())))
    assert inserted(shim.transform(compaction(2000))) == TEXT + "new"


def test_an_unknown_epoch_uses_what_is_held(shim, sidecar):
    shim.transform([user()])
    sidecar.stop()

    messages = shim.transform([user(), {}])["messages"]
    assert messages[0]["parts"][0]["text"] == TEXT


def test_a_new_epoch_asks_for_its_bytes_anew(shim, sidecar):
    shim.transform([user()])
    shim.transform(compaction(2000))

    assert "If-None-Match" not in sidecar.requests[1].headers
    assert sidecar.requests[1].body["epoch"] == "2000"


def test_a_refusal_is_told_in_the_sidecar_s_own_words_cut_to_size(shim, sidecar):
    sidecar.answer = whole(error("400 Bad Request", "No such thing.\n" + "x" * 1000))
    shim.transform([user()])

    (line,) = shim.logs()
    assert "No such thing." in line
    assert len(line) < 400
    assert "\n" not in line


def test_one_session_s_refusals_do_not_flood_the_log_between_another_s_answers(shim, sidecar):
    def answer(_sidecar, connection, request):
        refused = request.session == "ses_1"
        data = error("500 Internal Server Error", "Torn.")
        connection.sendall(data if refused else reply(Memory_Session=request.session))

    sidecar.answer = answer
    for session in itertools.chain(*[("ses_1", "ses_2")] * 3):
        shim.transform([user(session=session)])

    assert len(shim.logs()) == 1


def test_what_fails_again_after_it_had_mended_is_told_again(shim, sidecar):
    refused = whole(error("500 Internal Server Error", "Torn."))
    unusable = whole(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    for answer in (refused, unusable, whole(), refused):
        sidecar.answer = answer
        shim.transform([user()])

    told = [line for line in shim.logs() if "Torn." in line]
    assert len(told) == 2


def test_another_protocol_s_sidecar_says_how_to_mend_it(shim, sidecar):
    data = error("501 Not Implemented", "Run `opencode-memory install`.")
    sidecar.answer = whole(data.replace(b"Memory-Protocol: 1", b"Memory-Protocol: 2"))
    for n in range(3):
        shim.transform([user(session=f"ses_{n}")])

    (line,) = shim.logs()
    assert "Run `opencode-memory install`." in line


@pytest.mark.parametrize("client", ["throwing", "rejecting"])
def test_a_broken_logger_does_no_harm(start_shim, client):
    shim = start_shim(client)

    assert shim.transform([user()])["messages"] == [user()]
    assert shim.close() == 0


def test_an_event_that_is_refused_is_told(shim, sidecar):
    sidecar.answer = whole(error("400 Bad Request", "No such event."))
    shim.event("session.compacted", sessionID="ses_1")

    (line,) = shim.logs()
    assert "No such event." in line


def test_an_event_that_cannot_be_sent_is_told_once_and_harms_nothing(shim):
    for _ in range(3):
        result = shim.event("session.compacted", sessionID="ses_1")
        assert result["elapsed"] < HELD_MS

    (line,) = shim.logs()
    assert line.startswith("The memory sidecar cannot be reached")
