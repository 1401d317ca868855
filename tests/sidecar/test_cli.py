"""The commands, as a user runs them: with a sidecar up and with none."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sidecar import __version__
from sidecar.cli import COMMANDS
from sidecar.client import connect
from sidecar.endpoint import read_endpoint
from sidecar.lock import has_owner
from sidecar.service import service_file
from sidecar.settings import Settings, log_file
from sidecar.store import open_store
from snapshots.marker import MARKER

from ..process import until, within

ENVELOPE = {"version", "command", "status", "exit_code", "data", "errors"}


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`opencode-memory ARGUMENTS`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", *arguments],
        cwd=cwd,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=40,
    )


def run_on_terminal(*arguments: str) -> bytes:
    """What the user's terminal is told by `opencode-memory ARGUMENTS`."""
    parent, child = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-P", "-m", "sidecar", *arguments],
            stdout=child,
            check=True,
            timeout=30,
        )
        return os.read(parent, 65536)
    finally:
        os.close(child)
        os.close(parent)


def run_json(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    envelope: dict[str, Any] = json.loads(done.stdout)
    assert set(envelope) == ENVELOPE
    assert envelope["version"] == 1
    assert envelope["command"] == arguments[0]
    assert envelope["exit_code"] == done.returncode
    assert done.stderr == ""
    return envelope


@pytest.fixture
def sidecar(settings: Settings) -> Iterator[None]:
    """A sidecar in the background."""
    assert run("start").returncode == 0
    yield
    assert run("stop").returncode == 0
    assert run("status").returncode == 3


@pytest.fixture(params=["up", "down"])
def sidecar_up_or_down(request: pytest.FixtureRequest) -> str:
    if request.param == "up":
        request.getfixturevalue("sidecar")
    return str(request.param)


@pytest.fixture
def snapshot(settings: Settings, tmp_path: Path) -> Callable[[str], str]:
    """Give a session its snapshot, through the sidecar if it is up, and return the text."""

    def make(session_id: str) -> str:
        if settings.endpoint_file.exists():
            asked = {"session_id": session_id, "epoch": "initial", "directory": str(tmp_path)}
            connect(settings).call("POST", "/v1/snapshot", {**asked, "config_directories": []})
        else:
            store = open_store(settings)
            store.obtain(session_id, "initial", lambda _: f"{MARKER}\nÄ ✓\n", 1.0)
        file = settings.snapshot_folder / f"{session_id}.xml"
        return file.read_bytes().partition(b"\n")[2].decode()

    return make


def test_start_stop_and_restart_do_what_they_say_and_say_what_was_so_already(
    settings: Settings,
) -> None:
    started = run_json("start")["data"]
    assert run_json("start")["data"]["instance"] == started["instance"]
    restarted = run_json("restart")["data"]
    assert restarted["instance"] != started["instance"]
    assert run_json("status")["data"]["sidecar"]["instance"] == restarted["instance"]
    assert run("stop").stdout.startswith(f"Stopped: sidecar {__version__}")
    assert run("stop").stdout == "The sidecar was not running.\n"
    assert not settings.endpoint_file.exists()


def test_a_sidecar_in_the_background_outlives_its_terminal(settings: Settings) -> None:
    script = f"{sys.executable} -P -m sidecar start; kill -HUP 0"
    subprocess.run(["sh", "-c", script], start_new_session=True, check=False, timeout=40)
    try:
        assert run("status").returncode == 0
    finally:
        run("stop")


def test_the_log_of_each_start_is_the_users_alone_and_keeps_what_was_there(
    settings: Settings,
) -> None:
    previous = os.umask(0)
    try:
        for starts in (1, 2):
            assert run("start").returncode == 0
            assert run("stop").returncode == 0
            assert log_file().read_text().count("listens on") == starts
    finally:
        os.umask(previous)
    assert stat.S_IMODE(log_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(log_file().parent.stat().st_mode) == 0o700


def test_stop_waits_for_a_request_under_way_and_for_the_lock(settings: Settings) -> None:
    assert run("start").returncode == 0
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    head = b"POST /v1/snapshot HTTP/1.1\r\nHost: localhost\r\nMemory-Protocol: 1\r\n"
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(endpoint.socket))
        slow.sendall(head + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 100 ")
        with within(8):
            assert run("stop").returncode == 0
        assert not has_owner(settings.lock_file)


def test_a_sidecar_that_cannot_start_is_a_failure_that_names_its_log(settings: Settings) -> None:
    settings.snapshot_folder.parent.mkdir(parents=True)
    settings.lock_file.mkdir()
    with within(12):
        done = run("start")
    assert done.returncode == 1
    assert "sidecar.log" in done.stderr
    log = Path(done.stderr.split("says why: ")[1].strip())
    assert "sidecar.lock" in log.read_text()


def test_status_without_a_sidecar_exits_with_3_and_names_the_commands_that_help() -> None:
    done = run("status")
    assert done.returncode == 3
    assert "opencode-memory start" in done.stdout
    assert "opencode-memory install" in done.stdout
    assert run_json("status")["data"]["running"] is False


@pytest.mark.usefixtures("sidecar")
def test_status_shows_the_sidecar_the_plugin_and_the_folders(
    settings: Settings, snapshot: Callable[[str], str]
) -> None:
    snapshot("ses_a")
    run("install")
    data = run_json("status")["data"]
    assert data["running"] is True
    assert data["sidecar"]["version"] == __version__
    assert data["sidecar"]["problems"] == []
    assert data["sessions"] == 1
    assert [shim["current"] for shim in data["shims"]] == [True]
    assert data["folders"]["data"] == str(settings.data_folder)
    assert __version__ in run("status").stdout


def test_a_stale_endpoint_is_not_taken_for_a_sidecar(settings: Settings) -> None:
    settings.data_folder.mkdir(parents=True)
    stale = {"version": "9", "protocol": 1, "instance": "dead", "pid": 1, "socket": "/nowhere"}
    settings.endpoint_file.write_text(json.dumps(stale))
    assert run("status").returncode == 3
    assert run("stop").stdout == "The sidecar was not running.\n"
    assert run("start").returncode == 0
    assert run("stop").returncode == 0


def test_whoever_answers_at_a_stale_endpoint_is_not_taken_for_a_sidecar(
    settings: Settings,
) -> None:
    settings.data_folder.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        where = {"host": "127.0.0.1", "port": listener.getsockname()[1]}
        stale = {"version": "9", "protocol": 1, "instance": "dead", "pid": 1, **where}
        settings.endpoint_file.write_text(json.dumps(stale))
        settings.endpoint_file.chmod(0o600)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n<html>")

        answered = thread.submit(answer)
        assert run("status").returncode == 3
        answered.result()


def test_where_no_service_manager_answers_start_goes_without_the_service(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that has a home with a service's file in it."""
    file = service_file(settings, sys.platform)
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setenv("PATH", "/nowhere")
    assert run("start").returncode == 0
    assert run("stop").returncode == 0


def test_a_pid_of_somebody_else_is_never_signalled(settings: Settings) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        settings.data_folder.mkdir(parents=True)
        fields = {"version": "9", "protocol": 1, "instance": "dead", "socket": "/nowhere"}
        settings.endpoint_file.write_text(json.dumps({**fields, "pid": stranger.pid}))
        for command in ("stop", "start", "restart", "stop"):
            assert run(command).returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_list_names_each_session_with_a_snapshot(snapshot: Callable[[str], str]) -> None:
    assert run("list").stdout == "No session has a snapshot.\n"
    snapshot("ses_a")
    snapshot("ses_b")
    listed = run_json("list")["data"]["sessions"]
    assert {session["session_id"] for session in listed} == {"ses_a", "ses_b"}
    assert "ses_a" in run("list").stdout


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_show_prints_the_injected_bytes_exactly(snapshot: Callable[[str], str]) -> None:
    text = snapshot("ses_a")
    command = [sys.executable, "-P", "-m", "sidecar", "show", "ses_a"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    printed = subprocess.check_output(command, env=environment)
    assert printed == text.encode()
    assert "epoch: initial\n" in run("show", "ses_a", "--meta").stdout
    assert run_json("show", "ses_a")["data"]["text"] == text


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_show_and_clear_of_what_is_not_there_say_so(snapshot: Callable[[str], str]) -> None:
    done = run("show", "ses_none")
    assert (done.returncode, done.stdout) == (1, "")
    assert "opencode-memory list" in done.stderr
    assert run_json("show", "ses_none")["errors"][0]["code"] == "session_not_found"
    cleared = run("clear", "ses_none")
    assert (cleared.returncode, cleared.stdout) == (0, "ses_none had no snapshot.\n")
    assert run("clear", "--all").stdout == "There was no snapshot to clear.\n"


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_clear_forgets_the_named_sessions_or_all(snapshot: Callable[[str], str]) -> None:
    for session_id in ("ses_a", "ses_b", "ses_c"):
        snapshot(session_id)
    assert run_json("clear", "ses_a", "ses_x")["data"] == {
        "cleared": ["ses_a"],
        "without_snapshot": ["ses_x"],
    }
    assert run("show", "ses_a").returncode == 1
    assert run("clear", "--all").stdout == "Cleared ses_b.\nCleared ses_c.\n"
    assert run("list").stdout == "No session has a snapshot.\n"


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_clear_clears_nothing_when_one_of_the_ids_is_none(snapshot: Callable[[str], str]) -> None:
    snapshot("ses_a")
    done = run("clear", "ses_a", "../../etc/passwd")
    assert done.returncode == 1
    assert "is not a session id" in done.stderr
    assert run("show", "ses_a").returncode == 0


@pytest.mark.parametrize("arguments", [["clear"], ["clear", "--all", "ses_a"]])
def test_clear_needs_sessions_or_all_and_not_both(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


@pytest.mark.usefixtures("sidecar_up_or_down")
def test_purge_removes_what_is_older_and_a_dry_run_only_counts(
    snapshot: Callable[[str], str], settings: Settings, sidecar_up_or_down: str
) -> None:
    snapshot("ses_a")
    file = settings.snapshot_folder / "ses_a.xml"
    file.rename(file.with_name("ses_unused.xml"))
    os.utime(file.with_name("ses_unused.xml"), (0, 0))
    assert run("purge", "--dry-run").stdout == "Would remove 1 snapshot.\n"
    assert run_json("purge")["data"]["removed"] == ["ses_unused"]
    assert run("purge", "--older-than", "7").stdout == "Removed 0 snapshots.\n"


@pytest.mark.parametrize("days", ["-1", "nan", "inf"])
def test_purge_refuses_what_is_no_age(days: str) -> None:
    assert run("purge", "--older-than", days).returncode == 2


def test_a_sidecar_that_hangs_is_told_from_one_that_does_not_run(settings: Settings) -> None:
    run("start")
    pid = connect(settings).endpoint.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        for command in ("status", "start", "restart", "stop"):
            done = run(command)
            assert done.returncode == 1
            assert f"kill -9 {pid}; opencode-memory start" in done.stdout + done.stderr
        assert "hangs" in run("status").stdout
        assert "not running" not in run("status").stdout
        assert run_json("stop")["errors"][0]["code"] == "hangs"
    finally:
        os.kill(pid, signal.SIGCONT)
        until(lambda: run("stop").returncode == 0, "the sidecar to stop")


def test_status_shows_what_the_sidecar_has_warned_of(settings: Settings) -> None:
    settings.origin_folder.parent.mkdir(parents=True)
    settings.snapshot_folder.mkdir()
    (settings.snapshot_folder / "ses_a.xml").write_text("not a snapshot")
    run("start")
    try:
        asked = {"session_id": "ses_a", "epoch": "initial", "directory": "/"}
        connect(settings).call("POST", "/v1/snapshot", {**asked, "config_directories": []})
        (warned,) = run_json("status")["data"]["sidecar"]["warnings"]
        assert "ses_a" in warned["message"]
        assert warned["message"] in run("status").stdout
        assert warned["message"] in run("logs").stdout
    finally:
        run("stop")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    script = f"{sys.executable} -P -m sidecar completion bash | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_one_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"example: opencode-memory {command}" in done.stdout
    assert "--json" in done.stdout


def test_the_overview_names_every_command_and_the_exit_codes() -> None:
    overview = run("--help").stdout
    assert [name for name in COMMANDS if f"\n    {name}" not in overview] == []
    assert "3 the sidecar is not running" in " ".join(overview.split())
    assert run("--version").stdout == f"opencode-memory {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["list", "--nonsense"], ["--json"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2
