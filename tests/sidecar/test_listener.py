"""A sidecar that can't be reached any more because something was removed mends that."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.client import NotRunningError, connect
from sidecar.endpoint import Endpoint, publish, read_endpoint
from sidecar.settings import Settings, load_settings, runtime_folder
from sidecar.wake import nudge

from ..process import STRANGER, Child, needs_root, until
from .conftest import SERVE

Serve = Callable[..., Child]
REMOVALS: dict[str, Callable[[Settings, Endpoint], None]] = {
    "the socket": lambda _settings, endpoint: Path(str(endpoint.socket)).unlink(),
    "the socket, with a file in its place": lambda _settings, endpoint: replace_by_a_file(endpoint),
    "the socket's mode": lambda _settings, endpoint: Path(str(endpoint.socket)).chmod(0o777),
    "the endpoint file": lambda settings, _endpoint: settings.endpoint_file.unlink(),
    "the endpoint file, with another's in its place": lambda settings, _endpoint: publish(
        settings.endpoint_file,
        Endpoint(version="1", protocol=1, instance="another", pid=1, socket="/nowhere"),
    ),
    "the folder of the socket": lambda _settings, _endpoint: shutil.rmtree(runtime_folder()),
    "the runtime folder": lambda _settings, _endpoint: shutil.rmtree(runtime_folder().parent),
}


def replace_by_a_file(endpoint: Endpoint) -> None:
    Path(str(endpoint.socket)).unlink()
    Path(str(endpoint.socket)).touch()


def health_pid(settings: Settings) -> object:
    try:
        return connect(settings).call("GET", "/v1/health")["pid"]
    except NotRunningError:
        return None


@pytest.mark.parametrize("what", REMOVALS)
def test_what_was_removed_is_made_anew_when_another_one_is_started(
    serve: Serve, settings: Settings, what: str
) -> None:
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    REMOVALS[what](settings, endpoint)
    assert health_pid(settings) is None
    second = subprocess.run(SERVE, capture_output=True, timeout=30, check=False, text=True)
    assert second.stdout == "The sidecar is already running.\n"
    assert until(lambda: health_pid(settings), "an answer") == child.pid
    mended = read_endpoint(settings.endpoint_file)
    assert mended is not None
    assert mended.instance == endpoint.instance
    assert stat.S_IMODE(Path(str(mended.socket)).stat().st_mode) == 0o600


def test_a_runtime_folder_that_cannot_come_back_is_replaced(
    serve: Serve, settings: Settings
) -> None:
    """As after a logout: the system removes it, and would have to make it again."""
    child = serve()
    gone = runtime_folder().parent
    shutil.rmtree(gone)
    gone.write_text("no folder any more")
    try:
        nudge(settings.wake_file)
        assert until(lambda: health_pid(settings), "an answer") == child.pid
    finally:
        gone.unlink()
        gone.mkdir()


def test_what_cannot_be_made_anew_is_tried_again_and_ends_nothing(
    serve: Serve, settings: Settings
) -> None:
    child = serve()
    settings.endpoint_file.unlink()
    settings.endpoint_file.mkdir()
    nudge(settings.wake_file)
    until(lambda: "They can't be made" in child.output(), "the sidecar to say so")
    settings.endpoint_file.rmdir()
    nudge(settings.wake_file)
    assert until(lambda: health_pid(settings), "an answer") == child.pid


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_what_was_made_anew_takes_the_place_of_what_there_was(
    serve: Serve, settings: Settings
) -> None:
    child = serve()
    held = Path(f"/proc/{child.pid}/fd")
    before = len(list(held.iterdir()))
    for _ in range(3):
        settings.endpoint_file.unlink()
        nudge(settings.wake_file)
        until(lambda: health_pid(settings), "an answer")
    until(lambda: len(list(held.iterdir())) <= before, "the old sockets to be closed")


def test_each_data_folder_has_a_sidecar_of_its_own(
    serve: Serve, settings: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serve()
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "other"))
    other = load_settings()
    second = Child(SERVE, os.environ, home, home / "other.log")
    try:
        until(lambda: health_pid(other) == second.pid, "an answer")
        assert health_pid(settings) == first.pid
    finally:
        second.end()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_nudge_is_over_when_it_was_heard(serve: Serve, settings: Settings) -> None:
    child = serve()
    used: list[list[str]] = []

    def is_quiet() -> bool:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        used.append(fields[11:13])  # its time on the processor so far
        return used[-25:] == [used[-1]] * 25

    nudge(settings.wake_file)
    until(is_quiet, "the sidecar to do nothing for half a second", 15)


def test_a_nudge_without_need_changes_nothing(serve: Serve, settings: Settings) -> None:
    child = serve()
    before = settings.endpoint_file.stat()
    for _ in range(100):
        nudge(settings.wake_file)
    assert health_pid(settings) == child.pid
    after = settings.endpoint_file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_without_its_data_folder_it_ends_since_another_may_own_a_new_one(
    serve: Serve, settings: Settings
) -> None:
    child = serve()
    kept = settings.wake_file.with_name("kept")
    os.link(settings.wake_file, kept)
    moved = settings.data_folder.with_name("moved")
    settings.data_folder.rename(moved)
    nudge(moved / "kept")
    until(lambda: not child.alive(), "the sidecar to end")
    assert child.returncode == 0


@needs_root
def test_a_data_folder_of_another_users_is_not_served(settings: Settings) -> None:
    settings.data_folder.mkdir(parents=True)
    os.chown(settings.data_folder, STRANGER, STRANGER)
    done = subprocess.run(SERVE, capture_output=True, timeout=30, check=False, text=True)
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr


@pytest.mark.parametrize("kind", ["link", pytest.param("folder", marks=needs_root)])
def test_a_socket_folder_that_somebody_else_prepared_is_refused(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    prepared = tmp_path / f"opencode-memory-{os.geteuid()}"
    if kind == "link":
        prepared.symlink_to(tmp_path)
    else:
        prepared.mkdir(mode=0o700)
        os.chown(prepared, STRANGER, STRANGER)
    done = subprocess.run(SERVE, capture_output=True, timeout=30, check=False, text=True)
    assert done.returncode == 1
    assert str(prepared) in done.stderr
    assert not settings.endpoint_file.exists()
