"""A process that is killed, starved and stopped: what was handed out once is handed out again."""

from __future__ import annotations

import http.client
import os
import select
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import filelock
import pytest

from sidecar.settings import Settings

from ..process import until
from .conftest import Sidecar

Start = Callable[..., Sidecar]
Remember = Callable[[str], None]

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux to do the harm")


def test_what_was_answered_survives_sigkill_in_the_same_moment(
    start: Start, remember: Remember
) -> None:
    for number in range(5):
        remember(f"v{number}")
        sidecar = start()
        text = sidecar.ask(f"ses_{number}").text
        sidecar.child.kill()
        remember("changed since")
        again = start()
        assert again.ask(f"ses_{number}").text == text
        again.child.kill()


@linux
def test_pipes_in_the_place_of_a_repositorys_files_hold_nothing_up(
    start: Start, project: Path
) -> None:
    folder = project / ".opencode"
    for name in ("plugin", "node_modules"):
        (folder / name).mkdir()
    (folder / "plugin" / "other.js").touch()
    for name in ("package.json", "package-lock.json", "plugin/opencode-memory.js", "memory/a.md"):
        os.mkfifo(folder / name)
    sidecar = start()
    for number in range((os.cpu_count() or 1) + 10):  # more than there are threads
        assert b"\nv1\n" in sidecar.ask(f"ses_{number}").text
    sidecar.child.end()
    assert sidecar.child.returncode == 0


def test_tools_that_wait_for_a_block_hold_up_no_prompt(
    start: Start, settings: Settings, project: Path
) -> None:
    block = project / ".opencode" / "memory" / "notes.md"
    sidecar = start()
    settings.lock_folder.mkdir()
    lock = sha256(os.fsencode(os.path.realpath(block))).hexdigest()
    with ExitStack() as stack:
        stack.enter_context(filelock.FileLock(settings.lock_folder / f"{lock}.lock"))
        waiting = [
            sidecar.begin_tool("memory_set", {"label": "notes", "value": "v2"})
            for _ in range((os.cpu_count() or 1) + 10)  # more than there are threads
        ]
        for connection in waiting:
            stack.callback(connection.close)
        for number in range(200):
            assert sidecar.ask(f"ses_{number}").status == 200
        assert select.select([connection.sock for connection in waiting], [], [], 0)[0] == []


@linux
def test_without_descriptors_nothing_is_decided_and_nothing_frozen(
    start: Start, remember: Remember
) -> None:
    import resource

    before = start()
    old = before.ask("ses_old").text
    before.close()
    remember("v2")
    sidecar = start()
    sidecar.call("GET", "/v1/health")  # the connection stays open
    pid = sidecar.child.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = [int(name) for name in os.listdir(f"/proc/{pid}/fd")]
    lowest_free = min(set(range(max(taken) + 2)) - set(taken))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    for session_id in ("ses_old", "ses_new"):
        reply = sidecar.ask(session_id)
        assert (reply.status, b'"exhausted"' in reply.text) == (503, True)
    assert "rendered anew" not in sidecar.child.output()
    with socket.socket(socket.AF_UNIX) as one_more:
        one_more.connect(sidecar.address())
        until(lambda: "out of system resource" in sidecar.child.output(), "the log to say so")
    assert "TransportSocket" not in sidecar.child.output()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert sidecar.ask("ses_old").text == old
    assert b"\nv2\n" in sidecar.ask("ses_new").text


@linux
def test_without_memory_it_answers_an_error_or_the_right_bytes_or_hangs_up_and_goes_on(
    start: Start, remember: Remember
) -> None:
    import resource

    remember("x" * 1_000_000)
    sidecar = start()
    held = sidecar.ask("ses_held").text
    pid = sidecar.child.pid
    size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (size, limits[1]))
    seen = []
    for number in range(20):
        try:
            seen.append(sidecar.ask(f"ses_{number}"))
        except (http.client.HTTPException, ConnectionError):  # to the plugin, that is no reply
            sidecar.connect()
    assert {reply.text for reply in seen if reply.status == 200} <= {held}
    assert {reply.status for reply in seen} <= {200, 500, 503}
    resource.prlimit(pid, resource.RLIMIT_AS, limits)
    sidecar.connect()
    assert sidecar.ask("ses_held").text == held
    until(lambda: sidecar.ask("ses_new").text == held, "it to recover")
