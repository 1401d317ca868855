"""The shim starts the real sidecar where none runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapshots.ledger import read_steps
from snapshots.marker import MARKER

from ..process import until
from .conftest import transform_in_many
from .history import inserted, user


@pytest.fixture
def launcher(home, env):
    """Record a launcher as `install` does; end what it has started."""
    file = home / "data" / "opencode" / "agent-memory" / "launcher.json"
    file.parent.mkdir(parents=True)

    def record(*command):
        file.write_text(json.dumps({"version": "0.1.0", "command": command}))

    yield record
    command = [sys.executable, "-P", "-m", "sidecar", "stop"]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=30)


REAL = (sys.executable, "-P", "-m", "sidecar", "serve", "--background")


def test_the_first_request_waits_for_the_sidecar_that_it_started(shim, launcher):
    launcher(*REAL)
    for _ in range(2):
        assert inserted(shim.transform([user()])).startswith(MARKER)
    assert shim.logs() == ["The memory sidecar was not running; it has been started."]


def test_of_the_sidecars_of_twenty_shims_at_once_one_lives(env, home, launcher):
    launcher(*REAL)
    texts = transform_in_many(20, env, home / "work")
    assert len(texts) == 1
    assert texts.pop().startswith(MARKER)
    log = home / "state" / "opencode-memory" / "log" / "sidecar.log"
    assert log.read_text().count(" listens on ") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["/nowhere/python"],
        [sys.executable, "-c", "raise SystemExit(1)"],
        ["python3", "-c", "open('found-on-path', 'w')"],
        ["./python3", "-c", "open('found-here', 'w')"],
        [],
        ["/bin/sh", 1],
    ],
)
def test_a_launcher_that_does_not_start_one_costs_the_memory_and_nothing_else(
    shim, launcher, home, command
):
    launcher(*command)
    for _ in range(3):
        result = shim.transform([user()])
        assert result["messages"] == [user()]
        assert result["elapsed"] < 4000
    assert result["elapsed"] < 1000
    assert any("opencode-memory start" in line for line in shim.logs())
    assert not list(home.rglob("found-*"))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/python"], "/nowhere/python"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "it ended with 3"),
    ],
)
def test_a_launcher_that_fails_is_not_waited_for_and_says_why(shim, launcher, command, reason):
    launcher(*command)

    assert shim.transform([user()])["elapsed"] < 4000
    (line,) = shim.toasts()
    assert "did not start" in line
    assert reason in line


def test_what_is_started_belongs_to_no_project_and_no_terminal(shim, launcher, home):
    facts = "[os.getcwd(), os.getsid(0) == os.getpid()] + [os.fstat(n).st_rdev for n in range(3)]"
    file = home / "facts"
    script = f"import json, os; said = json.dumps({facts}); open({str(file)!r}, 'w').write(said)"
    launcher(sys.executable, "-c", script + "; exit(1)")
    shim.transform([user()])

    nothing = Path(os.devnull).stat().st_rdev
    until(lambda: file.exists() and file.read_text(), "the program")
    assert json.loads(file.read_text()) == [str(home), True, nothing, nothing, nothing]


def test_a_tool_call_waits_for_the_sidecar_that_it_started(shim, launcher):
    launcher(*REAL)
    called = shim.send("tool", instance="first", name="memory_list", args=None)
    assert "There is no memory block" in called["result"]["output"]


def test_a_program_that_has_started_it_and_ends_well_has_not_failed(shim, launcher):
    script = f"import subprocess; subprocess.Popen({list(REAL)!r})"
    launcher(sys.executable, "-c", script)

    assert inserted(shim.transform([user()])).startswith(MARKER)


def test_the_host_can_end_while_the_sidecar_that_it_started_goes_on(shim, launcher, home):
    launcher(*REAL)
    shim.transform([user()])

    assert shim.close() == 0
    endpoint = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
    os.kill(json.loads(endpoint.read_bytes())["pid"], 0)


def test_a_program_that_ends_badly_after_the_sidecar_answered_is_no_failure_to_start(
    shim, launcher, home
):
    answered, ending = home / "answered", home / "ending"
    script = (
        "import os, pathlib, subprocess, time\n"
        f"subprocess.Popen({list(REAL)!r})\n"
        f"while not pathlib.Path({str(answered)!r}).exists(): time.sleep(0.01)\n"
        f"pathlib.Path({str(ending)!r}).write_text(str(os.getpid()))\n"
        "raise SystemExit(1)\n"
    )
    launcher(sys.executable, "-c", script)
    assert inserted(shim.transform([user()])).startswith(MARKER)
    answered.touch()
    pid = int(until(lambda: ending.exists() and ending.read_text(), "the program to end"))
    until(lambda: is_gone(pid), "the shim to see it")

    assert shim.logs() == ["The memory sidecar was not running; it has been started."]


def is_gone(pid):
    """Whether its parent has seen its end."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_sidecar_that_ends_is_started_again_at_once(shim, launcher, env):
    launcher(*REAL)
    for session in ("ses_1", "ses_2"):
        assert inserted(shim.transform([user(session=session)])).startswith(MARKER)
        command = [sys.executable, "-P", "-m", "sidecar", "stop"]
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=30)


def test_a_sidecar_that_is_killed_while_it_starts_is_started_again_at_once(shim, launcher, home):
    flag = home / "killed"
    script = (
        "import os, pathlib, sys\n"
        f"flag = pathlib.Path({str(flag)!r})\n"
        f"if flag.exists(): os.execv(sys.executable, {list(REAL)!r})\n"
        "flag.touch()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    launcher(sys.executable, "-c", script)

    assert inserted(shim.transform([user()])).startswith(MARKER)


def test_what_the_last_step_cost_is_kept_by_a_sidecar_started_for_it(shim, launcher, home):
    launcher(*REAL)
    said = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "agent": "build"}
    begun = {**said, "time": {"created": 1_000}}
    done = {**said, "time": {"created": 1_000, "completed": 2_000}, "tokens": {"input": 7}}
    calls = [
        {"instance": "first", "name": "event", "input": message_updated(info)}
        for info in (begun, done)
    ]
    shim.send("together", calls=[*calls, {"instance": "first", "name": "dispose"}])

    ledger = home / "data" / "opencode" / "agent-memory" / "usage.sqlite3"
    assert [step.input for step in read_steps(ledger)] == [7]


def message_updated(info):
    return {"event": {"type": "message.updated", "properties": {"info": info}}}


def test_bytes_at_hand_are_used_at_once_while_the_sidecar_starts(shim, launcher, sidecar, home):
    assert inserted(shim.transform([user()]))
    sidecar.stop()
    launcher(*REAL)
    result = shim.transform([user()])
    assert inserted(result)
    assert result["elapsed"] < 500
    endpoint = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
    until(lambda: json.loads(endpoint.read_bytes())["instance"] != "stub", "the sidecar")
