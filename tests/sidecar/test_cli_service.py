"""`opencode-memory service`, with a service that a test looks into, and with no manager at all."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.background import BackgroundError, running
from sidecar.cli import logs, start, stop
from sidecar.cli import service as command
from sidecar.cli.output import CommandError, ExitCode, Result
from sidecar.service import Service, ServiceError, State
from sidecar.settings import Settings

from .test_cli import run, run_json


class FakeService(Service):
    """Does at once what a manager would."""

    manager = "fake"

    def __init__(self, file: Path) -> None:
        self.file = file
        self.there = State(installed=False, current=False, enabled=False, running=False)
        self.acts: list[str] = []
        self.starts = True
        self.sidecar: subprocess.Popen[bytes] | None = None

    def state(self) -> State:
        return self.there

    def install(self) -> None:
        self.acts.append("install")
        self.there = State(installed=True, current=True, enabled=True, running=True)

    def restart(self) -> None:
        self.acts.append("restart")
        if self.starts:
            self.end()
            self.sidecar = subprocess.Popen([sys.executable, "-P", "-m", "sidecar", "serve"])

    def stop(self) -> None:
        self.acts.append("stop")
        self.end()

    def end(self) -> None:
        if self.sidecar:
            self.sidecar.kill()
            self.sidecar.wait(10)

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        return ["printf", f"last {lines}, follow {follow}"]

    def uninstall(self) -> None:
        self.acts.append("uninstall")
        self.there = State(installed=False, current=False, enabled=False, running=False)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    found = FakeService(tmp_path / "unit")
    monkeypatch.setattr("sidecar.service.find_service", lambda _settings: found)
    monkeypatch.setattr("sidecar.service.installed_service", lambda _settings: found)
    yield found
    found.end()


def act(action: str, settings: Settings) -> Result:
    return command.run(Namespace(action=action), settings)


def test_install_and_uninstall_say_what_they_did_and_what_was_so_already(
    service: FakeService, settings: Settings
) -> None:
    assert act("uninstall", settings).text == "The service was not installed."
    assert act("install", settings).text.startswith(f"Installed: {service.file}")
    assert act("install", settings).text == f"Already installed: {service.file}"
    assert act("uninstall", settings).text.startswith(f"Removed {service.file}.")
    assert service.acts == ["install", "uninstall"]


@pytest.mark.parametrize(
    ("state", "done"),
    [
        (State(installed=True, current=False, enabled=True, running=True), "Updated"),
        (State(installed=True, current=True, enabled=True, running=False), "Mended"),
        (State(installed=True, current=True, enabled=False, running=True), "Mended"),
    ],
)
def test_install_mends_what_is_not_as_wanted(
    state: State, done: str, service: FakeService, settings: Settings
) -> None:
    service.there = state
    assert act("install", settings).text.startswith(f"{done}: ")
    assert service.there.as_wanted


def test_installing_ends_a_sidecar_that_runs_without_the_service(
    service: FakeService, settings: Settings
) -> None:
    assert run("start").returncode == 0
    act("install", settings)
    assert run("status").returncode == 3  # the fake service starts none in its place


@pytest.mark.parametrize(
    ("state", "exit_code", "words"),
    [
        ((False, False, False, False), ExitCode.NOT_RUNNING, "not installed (fake); install it"),
        ((True, True, True, True), ExitCode.DONE, "running, starts with every login (fake: "),
        ((True, True, False, True), ExitCode.DONE, "Mend it: opencode-memory service install"),
        ((True, False, True, True), ExitCode.DONE, "is of another installation; run: "),
        ((True, True, True, False), ExitCode.NOT_RUNNING, "not running, starts with every login"),
    ],
)
def test_status_is_what_the_manager_says_and_exits_with_3_when_it_does_not_run(
    state: tuple[bool, bool, bool, bool],
    exit_code: ExitCode,
    words: str,
    service: FakeService,
    settings: Settings,
) -> None:
    installed, current, enabled, running = state
    service.there = State(installed=installed, current=current, enabled=enabled, running=running)
    result = act("status", settings)
    assert result.exit_code == exit_code
    assert result.code is None
    assert words in result.text
    assert result.data == {
        "manager": "fake",
        "file": str(service.file),
        "installed": installed,
        "current": current,
        "enabled": enabled,
        "running": running,
    }


@pytest.mark.parametrize("name", ["start", "restart"])
def test_start_and_restart_go_through_the_service(
    name: str, service: FakeService, settings: Settings
) -> None:
    run_command = importlib.import_module(f"sidecar.cli.{name}").run
    started = run_command(Namespace(), settings).data
    assert service.sidecar is not None
    assert started["pid"] == service.sidecar.pid
    assert service.acts == ["restart"]


def test_stop_goes_through_the_service_and_ends_one_that_it_does_not_know(
    service: FakeService, settings: Settings
) -> None:
    started = start.run(Namespace(), settings).data
    assert f"{started['instance']} " in stop.run(Namespace(), settings).text
    assert stop.run(Namespace(), settings).text == "The sidecar was not running."
    assert service.acts == ["restart", "stop", "stop"]
    run("start")  # in a process that knows of no service
    assert stop.run(Namespace(), settings).text.startswith("Stopped: sidecar")
    assert running(settings) is None


@pytest.mark.parametrize("name", ["start", "restart", "stop"])
def test_a_sidecar_that_hangs_is_ended_by_its_service(
    name: str, service: FakeService, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.background.HEALTH_SECONDS", 0.5)
    hung = start.run(Namespace(), settings).data
    assert service.sidecar is not None
    service.sidecar.send_signal(signal.SIGSTOP)
    done = importlib.import_module(f"sidecar.cli.{name}").run(Namespace(), settings)
    if name == "stop":
        assert "did not answer" in done.text
        assert running(settings) is None
    else:
        assert done.data["instance"] != hung["instance"]


def test_a_service_that_starts_nothing_is_a_failure_that_names_its_log(
    service: FakeService, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.background.START_SECONDS", 0.1)
    service.starts = False
    with pytest.raises(BackgroundError, match="opencode-memory logs"):
        start.run(Namespace(), settings)


def test_logs_of_a_service_are_the_managers(service: FakeService, settings: Settings) -> None:
    options = Namespace(lines=7, follow=False, json=False)
    printed = logs.run(options, settings)
    assert printed.text == "last 7, follow False"
    assert printed.aside == "from `printf 'last 7, follow False'`"


def test_a_manager_that_refuses_is_a_failure_in_its_own_words(
    service: FakeService, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ServiceError("`systemctl --user restart` failed: Job failed.")

    monkeypatch.setattr(service, "install", refuse)
    with pytest.raises(CommandError, match="Job failed") as raised:
        act("install", settings)
    assert raised.value.code == "service_error"
    assert raised.value.exit_code == ExitCode.FAILED


@pytest.mark.parametrize("action", ["install", "uninstall", "status"])
def test_without_a_service_manager_it_says_so_and_names_start(
    action: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemctl, no launchctl
    done = run("service", action)
    assert (done.returncode, done.stdout) == (1, "")
    assert "opencode-memory start" in done.stderr
    assert run_json("service", action)["errors"][0]["code"] == "no_service_manager"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["install", "status"]])
def test_one_action_is_needed(arguments: list[str]) -> None:
    assert run("service", *arguments).returncode == 2
