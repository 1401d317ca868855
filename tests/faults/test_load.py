"""The soak in small: its clients, its sessions, and the sentence at its end."""

from __future__ import annotations

import os

import pytest

from .soak import has_grown, main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a unix socket and ps")


def test_many_clients_and_sessions_get_their_own_bytes_and_the_memory_is_flat(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(requests=4_000, sessions=300) == 0
    assert "its memory is flat" in capsys.readouterr().out


def test_memory_that_grows_is_seen_and_the_allocators_breath_is_not() -> None:
    assert has_grown([50.0 + part for part in range(20)])
    assert not has_grown([50.0, 55.0, 57.0, *[58.0, 60.0] * 8, 59.0])
