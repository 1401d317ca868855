"""The process: one of it, private, found by its endpoint, gone without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from sidecar import server
from sidecar.client import SidecarError, connect
from sidecar.endpoint import Endpoint, publish, read_endpoint
from sidecar.launcher import background_command
from sidecar.lock import sole_owner
from sidecar.service import ARGUMENTS
from sidecar.settings import Settings, log_file
from snapshots.ledger import Ledger, read_steps
from snapshots.ownership import make_private_folder

from ..process import Child, until
from .conftest import SERVE
from .test_usage import step

Serve = Callable[..., Child]


def mode(path: Path | str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_everything_it_makes_is_the_users_alone(
    serve: Serve, settings: Settings, ask: Callable[..., dict[str, object]]
) -> None:
    previous = os.umask(0)
    try:
        serve("--background")
    finally:
        os.umask(previous)
    client = connect(settings)
    client.call("POST", "/v1/snapshot", {**ask(), "origin": "0" * 64})
    written = {"label": "a", "value": "b", "scope": "project"}
    client.call("POST", "/v1/tools/memory_set", {**ask(), "turn_id": "t", "arguments": written})
    client.call("POST", "/v1/usage", {"steps": []})
    until(lambda: (settings.origin_folder / ("0" * 64)).exists(), "the origin")
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    assert endpoint.socket is not None
    sockets = Path(endpoint.socket).parent
    made = [settings.data_folder, log_file().parent, sockets]
    made += [file for folder in made for file in folder.rglob("*")]
    kinds = ("trust/*", "locks/*", "snapshots/*", "origins/*", "usage.sqlite3-wal", "sidecar.wake")
    assert all(list(settings.data_folder.glob(kind)) for kind in kinds)
    assert {file: mode(file) for file in made if mode(file) != (0o600, 0o700)[file.is_dir()]} == {}


def test_a_log_that_is_full_is_put_aside_and_both_are_the_users_alone(serve: Serve) -> None:
    log = log_file()
    log.parent.mkdir(parents=True)
    for full in ("older\n", "old\n"):
        log.write_text("x" * 1024 * 1024 + full)
        log.chmod(0o600)
        serve("--background").end()
    assert sorted(os.listdir(log.parent)) == ["sidecar.log", "sidecar.log.1"]
    assert log.with_name("sidecar.log.1").read_text().endswith("old\n")
    assert "listens on" in log.read_text()
    assert {mode(file) for file in log.parent.iterdir()} == {0o600}


def test_a_second_one_says_so_and_exits_with_0(serve: Serve, settings: Settings) -> None:
    first = serve()
    second = subprocess.run(SERVE, capture_output=True, timeout=30, check=False, text=True)
    assert (second.returncode, second.stdout) == (0, "The sidecar is already running.\n")
    assert connect(settings).call("GET", "/v1/health")["pid"] == first.pid


def test_one_that_is_started_while_another_ends_takes_its_place(
    home: Path, settings: Settings
) -> None:
    settings.data_folder.mkdir(parents=True)
    os.mkfifo(settings.wake_file)
    woken = os.open(settings.wake_file, os.O_RDWR | os.O_NONBLOCK)
    child = None
    try:
        with sole_owner(settings.lock_file):
            child = Child(SERVE, os.environ, home, home / "serve.log")
            until(lambda: select.select([woken], [], [], 0)[0], "it to find the lock held")
            assert child.alive()
        until(lambda: settings.endpoint_file.exists(), "the endpoint")
        assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid
    finally:
        os.close(woken)
        if child:
            child.end()


def test_one_that_is_started_while_another_runs_asks_for_the_lock_once(settings: Settings) -> None:
    settings.data_folder.mkdir(parents=True)
    publish(settings.endpoint_file, Endpoint(version="1", protocol=1, instance="i", pid=1))
    os.mkfifo(settings.wake_file)
    woken = os.open(settings.wake_file, os.O_RDWR | os.O_NONBLOCK)
    try:
        with sole_owner(settings.lock_file):
            assert subprocess.run(SERVE, check=False, timeout=30).returncode == 0
        assert os.read(woken, 100) == b"\n"
    finally:
        os.close(woken)


@pytest.mark.parametrize(
    ("mode", "hand_over", "status"),
    [("--service", True, 1), ("--service", False, 0), ("--background", True, 0)],
)
def test_a_service_that_hands_over_has_failed_so_that_its_manager_starts_the_new_one(
    serve: Serve, settings: Settings, mode: str, hand_over: bool, status: int
) -> None:
    child = serve(mode)
    client = connect(settings)
    asked = {"instance": client.endpoint.instance, "hand_over": hand_over}
    client.call("POST", "/v1/stop", asked)
    until(lambda: not child.alive(), "the sidecar to end")
    assert child.returncode == status


async def test_a_sidecar_that_nobody_nudges_sees_by_itself_that_it_cannot_be_reached(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, no_blocking_in_the_loop: BlockBuster
) -> None:
    no_blocking_in_the_loop.deactivate()  # a start may block
    monkeypatch.setattr(server, "MEND_SECONDS", 0.05)
    make_private_folder(settings.data_folder)
    settings.lock_file.touch()
    sidecar = asyncio.create_task(server._serve(settings, "unix", 0))
    for _ in range(2):
        async with asyncio.timeout(20):
            while not settings.endpoint_file.exists():  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.01)
        settings.endpoint_file.unlink()
    sidecar.cancel()
    await asyncio.wait([sidecar])


def test_a_start_sweeps_out_what_is_over_and_an_end_leaves_one_file_of_the_ledger(
    serve: Serve, settings: Settings
) -> None:
    book = Ledger(settings.ledger_file)
    book.add([step(0, started_at=time.time()), step(1, session_id="ses_over", started_at=0.0)])
    book.close()
    settings.origin_folder.mkdir()
    (settings.origin_folder / ("a" * 64)).write_text("ses_over\n")
    os.utime(settings.origin_folder / ("a" * 64), (0, 0))
    child = serve()
    until(lambda: len(read_steps(settings.ledger_file)) == 1, "the ledger's old steps to go")
    until(lambda: os.listdir(settings.origin_folder) == [], "the old origin to go")
    connect(settings).call("POST", "/v1/usage", {"steps": []})
    child.end()
    assert [file.name for file in settings.data_folder.glob("usage*")] == ["usage.sqlite3"]


def test_a_sweep_that_fails_is_told_and_ends_nothing(serve: Serve, settings: Settings) -> None:
    settings.data_folder.mkdir(parents=True)
    with sqlite3.connect(settings.ledger_file) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    child = serve()
    until(lambda: "The sweep failed" in child.output(), "the sweep to fail")
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid
    child.end()
    assert child.returncode == 0


def test_of_twenty_started_at_once_one_is_left(home: Path, settings: Settings) -> None:
    children = [Child(SERVE, os.environ, home, home / f"{number}.log") for number in range(20)]
    try:
        until(lambda: sum(child.alive() for child in children) == 1, "nineteen to end")
        health = until(lambda: read_endpoint(settings.endpoint_file), "the endpoint")
        (alive,) = (child for child in children if child.alive())
        assert health.pid == alive.pid
        assert connect(settings).call("GET", "/v1/health")["pid"] == alive.pid
        assert {child.returncode for child in children if child is not alive} == {0}
    finally:
        for child in children:
            child.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_is_left_to_connect_to(
    serve: Serve, settings: Settings, number: signal.Signals
) -> None:
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    assert endpoint.socket is not None
    os.kill(child.pid, number)
    until(lambda: not child.alive(), "the sidecar to end")
    assert child.returncode == 0
    assert not settings.endpoint_file.exists()
    assert not settings.wake_file.exists()
    assert not Path(endpoint.socket).exists()


def test_a_socket_that_is_gone_already_hinders_no_end(serve: Serve, settings: Settings) -> None:
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    Path(str(endpoint.socket)).unlink()
    child.end()
    assert child.returncode == 0
    assert not settings.endpoint_file.exists()


def test_after_sigkill_the_next_one_takes_over_the_stale_socket(
    serve: Serve, settings: Settings
) -> None:
    serve().kill()
    stale = read_endpoint(settings.endpoint_file)
    assert stale is not None
    second = serve()
    assert connect(settings).call("GET", "/v1/health")["pid"] == second.pid
    fresh = read_endpoint(settings.endpoint_file)
    assert fresh is not None
    assert (fresh.socket, fresh.instance == stale.instance) == (stale.socket, False)


@pytest.mark.parametrize("content", [b"", b"abc", b"[]", b"{}", b'{"pid": 1}', b"\xff" * 100])
def test_an_endpoint_file_that_makes_no_sense_does_not_stop_a_start(
    serve: Serve, settings: Settings, content: bytes
) -> None:
    settings.data_folder.mkdir(parents=True)
    settings.endpoint_file.write_bytes(content)
    child = serve()
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid


def test_over_tcp_it_listens_on_loopback_and_wants_its_token(
    serve: Serve, settings: Settings
) -> None:
    child = serve("--transport", "tcp")
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    assert (endpoint.host, endpoint.socket) == ("127.0.0.1", None)
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid
    endpoint.token = "guessed"
    assert re.fullmatch("[0-9a-f]{64}", str(token := endpoint_token(settings)))
    client = connect(settings)
    client.endpoint = endpoint
    with pytest.raises(SidecarError, match="token"):
        client.call("GET", "/v1/health")
    child.end()
    serve("--transport", "tcp")
    assert endpoint_token(settings) != token


def endpoint_token(settings: Settings) -> object:
    return json.loads(settings.endpoint_file.read_bytes())["token"]


def test_a_socket_folder_with_a_long_name_is_replaced_by_a_short_one(
    serve: Serve, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_one = tmp_path / ("x" * 100)
    long_one.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long_one))
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    assert str(tmp_path) not in str(endpoint.socket)
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid


def test_two_hundred_fifty_six_connections_at_once_are_all_accepted(
    serve: Serve, settings: Settings
) -> None:
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    connections = [socket.socket(socket.AF_UNIX) for _ in range(256)]
    try:
        child.pause()  # nobody is quick enough to accept them one by one
        for connection in connections:
            connection.setblocking(False)  # as Node and Bun do: what has no place is refused
            connection.connect(endpoint.socket)
        child.resume()
        request = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        for connection in connections:
            connection.settimeout(10)
            connection.sendall(request)
        for connection in connections:
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(("size", "status"), [(8_000, 200), (9_000, 400)])
def test_a_header_longer_than_8_kib_is_refused_by_the_process_too(
    serve: Serve, settings: Settings, size: int, status: int
) -> None:
    serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(endpoint.socket))
        head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n"
        connection.sendall(head % (b"y" * size))
        assert connection.recv(12).endswith(b" %d" % status)


@pytest.mark.parametrize(
    "command",
    [background_command(), [sys.executable, *ARGUMENTS]],
    ids=["in the background", "as a service"],
)
def test_a_project_with_folders_of_our_names_is_never_imported(
    home: Path, settings: Settings, tmp_path: Path, command: list[str]
) -> None:
    for name in ("sidecar", "snapshots"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            "raise SystemExit('imported from the project')"
        )
    child = Child(command, os.environ, tmp_path, home / "serve.log")
    try:
        until(lambda: settings.endpoint_file.exists() or not child.alive(), "the endpoint")
        assert child.alive(), child.output()
    finally:
        child.end()


def test_in_the_background_it_ends_when_nobody_has_used_it_for_so_long(
    serve: Serve, settings: Settings
) -> None:
    settings.config_folders[0].mkdir(parents=True)
    chosen = settings.config_folders[0] / "agent-memory.json"
    chosen.write_text('{"idle_hours": 0.0002}')  # 0.7 seconds
    child = serve("--background")
    connect(settings).call("GET", "/v1/health")
    until(lambda: not child.alive(), "the sidecar to end")
    assert child.returncode == 0
    assert not settings.endpoint_file.exists()
    assert "No request came" in log_file().read_text()


def test_in_the_foreground_it_stays_however_idle(serve: Serve, settings: Settings) -> None:
    settings.config_folders[0].mkdir(parents=True)
    chosen = settings.config_folders[0] / "agent-memory.json"
    chosen.write_text('{"idle_hours": 0.0000001}')
    child = serve()
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid
    assert child.alive()


def test_as_a_service_it_takes_the_place_of_one_that_runs_without_a_manager(
    serve: Serve, settings: Settings
) -> None:
    background = serve("--background")
    service = serve("--service")
    until(lambda: not background.alive(), "the sidecar in the background to end")
    assert background.returncode == 0
    assert service.alive()
    assert connect(settings).call("GET", "/v1/health")["pid"] == service.pid


def test_as_a_service_it_fails_where_another_holds_the_lock_so_that_it_is_tried_again(
    settings: Settings,
) -> None:
    settings.data_folder.mkdir(parents=True)
    with sole_owner(settings.lock_file):
        done = subprocess.run(
            [*SERVE, "--service"], capture_output=True, timeout=30, check=False, text=True
        )
    assert done.returncode == 1
    assert "Another sidecar has just started" in done.stderr


def test_health_counts_the_plugins_requests_and_knows_the_last(
    serve: Serve, settings: Settings, ask: Callable[..., dict[str, object]]
) -> None:
    serve()
    for _ in range(2):
        health = connect(settings).call("GET", "/v1/health")
        assert (health["requests"], health["last_request_at"]) == (0, None)
    connect(settings).call("POST", "/v1/snapshot", ask())
    health = connect(settings).call("GET", "/v1/health")
    assert health["requests"] == 1
    assert health["last_request_at"] > 1_700_000_000


def test_its_log_tells_no_project_and_no_token(serve: Serve, settings: Settings) -> None:
    child = serve("--transport", "tcp")
    token = json.loads(settings.endpoint_file.read_bytes())["token"]
    client = connect(settings)
    asked = {"session_id": "ses_a", "epoch": None, "directory": "/secret/project"}
    client.call("POST", "/v1/snapshot", {**asked, "config_directories": []})
    child.end()
    assert "listens on 127.0.0.1" in child.output()
    assert token not in child.output()
    assert "/secret/project" not in child.output()
