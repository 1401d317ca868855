"""The service under a real `systemd --user`, where one runs and has no service of ours yet."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.client import connect
from sidecar.service.systemd import UNIT
from sidecar.settings import load_settings

from ..process import until
from .test_cli import run, run_json

RUNTIME = Path(f"/run/user/{os.getuid()}") if hasattr(os, "getuid") else Path("/nowhere")

pytestmark = pytest.mark.skipif(
    not (RUNTIME / "systemd" / "private").exists(), reason="no systemd --user"
)


def systemctl(*arguments: str) -> str:
    return subprocess.run(
        ["systemctl", "--user", *arguments], capture_output=True, text=True, check=False, timeout=30
    ).stdout.strip()


@pytest.fixture(autouse=True)
def manager(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The developer's own manager, and a unit whose folders are the sandbox's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(RUNTIME))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    if systemctl("show", "--property=LoadState", "--value", UNIT) != "not-found":
        pytest.skip("this user has the service already")
    yield
    run("service", "uninstall")
    assert systemctl("show", "--property=LoadState", "--value", UNIT) == "not-found"


def test_it_runs_comes_back_after_a_kill_and_goes_without_a_trace() -> None:
    settings = load_settings()
    assert run("service", "install").returncode == 0
    first = run_json("status")["data"]["sidecar"]
    assert str(first["pid"]) == systemctl("show", "--property=MainPID", "--value", UNIT)
    assert systemctl("show", "--property=NoNewPrivileges", "--value", UNIT) == "yes"
    assert run("service", "install").stdout.startswith("Already installed")

    os.kill(first["pid"], 9)

    def came_back() -> bool:
        done = run("status")
        return done.returncode == 0 and first["instance"] not in done.stdout

    until(came_back, "systemd to start it again")
    restarted = run_json("restart")["data"]
    assert str(restarted["pid"]) == systemctl("show", "--property=MainPID", "--value", UNIT)
    assert "listens on" in run("logs").stdout

    asked = {"instance": restarted["instance"], "hand_over": True}
    connect(settings).call("POST", "/v1/stop", asked)
    until(lambda: restarted["instance"] not in run("status").stdout and came_back(), "the next one")
    assert run("service", "uninstall").returncode == 0
    assert run("status").returncode == 3
