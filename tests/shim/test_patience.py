"""How long what goes wrong may last, and what is tried again: by the shim's own clock, hurried."""

from __future__ import annotations

import json
import sys
import time

import pytest

from ..process import until
from .history import inserted, user
from .stub import TEXT, after, reply, then_stall, whole

HURRY = 10


@pytest.fixture
def shim(start_shim):
    return start_shim(HURRY=str(HURRY))


@pytest.fixture
def launcher(home):
    """Record a program that is no sidecar; the file tells how often it was started."""
    folder = home / "data/opencode/agent-memory"
    folder.mkdir(parents=True, exist_ok=True)
    starts = home / "starts"
    starts.touch()

    def record(then: str):
        script = f"open({str(starts)!r}, 'a').write('x'); {then}"
        command = [sys.executable, "-S", "-c", script]
        (folder / "launcher.json").write_text(json.dumps({"version": "1", "command": command}))
        return lambda: len(starts.read_text())

    return record


HANGS = "import time; time.sleep(3)"
ENDS = "raise SystemExit(1)"


def call(shim):
    return shim.send("tool", instance="first", name="memory_list", args={})


def test_a_tool_call_waits_for_a_writer_that_takes_ten_seconds(shim, sidecar):
    sidecar.answer = after(10 / HURRY, whole(reply(body=b"Done.", ETag=None)))

    assert call(shim)["result"]["output"] == "Done."


def test_a_tool_call_waits_for_a_hung_sidecar_no_longer_than_that_takes(shim, sidecar):
    sidecar.answer = then_stall()

    outcome = call(shim)

    assert "did not answer in time" in outcome["threw"]
    assert outcome["elapsed"] < 30_000


def test_a_session_s_first_request_waits_five_seconds_for_a_sidecar_to_start_and_the_next_does_not(
    shim, launcher
):
    launcher(HANGS)

    first = shim.transform([user()])
    second = shim.transform([user(session="ses_2")])

    assert inserted(first) is inserted(second) is None
    assert 5_000 <= first["elapsed"] < 15_000
    assert second["elapsed"] < 4_000


def test_bytes_at_hand_wait_for_no_sidecar_to_start_and_another_session_does_all_the_same(
    shim, launcher, sidecar
):
    shim.transform([user()])
    sidecar.stop()
    launcher(HANGS)

    held = shim.transform([user()])
    assert inserted(held) == TEXT
    assert held["elapsed"] < 4_000
    assert shim.transform([user(session="ses_2")])["elapsed"] >= 4_000


def test_beside_a_sidecar_that_hangs_no_other_one_is_started(shim, launcher, sidecar):
    starts = launcher(ENDS)
    sidecar.answer = then_stall()

    assert shim.transform([user()])["elapsed"] < 4_000
    assert starts() == 0


def test_a_launcher_that_fails_is_tried_again_after_half_a_minute_and_not_before(shim, launcher):
    starts = launcher(ENDS)
    began = time.monotonic()
    until(lambda: shim.transform([user()]) and starts() == 2, "the second start")

    assert (time.monotonic() - began) * HURRY >= 30


def test_the_host_s_end_waits_two_seconds_for_a_sidecar_to_start(shim, launcher):
    launcher(HANGS)
    begun = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "time": {"created": 1}}
    shim.event("message.updated", info=begun)
    shim.event("message.updated", info={**begun, "time": {"created": 1, "completed": 2}})

    assert 2_000 <= shim.hook("dispose")["elapsed"] < 10_000
