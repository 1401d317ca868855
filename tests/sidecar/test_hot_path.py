"""What a request in mid-session may cost, counted."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

REQUESTS = 1_000
_opened: Counter[str] = Counter()
sys.addaudithook(lambda event, _arguments: _opened.update([event] if event == "open" else []))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts every fsync, hash and JSON encoding that our modules ask for."""
    counts: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        original = getattr(module, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, counting)

    count(os, "fsync")
    count(hashlib, "sha256")
    count(msgspec.json, "encode")
    return counts


async def test_a_thousand_requests_open_sync_hash_and_encode_nothing(
    client: TestClient[Any, Any],
    ask: Callable[..., dict[str, object]],
    counted: Counter[str],
    left_for_later: Callable[[], Awaitable[None]],
) -> None:
    etag = (await client.post("/v1/snapshot", json=ask())).headers["ETag"]
    assert counted["fsync"] == 2  # the file and its folder, before the first answer left
    assert counted["sha256"] == 2  # of the snapshot with its metadata, and of it alone
    await left_for_later()
    counted.clear()
    _opened.clear()
    for number in range(REQUESTS):
        headers = {"If-None-Match": etag} if number % 2 else {}
        reply = await client.post("/v1/snapshot", json=ask(), headers=headers)
        assert reply.status == (304 if number % 2 else 200)
        await reply.read()
    assert counted == Counter()
    assert _opened == Counter()
