"""The real application and the real process, in the sandboxed home."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from blockbuster import BlockBuster, blockbuster_ctx

from sidecar.app import make_app
from sidecar.endpoint import read_endpoint
from sidecar.settings import Settings

from ..process import Child, until

SERVE = [sys.executable, "-P", "-m", "sidecar", "serve"]


@pytest.fixture(autouse=True)
def no_blocking_in_the_loop() -> Iterator[BlockBuster]:
    """Any disk or socket call of ours that would block the event loop is an error."""
    with blockbuster_ctx(scanned_modules=["sidecar", "snapshots"]) as guard:
        yield guard


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def left_for_later() -> Callable[[], Awaitable[None]]:
    """Waits for the work that the requests until now have left for after their replies."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # one after the other

    async def wait() -> None:
        await asyncio.to_thread(lambda: None)

    return wait


@pytest.fixture
async def client(
    settings: Settings, aiohttp_client: Callable[..., Awaitable[TestClient[Any, Any]]]
) -> TestClient[Any, Any]:
    """A client of the application, speaking our protocol."""
    return await aiohttp_client(
        make_app(settings, instance="instance"), headers={"Memory-Protocol": "1"}
    )


@pytest.fixture
def ask(settings: Settings, project: Path) -> Callable[..., dict[str, object]]:
    """A request for a snapshot, as the shim makes it."""

    def request(session_id: str = "ses_a", epoch: str | None = "initial") -> dict[str, object]:
        return {
            "session_id": session_id,
            "epoch": epoch,
            "directory": str(project),
            "config_directories": [str(folder) for folder in settings.config_folders],
        }

    return request


@pytest.fixture
def serve(home: Path, settings: Settings) -> Iterator[Callable[..., Child]]:
    """Start `opencode-memory serve` and wait until it has published its endpoint."""
    children: list[Child] = []

    def start(*arguments: str) -> Child:
        child = Child([*SERVE, *arguments], os.environ, home, home / "serve.log")
        children.append(child)

        def published() -> bool:
            endpoint = read_endpoint(settings.endpoint_file)
            return endpoint is not None and endpoint.pid == child.pid

        until(lambda: published() or not child.alive(), "the endpoint")
        return child

    yield start
    for child in children:
        child.end()
