"""The shim talks to this user's own sidecar and starts this user's own program, or none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ..process import STRANGER, needs_root
from .history import inserted, user


def give_away(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def open_to_group(path: Path) -> None:
    path.chmod(0o620)


def open_to_all(path: Path) -> None:
    path.chmod(0o602)


FOREIGN = [pytest.param(give_away, marks=needs_root), open_to_group, open_to_all]


@pytest.mark.parametrize("make_foreign", FOREIGN)
@pytest.mark.parametrize("what", ["endpoint", "socket"])
def test_what_another_user_may_have_put_there_is_not_asked(shim, sidecar, home, make_foreign, what):
    file = home / "data/opencode/agent-memory/endpoint.json"
    if what == "socket":
        file = Path(json.loads(file.read_text())["socket"])
    make_foreign(file)
    assert inserted(shim.transform([user()])) is None
    assert sidecar.connections == 0
    assert "no endpoint in" in shim.logs()[0]


@pytest.mark.parametrize("make_foreign", FOREIGN)
def test_a_program_that_another_user_may_have_named_is_not_started(shim, home, make_foreign):
    folder = home / "data/opencode/agent-memory"
    folder.mkdir(parents=True)
    launcher, started = folder / "launcher.json", home / "started"
    script = f"open({str(started)!r}, 'w'); import time; time.sleep(1)"
    launcher.write_text(json.dumps({"version": "1", "command": [sys.executable, "-c", script]}))
    make_foreign(launcher)
    assert inserted(shim.transform([user()])) is None
    assert not started.exists()
    assert shim.transform([user()])["elapsed"] < 500
