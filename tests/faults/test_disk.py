"""A disk that is full, read-only, forbidden or failing: a session's bytes stay as they are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.settings import Settings
from snapshots.metadata import decode

from ..process import until
from .conftest import Sidecar, can

Start = Callable[..., Sidecar]
Remember = Callable[[str], None]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux to do the harm")
needs_strace = pytest.mark.skipif(
    not can("strace", "-qq", "-o", "/dev/null", "true"), reason="needs strace"
)
needs_mount = pytest.mark.skipif(
    not can("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"), reason="needs to mount"
)
needs_root_without_powers = pytest.mark.skipif(
    not can("setpriv", "--bounding-set", "-dac_override", "true"), reason="needs root and setpriv"
)
BIG = "x" * 200_000


@contextmanager
def failing(sidecar: Sidecar, calls: str, error: str) -> Iterator[None]:
    """Let these system calls of the running sidecar fail."""
    fault = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    injector = subprocess.Popen(
        ["strace", "-f", "-p", str(sidecar.child.pid), "-o", "/dev/null", *fault],
        stderr=subprocess.PIPE,
    )
    assert injector.stderr is not None
    assert b"attached" in injector.stderr.readline()
    try:
        yield
    finally:
        injector.send_signal(signal.SIGINT)
        injector.wait(10)
        injector.stderr.close()


@contextmanager
def traced(sidecar: Sidecar, calls: str, log: Path) -> Iterator[None]:
    """Note these system calls of the running sidecar, with the files' names."""
    command = ["strace", "-f", "-y", "-p", str(sidecar.child.pid), "-o", str(log)]
    tracer = subprocess.Popen([*command, "-e", f"trace={calls}"], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    assert b"attached" in tracer.stderr.readline()
    try:
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)
        tracer.stderr.close()


def snapshots(settings: Settings, process: int | None = None) -> list[bytes]:
    """The texts of all files that a session would be given; fails for one that is not whole."""
    root = Path(f"/proc/{process}/root") if process else Path("/")
    folder = root / settings.snapshot_folder.relative_to("/")
    return [decode(file.read_bytes())[1] for file in sorted(folder.glob("*.xml"))]


def assert_stable_and_told(sidecar: Sidecar, remember: Remember, text: bytes) -> None:
    """A snapshot that can't be saved stays as it is while the process lives, and is a problem."""
    remember("v2")
    for epoch in ("initial", None):
        assert sidecar.ask(epoch=epoch).text == text
    (problem,) = sidecar.problems()
    assert "ses_a can't be saved" in problem
    assert "v2" in sidecar.ask("ses_other").text.decode()


@needs_strace
@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ("fsync", "ENOSPC"),
        ("fsync", "EIO"),
        ("fchmod", "EROFS"),
        ("rename,renameat,renameat2", "ENOSPC"),
        ("mkdir,mkdirat", "ENOSPC"),
        ("write", "ENOSPC"),
    ],
)
def test_whichever_step_of_saving_fails_the_bytes_stay_and_are_saved_when_it_passes(
    start: Start, remember: Remember, settings: Settings, calls: str, error: str
) -> None:
    sidecar = start()
    sidecar.call("GET", "/v1/health")
    with failing(sidecar, calls, error):
        first = sidecar.ask()
        assert (first.status, b"\nv1\n" in first.text) == (200, True)
        assert_stable_and_told(sidecar, remember, first.text)
        assert all(text.startswith(b"<!--") for text in snapshots(settings))
    sidecar.child.end()  # it saves what it could not
    assert first.text in snapshots(settings)
    assert start().ask().text == first.text


@needs_strace
def test_an_answer_leaves_when_the_file_and_its_name_are_on_the_disk(
    start: Start, settings: Settings, tmp_path: Path
) -> None:
    sidecar = start()
    sidecar.call("GET", "/v1/health")
    with traced(sidecar, "fsync,rename,renameat,renameat2,sendto", tmp_path / "calls"):
        assert sidecar.ask().status == 200
    folder = settings.snapshot_folder
    calls = (tmp_path / "calls").read_text().splitlines()
    said = [line for line in calls if str(folder) in line or "HTTP/1.1 200" in line]
    assert [line.split()[1].partition("(")[0] for line in said] == [
        "fsync",
        "rename",
        "fsync",
        "sendto",
    ]
    assert f"<{folder}>" in said[2]


@needs_strace
def test_a_new_epoch_that_cannot_be_saved_leaves_the_old_file_whole(
    start: Start, remember: Remember, settings: Settings
) -> None:
    sidecar = start()
    old = sidecar.ask().text
    remember("v2")
    with failing(sidecar, "fsync", "ENOSPC"):
        new = sidecar.ask(epoch="2").text
        assert b"\nv2\n" in new
        assert snapshots(settings) == [old]
        assert list(settings.snapshot_folder.glob(".*")) == []


