"""The real application and the real process, in the sandboxed home."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from blockbuster import BlockBuster, blockbuster_ctx

from sidecar.app import make_app
from sidecar.settings import Settings


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
