from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.notify import Notifier, make_notifier, notifying


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, home: Path) -> Iterator[tuple[socket.socket, str]]:
    """A manager's socket, and its address as NOTIFY_SOCKET has it."""
    if request.param == "path":
        address = bound = f"{os.environ['XDG_RUNTIME_DIR']}/notify"
    elif sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    else:
        name = f"opencode-memory-test-{secrets.token_hex(8)}"
        address, bound = f"@{name}", f"\0{name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(bound)
        server.setblocking(False)
        yield server, address


async def hear(server: socket.socket) -> str:
    async with asyncio.timeout(10):
        return (await asyncio.get_running_loop().sock_recv(server, 4096)).decode()


async def test_the_manager_hears_ready_then_signs_of_life_then_stopping(
    manager: tuple[socket.socket, str],
) -> None:
    server, address = manager
    async with notifying(Notifier(address, watchdog_seconds=0.02)):
        assert [await hear(server) for _ in range(4)] == ["READY=1"] + ["WATCHDOG=1"] * 3
    heard = await hear(server)
    while heard == "WATCHDOG=1":  # one that was under way
        heard = await hear(server)
    assert heard == "STOPPING=1"


async def test_a_sign_of_life_comes_before_the_manager_has_waited_too_long(
    manager: tuple[socket.socket, str],
) -> None:
    server, address = manager
    async with notifying(Notifier(address, watchdog_seconds=2)):
        async with asyncio.timeout(1.9):
            assert [await hear(server) for _ in range(3)] == ["READY=1"] + ["WATCHDOG=1"] * 2


async def test_without_a_watchdog_there_is_no_timer(manager: tuple[socket.socket, str]) -> None:
    server, address = manager
    async with notifying(Notifier(address)):
        assert await hear(server) == "READY=1"
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
    assert await hear(server) == "STOPPING=1"


async def test_stopping_is_said_when_serving_fails_as_well(
    manager: tuple[socket.socket, str],
) -> None:
    server, address = manager
    with pytest.raises(OSError, match="no more"):
        async with notifying(Notifier(address)):
            raise OSError("no more")
    assert [await hear(server), await hear(server)] == ["READY=1", "STOPPING=1"]


async def test_without_a_manager_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async with notifying(make_notifier({}, pid=1)):
        pass
    assert caplog.records == []


async def test_a_manager_that_does_not_hear_is_logged_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Notifier(str(tmp_path / "gone")).send("READY=1")
    (record,) = caplog.records
    assert "READY=1" in record.getMessage()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 60.0),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_for_the_process_that_the_manager_watches(
    variables: dict[str, str], seconds: float | None
) -> None:
    notifier = make_notifier({"NOTIFY_SOCKET": "/run/notify", **variables}, pid=7)
    assert notifier.watchdog_seconds == seconds


def test_there_is_no_watchdog_where_nobody_listens() -> None:
    assert make_notifier({"WATCHDOG_USEC": "60000000"}, pid=7).watchdog_seconds is None
