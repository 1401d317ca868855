"""After an upgrade: a newer shim, a sidecar from before it, and the other way round."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from ..process import Child, until
from .conftest import ROOT, transform_in_many
from .history import inserted, user
from .stub import MARKER, TEXT, no_content, then_stall, whole


def copy_with(folder: Path, **values: object) -> Path:
    """The Python packages, with these constants of the sidecar's in place of the real ones."""
    for package in ("sidecar", "snapshots"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignore)
    file = folder / "sidecar" / "__init__.py"
    lines = file.read_text(encoding="utf-8").splitlines()
    for name, value in values.items():
        (number,) = (n for n, line in enumerate(lines) if line.startswith(f"{name} = "))
        lines[number] = f"{name} = {value!r}"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class Installation:
    """What `install` has recorded, and a sidecar of another version that runs already."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home = home
        self.env = env
        self.data = home / "data" / "opencode" / "agent-memory"
        self.children: list[Child] = []

    def record(self, version: str, packages: Path = ROOT) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        script = f"import sys; sys.path.insert(0, {str(packages)!r}); import sidecar.cli as c; "
        script += "sys.argv[1:] = ['serve', '--background']; c.console()"
        command = [sys.executable, "-P", "-c", script]
        fields = {"version": version, "command": command}
        (self.data / "launcher.json").write_text(json.dumps(fields))

    def serve(self, packages: Path, *arguments: str) -> Child:
        command = [sys.executable, "-P", "-m", "sidecar", "serve", *arguments]
        env = {**self.env, "PYTHONPATH": str(packages)}
        child = Child(command, env, self.home, self.home / "older.log")
        self.children.append(child)
        until(lambda: self.endpoint().get("pid") == child.pid, "the older sidecar")
        return child

    def endpoint(self) -> dict:
        file = self.data / "endpoint.json"
        return json.loads(file.read_bytes()) if file.exists() else {}

    def end(self) -> None:
        command = [sys.executable, "-P", "-m", "sidecar", "stop"]
        stopping = Child(command, self.env, self.home, self.home / "stop.log")
        until(lambda: not stopping.alive(), "the sidecar to stop")
        for child in self.children:
            child.end()


@pytest.fixture
def installation(home, env):
    env.pop("BUN_BE_BUN")
    installation = Installation(home, env)
    yield installation
    installation.end()


@pytest.fixture
def new_shim(start_shim):
    return lambda: start_shim(BUN_BE_BUN="1")


@pytest.mark.parametrize(
    ("version", "protocol"),
    [("0.0.9", 1), ("0.0.9", 0), ("0.1.0rc1", 1), ("0.1.0.dev3", 1)],
    ids=["same-protocol", "older-protocol", "release-candidate", "development"],
)
def test_a_newer_shim_has_an_older_sidecar_make_way_and_sessions_keep_their_bytes(
    new_shim, installation, home, version, protocol
):
    older = copy_with(home / "older", __version__=version, PROTOCOL=protocol)
    installation.record(version, older)
    child = installation.serve(older)
    memory = home / "config" / "opencode" / "memory" / "human.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("Prefers short answers.")
    before = None
    if protocol == 1:
        before = inserted(new_shim().transform([user()]))
        assert "short answers" in before
    memory.write_text("Prefers long answers.")
    installation.record("0.1.0")

    shim = new_shim()
    after = inserted(shim.transform([user()]))

    assert after is not None
    assert before in (None, after)
    assert installation.endpoint()["version"] == "0.1.0"
    assert child.returncode == 0
    told = f"is still version {version}; 0.1.0 takes its place"
    assert any(told in line for line in shim.logs())
    assert shim.toasts() == []


def test_a_service_is_left_by_failing_so_that_its_manager_starts_what_is_installed(
    new_shim, installation, home
):
    older = copy_with(home / "older", __version__="0.0.9")
    child = installation.serve(older, "--service")
    installation.record("0.1.0")

    assert inserted(new_shim().transform([user()])).startswith(MARKER)
    until(lambda: not child.alive(), "the service to end")
    assert child.returncode == 1


@pytest.mark.parametrize("launched", ["0.0.9", "0.0.1", "0.0.9rc9", "0.1.0"])
def test_a_launcher_that_starts_no_newer_one_ends_no_sidecar_twice(
    new_shim, installation, home, launched
):
    older = copy_with(home / "older", __version__="0.0.9")
    child = installation.serve(older)
    installation.record(launched, older)

    shim = new_shim()
    for number in range(5):
        assert inserted(shim.transform([user(session=f"ses_{number}")])).startswith(MARKER)

    # One that claims to start the new version is believed once.
    assert (child.returncode is None) == (launched != "0.1.0")
    assert installation.endpoint()["version"] == "0.0.9"
    log = home / "state" / "opencode-memory" / "log" / "sidecar.log"
    assert (log.read_text().count(" listens on ") if log.exists() else 0) == (launched == "0.1.0")


def test_twenty_newer_shims_at_once_lead_to_one_new_sidecar(env, installation, home):
    older = copy_with(home / "older", __version__="0.0.9")
    installation.serve(older)
    installation.record("0.1.0")

    texts = transform_in_many(20, env, home / "work")

    assert len(texts) == 1
    assert texts.pop().startswith(MARKER)
    log = home / "state" / "opencode-memory" / "log" / "sidecar.log"
    assert log.read_text().count(" listens on ") == 1


def test_a_newer_sidecar_of_the_same_protocol_serves_an_older_shim(new_shim, installation, home):
    newer = copy_with(home / "newer", __version__="9.0.0")
    child = installation.serve(newer)
    installation.record("9.0.0", newer)

    shim = new_shim()
    assert inserted(shim.transform([user()])).startswith(MARKER)
    assert child.alive()
    assert shim.logs() == []


def test_of_two_versions_before_the_release_the_newer_takes_the_older_s_place(
    new_shim, installation, home
):
    older = copy_with(home / "older", __version__="0.1.0rc1")
    installation.serve(older)
    installation.record("0.1.0rc2", copy_with(home / "newer", __version__="0.1.0rc2"))

    assert inserted(new_shim().transform([user()])).startswith(MARKER)
    assert installation.endpoint()["version"] == "0.1.0rc2"


def pretend(home: Path, running: str | None, launched: str) -> None:
    """The sidecar that runs says this version of itself, and the launcher that one."""
    file = home / "data/opencode/agent-memory/endpoint.json"
    facts = {**json.loads(file.read_text()), "version": running}
    file.write_text(json.dumps({key: fact for key, fact in facts.items() if fact is not None}))
    launcher = {"version": launched, "command": [sys.executable, "-c", ""]}
    file.with_name("launcher.json").write_text(json.dumps(launcher))


@pytest.mark.parametrize(
    ("running", "launched"), [(None, "9.0.0"), ("", "9.0.0"), ("dev", "9.0.0"), ("0.0.10", "0.0.9")]
)
def test_a_sidecar_that_is_not_surely_older_is_asked_and_not_ended(
    shim, home, sidecar, running, launched
):
    pretend(home, running, launched)

    assert inserted(shim.transform([user()])) == TEXT
    assert len(sidecar.requests) == 1


@pytest.mark.parametrize("to_stop", [whole(no_content()), then_stall()], ids=["agrees", "hangs"])
def test_an_older_sidecar_that_does_not_make_way_is_asked_as_it_is(shim, home, sidecar, to_stop):
    def answer(sidecar, connection, request):
        stops = request.line.startswith("POST /v1/stop ")
        (to_stop if stops else whole())(sidecar, connection, request)

    sidecar.answer = answer
    pretend(home, "0.0.9", "0.1.0")

    for _ in range(2):
        assert inserted(shim.transform([user()])) == TEXT
    assert len(sidecar.requests) == 3


def test_an_older_sidecar_whose_words_are_not_understood_is_given_time_to_make_way(
    shim, home, start_sidecar
):
    def answer(sidecar, connection, request):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        if request.line.startswith("POST /v1/stop "):
            sidecar.stopped.wait(0.3)
            start_sidecar()

    start_sidecar().answer = answer
    pretend(home, "0.0.9", "0.1.0")

    assert inserted(shim.transform([user()])) == TEXT


def test_a_shim_that_an_upgrade_left_behind_ends_no_sidecar_of_its_own_version(
    new_shim, installation
):
    child = installation.serve(ROOT)
    installation.record("9.0.0")

    assert inserted(new_shim().transform([user()])).startswith(MARKER)
    assert child.alive()


def test_an_older_shim_at_a_newer_protocol_says_once_what_mends_it(new_shim, installation, home):
    newer = copy_with(home / "newer", __version__="9.0.0", PROTOCOL=2)
    installation.serve(newer)
    installation.record("9.0.0", newer)

    shim = new_shim()
    for number in range(3):
        assert inserted(shim.transform([user(session=f"ses_{number}")])) is None

    (line,) = shim.logs()
    assert "opencode-memory install" in line
    assert shim.toasts() == [line]
