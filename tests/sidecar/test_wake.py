from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from sidecar.wake import nudge, pipe

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs named pipes")


def test_who_holds_the_pipe_hears_a_nudge_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "wake"
    file.write_text("left by one that was killed")
    with pipe(file) as woken:
        assert woken is not None
        assert select.select([woken], [], [], 0)[0] == []
        nudge(file)
        assert os.read(woken, 100) == b"\n"
        assert select.select([woken], [], [], 0)[0] == []
    assert not file.exists()


def test_a_nudge_that_nobody_hears_is_not_waited_with(tmp_path: Path) -> None:
    nudge(tmp_path / "none")
    os.mkfifo(tmp_path / "wake")
    nudge(tmp_path / "wake")


def test_where_there_can_be_no_pipe_a_sidecar_does_without(tmp_path: Path) -> None:
    with pipe(tmp_path / "none" / "wake") as woken:
        assert woken is None