@needs_strace
@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ("fsync", "ENOSPC"),
        ("write", "ENOSPC"),
        ("rename,renameat,renameat2", "EROFS"),
        ("openat", "EROFS"),
    ],
)
def test_whichever_step_of_writing_a_block_fails_the_agent_is_told_and_the_block_is_as_it_was(
    start: Start, project: Path, settings: Settings, calls: str, error: str
) -> None:
    folder = project / ".opencode" / "memory"
    before = (folder / "notes.md").read_bytes()
    asked = {
        "session_id": "ses_a",
        "turn_id": "msg_1",
        "directory": str(project),
        "config_directories": [str(config) for config in settings.config_folders],
        "arguments": {"label": "notes", "value": "v2"},
    }
    sidecar = start()
    sidecar.call("GET", "/v1/health")
    with failing(sidecar, calls, error):
        reply = sidecar.call("POST", "/v1/tools/memory_set", asked)
    assert reply.status >= 400
    assert json.loads(reply.text)["error"]["message"]
    assert [file.name for file in folder.iterdir()] == ["notes.md"]
    assert (folder / "notes.md").read_bytes() == before
    assert sidecar.call("POST", "/v1/tools/memory_set", asked).status == 200
    assert "v2" in (folder / "notes.md").read_text()


@needs_mount
def test_a_full_disk(start: Start, remember: Remember, settings: Settings) -> None:
    settings.snapshot_folder.mkdir(parents=True)
    remember(BIG)
    mount = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    sidecar = start("unshare", "-m", "sh", "-c", mount, str(settings.snapshot_folder))
    first = sidecar.ask()
    assert BIG.encode() in first.text
    assert_stable_and_told(sidecar, remember, first.text)
    assert [b"\nv2\n" in text for text in snapshots(settings, sidecar.child.pid)] == [True]


@needs_mount
def test_a_read_only_disk(start: Start, remember: Remember, settings: Settings) -> None:
    before = start()
    first = before.ask()
    before.close()
    remember("v2")
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    sidecar = start("unshare", "-m", "sh", "-c", mount, str(settings.snapshot_folder))
    assert sidecar.ask().text == first.text
    new = sidecar.ask("ses_new")
    assert b"\nv2\n" in new.text
    remember("v3")
    assert sidecar.ask("ses_new").text == new.text
    assert "ses_new can't be saved" in sidecar.problems()[0]


@needs_root_without_powers
def test_permissions_that_are_lost_in_mid_run(
    start: Start, remember: Remember, settings: Settings
) -> None:
    sidecar = start("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner")
    held = sidecar.ask().text
    settings.snapshot_folder.chmod(0o500)
    settings.data_folder.chmod(0o500)
    parts = []
    try:
        # A new folder can't be made, and this one's permissions can be mended by its owner alone.
        os.chown(settings.snapshot_folder, 65534, 65534)
        parts = [sidecar.ask("ses_b").text for _ in range(2)]
        remember("v2")
        assert sidecar.ask().text == held
        assert sidecar.ask("ses_b").text == parts[0] == parts[1]
        assert "ses_b can't be saved" in sidecar.problems()[0]
    finally:
        os.chown(settings.snapshot_folder, 0, 0)
        settings.snapshot_folder.chmod(0o700)
        settings.data_folder.chmod(0o700)
    assert sidecar.child.alive()
    assert "can't be saved (it belongs to another user" in sidecar.child.output()


def test_a_limit_of_file_size(start: Start, remember: Remember, settings: Settings) -> None:
    import resource

    sidecar = start()
    sidecar.call("GET", "/v1/health")
    limits = resource.prlimit(sidecar.child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(sidecar.child.pid, resource.RLIMIT_FSIZE, (100, limits[1]))
    first = sidecar.ask()
    assert b"\nv1\n" in first.text
    remember("v2")
    assert sidecar.ask().text == first.text
    assert "ses_a can't be saved" in sidecar.problems()[0]
    assert snapshots(settings) == []
    resource.prlimit(sidecar.child.pid, resource.RLIMIT_FSIZE, limits)


COUNT = int(os.environ.get("MEMORY_SNAPSHOTS", "20000"))


def test_a_folder_of_very_many_snapshots(
    start: Start, remember: Remember, settings: Settings
) -> None:
    settings.snapshot_folder.mkdir(parents=True, mode=0o700)
    folder = os.open(settings.snapshot_folder, os.O_RDONLY)
    for number in range(COUNT):
        os.close(os.open(f"ses_{number:06}.xml", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    os.close(folder)
    sidecar = start()
    first = sidecar.ask()
    remember("v2")
    assert sidecar.ask().text == first.text
    assert sidecar.call("GET", "/v1/sessions").text.count(b'"session_id"') == COUNT + 1
    old = time.time() - 31 * 86_400
    for number in range(0, COUNT, 1000):
        os.utime(settings.snapshot_folder / f"ses_{number:06}.xml", (old, old))
    purge = {"older_than_days": 30, "dry_run": False}
    removed = sidecar.call("POST", "/v1/purge", purge).text.count(b"ses_")
    assert removed == COUNT // 1000
    until(lambda: sidecar.ask("ses_after").status == 200, "an answer")
