"""What each service manager is given and asked; and systemd itself, where one can run."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sidecar.service import (
    ARGUMENTS,
    NoServiceManagerError,
    ServiceError,
    find_service,
    folder_variables,
    installed_service,
    launchd,
    run_captured,
)
from sidecar.service.launchd import Launchd, render_plist
from sidecar.service.systemd import UNIT, Systemd, render_unit
from sidecar.service.windows import TaskScheduler, render_task, with_variables
from sidecar.settings import Settings, load_settings

GOLDEN = Path(__file__).parents[1] / "golden"
COMMAND = ["/home/jö doe/.local/share/pipx/venvs/opencode memory/bin/python", *ARGUMENTS]
VARIABLES = {"XDG_DATA_HOME": '/srv/100% "dätä"', "OPENCODE_CONFIG_DIR": "/home/jö doe/c"}
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
AWKWARD = ["a b", "100%t", 'a "q"', "it's", "back\\slash", "${HOME}", "jö ✓", "semi;colon", "a=b"]


class FakeManager:
    """Says and refuses what it was told to, by a part of the command; remembers the commands."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.says: dict[str, str] = {}
        self.refuses: dict[str, str] = {}

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        line = " ".join(command)
        self.asked.append(line)
        for part, words in self.refuses.items():
            if part in line:
                return subprocess.CompletedProcess(command, 1, "", f"{words}\n")
        said = next((words for part, words in self.says.items() if part in line), "")
        return subprocess.CompletedProcess(command, 0, said, "")

    def acts(self) -> list[str]:
        """What it was asked to do, without the questions."""
        questions = ("show", "print", "whoami", "Get-ScheduledTask")
        return [line for line in self.asked if not any(word in line for word in questions)]


# systemd


class FakeSystemd(FakeManager):
    def __init__(self, **properties: str) -> None:
        super().__init__()
        self.tell(LoadState="not-found", ActiveState="inactive", UnitFileState="", FragmentPath="")
        self.tell(**properties)

    def tell(self, **properties: str) -> None:
        for name, value in properties.items():
            self.says[f"--property={name} "] = f"{name}={value}\n"

    def enabled_and_running(self) -> None:
        self.tell(LoadState="loaded", ActiveState="active", UnitFileState="enabled")


def systemd(tmp_path: Path, manager: FakeManager, *, python: str = "/usr/bin/python3") -> Systemd:
    return Systemd(tmp_path / "units" / UNIT, [python, *ARGUMENTS], {}, manager)


def test_the_unit_is_the_golden_one() -> None:
    golden = (GOLDEN / "opencode-memory.service").read_text(encoding="utf-8")
    assert render_unit(COMMAND, VARIABLES) == golden


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
@pytest.mark.parametrize("name", AWKWARD)
def test_systemd_finds_nothing_wrong_with_the_unit(name: str, tmp_path: Path) -> None:
    program = tmp_path / name / "python"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    unit = tmp_path / UNIT
    unit.write_text(render_unit([str(program), *ARGUMENTS], {"XDG_DATA_HOME": str(program.parent)}))
    command = ["systemd-analyze", "verify", "--user", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ['a "q"', "it's", "back\\slash", "${HOME}"])
def test_a_program_whose_path_systemd_refuses_is_started_by_a_shell(name: str) -> None:
    (start,) = (line for line in render_unit([f"/{name}/x"], {}).splitlines() if "Exec" in line)
    assert start.startswith('ExecStart="/bin/sh" "-c" "exec \\"$$0\\" \\"$$@\\"" ')


@pytest.mark.parametrize("name", [*AWKWARD, "C:\\"])
def test_systemd_reads_the_words_that_it_was_given(name: str) -> None:
    unit = render_unit(["/usr/bin/python3", name], {"XDG_DATA_HOME": name})
    lines = dict(line.split("=", 1) for line in unit.splitlines() if line.startswith(("Ex", "En")))
    read = {
        option: [word.replace("%%", "%") for word in shlex.split(line)]
        for option, line in lines.items()
    }
    assert [word.replace("$$", "$") for word in read["ExecStart"]] == ["/usr/bin/python3", name]
    assert read["Environment"] == [f"XDG_DATA_HOME={name}"]


def test_a_folder_with_a_line_end_in_its_name_makes_no_line_of_the_unit() -> None:
    folder = "/x\nExecStartPre=/bin/evil"
    options = [line.partition("=")[0] for line in render_unit([folder], {"A": folder}).splitlines()]
    assert "ExecStartPre" not in options
    assert options.count("ExecStart") == options.count("Environment") == 1


def test_a_program_whose_path_is_not_utf8_is_named_by_its_bytes(tmp_path: Path) -> None:
    manager = FakeSystemd()
    service = systemd(tmp_path, manager, python="/usr/bin/py\udcff")
    service.install()
    assert b'"/usr/bin/py\xff"' in service.file.read_bytes()


def test_systemd_puts_no_variable_in_the_place_of_a_folders_name() -> None:
    assert '"/$${HOME}/x"' in render_unit(["/${HOME}/x"], {})


def test_the_unit_needs_nothing_that_a_users_manager_may_lack() -> None:
    options = [line.partition("=")[0] for line in render_unit(COMMAND, {}).splitlines()]
    assert [name for name in options if name.startswith(("Private", "Protect", "ReadWrite"))] == []


def test_installing_writes_the_unit_enables_it_and_starts_it(tmp_path: Path) -> None:
    manager = FakeSystemd()
    service = systemd(tmp_path, manager)
    assert not service.state().installed
    service.install()
    assert service.file.read_text() == render_unit(["/usr/bin/python3", *ARGUMENTS], {})
    assert service.file.stat().st_mode & 0o777 == 0o644
    assert manager.acts() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {service.file}",
        f"systemctl --user restart {UNIT}",
    ]
    manager.enabled_and_running()
    assert service.state().as_wanted


def test_a_unit_of_another_installation_is_not_current(tmp_path: Path) -> None:
    manager = FakeSystemd()
    systemd(tmp_path, manager, python="/removed/venv/bin/python").install()
    manager.enabled_and_running()
    service = systemd(tmp_path, manager)
    state = service.state()
    assert state.installed
    assert not state.current
    service.install()
    assert service.state().as_wanted


def test_five_failed_starts_do_not_count_against_an_installation(tmp_path: Path) -> None:
    manager = FakeSystemd(LoadState="loaded", ActiveState="failed", UnitFileState="enabled")
    systemd(tmp_path, manager).install()
    assert manager.acts()[-2:] == [
        f"systemctl --user reset-failed {UNIT}",
        f"systemctl --user restart {UNIT}",
    ]


def test_a_unit_is_found_where_another_shells_variables_put_it(tmp_path: Path) -> None:
    there = tmp_path / "elsewhere" / UNIT
    service = systemd(tmp_path, FakeSystemd(LoadState="loaded", FragmentPath=str(there)))
    assert service.file == there
    service.install()
    assert there.exists()
    service.uninstall()
    assert not there.exists()


def test_uninstalling_stops_the_unit_and_leaves_nothing(tmp_path: Path) -> None:
    manager = FakeSystemd()
    service = systemd(tmp_path, manager)
    service.install()
    manager.asked.clear()
    service.uninstall()
    assert not service.file.exists()
    assert manager.acts() == [
        f"systemctl --user disable --now {UNIT}",
        "systemctl --user daemon-reload",
    ]
    assert not service.state().installed


def test_a_unit_whose_file_is_gone_is_still_installed_as_long_as_systemd_runs_it(
    tmp_path: Path,
) -> None:
    manager = FakeSystemd()
    manager.enabled_and_running()
    state = systemd(tmp_path, manager).state()
    assert (state.installed, state.current, state.running) == (True, False, True)


@pytest.mark.parametrize("verb", ["daemon-reload", "enable", "restart", "disable", "show"])
def test_what_systemd_refuses_is_told_in_its_own_words(verb: str, tmp_path: Path) -> None:
    manager = FakeSystemd()
    service = systemd(tmp_path, manager)
    manager.refuses[f" {verb} "] = manager.refuses[f" {verb}"] = "Access denied by the moon."
    act = service.uninstall if verb == "disable" else service.install
    with pytest.raises(ServiceError, match=rf"systemctl --user {verb}.*Access denied by the moon"):
        act()


# launchd


class FakeLaunchd(FakeManager):
    def __init__(self) -> None:
        super().__init__()
        self.loaded = False
        self.says["print-disabled"] = '\tdisabled services = {\n\t\t"other" => disabled\n\t}\n'

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        done = super().__call__(command)
        if done.returncode == 0 and command[1] in ("bootstrap", "bootout"):
            self.loaded = command[1] == "bootstrap"
        if command[1:] == ["print", "gui/501/opencode-memory"]:
            said = "gui/501/opencode-memory = {\n\tpath = x\n\tstate = running\n\n\tpid = 4\n}\n"
            return subprocess.CompletedProcess(command, 0 if self.loaded else 113, said, "")
        return done


def agent(tmp_path: Path, manager: FakeManager, *, python: str = "/usr/bin/python3") -> Launchd:
    log = tmp_path / "logs" / "sidecar.log"
    file = tmp_path / "LaunchAgents"
    return Launchd(file, [python, *ARGUMENTS], {}, manager, log=log, uid=501)


def test_the_plist_is_the_golden_one_and_says_what_it_was_given() -> None:
    plist = render_plist(COMMAND, VARIABLES, Path("/Users/jö doe/Library/Logs/sidecar.log"))
    assert plist == (GOLDEN / "opencode-memory.plist").read_bytes()
    read = plistlib.loads(plist)
    assert read["ProgramArguments"] == COMMAND
    assert read["EnvironmentVariables"] == VARIABLES
    assert read["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.skipif(not shutil.which("plutil"), reason="no plutil: not macOS")
def test_macos_finds_nothing_wrong_with_the_plist() -> None:
    subprocess.run(["plutil", "-lint", GOLDEN / "opencode-memory.plist"], check=True)


def test_an_agent_is_written_and_loaded(tmp_path: Path) -> None:
    manager = FakeLaunchd()
    service = agent(tmp_path, manager)
    assert not service.state().installed
    service.install()
    assert (tmp_path / "logs").is_dir()
    assert manager.acts() == [
        "launchctl enable gui/501/opencode-memory",
        f"launchctl bootstrap gui/501 {service.file}",
    ]
    assert service.state().as_wanted


def test_a_changed_agent_takes_the_place_of_the_loaded_one(tmp_path: Path) -> None:
    manager = FakeLaunchd()
    agent(tmp_path, manager, python="/removed/venv/bin/python").install()
    service = agent(tmp_path, manager)
    assert not service.state().current
    manager.asked.clear()
    service.install()
    assert [line.split()[1] for line in manager.acts()] == ["bootout", "enable", "bootstrap"]
    assert service.state().as_wanted


@pytest.mark.parametrize("words", ["disabled", "true"])
def test_an_agent_that_was_disabled_by_hand_is_not_enabled(words: str, tmp_path: Path) -> None:
    manager = FakeLaunchd()
    service = agent(tmp_path, manager)
    service.install()
    manager.says["print-disabled"] = f'\t\t"opencode-memory" => {words}\n'
    assert not service.state().enabled


def test_an_agent_is_unloaded_and_removed(tmp_path: Path) -> None:
    manager = FakeLaunchd()
    service = agent(tmp_path, manager)
    service.install()
    service.uninstall()
    assert not manager.loaded
    assert not service.file.exists()
    service.uninstall()
    assert not service.state().installed


def test_an_agent_that_launchd_keeps_is_told_in_launchds_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchd, "UNLOAD_SECONDS", -1.0)
    manager = FakeLaunchd()
    service = agent(tmp_path, manager)
    service.install()
    manager.refuses["bootout"] = "Boot-out failed: 5: Input/output error"
    with pytest.raises(ServiceError, match="Boot-out failed: 5"):
        service.uninstall()
    assert service.file.exists()


@pytest.mark.parametrize("verb", ["enable", "bootstrap"])
def test_what_launchd_refuses_is_told_in_its_own_words(verb: str, tmp_path: Path) -> None:
    manager = FakeLaunchd()
    service = agent(tmp_path, manager)
    manager.refuses[verb] = "125: Domain does not support specified action"
    with pytest.raises(ServiceError, match=f"launchctl {verb} .* failed: 125"):
        service.install()


# The Task Scheduler


def task(tmp_path: Path, manager: FakeManager) -> TaskScheduler:
    manager.says["whoami"] = "pc\\jö\r\n"
    file = tmp_path / "data" / "task.xml"
    return TaskScheduler(file, [r"C:\Py thon\pythonw.exe", *ARGUMENTS], {}, manager)


def test_the_task_is_the_golden_one_and_says_what_it_was_given() -> None:
    command = [r"C:\Users\Jö & Doe\py thon\pythonw.exe", *ARGUMENTS, "a b"]
    text = render_task(command, r"PC\Jö")
    assert text == (GOLDEN / "opencode-memory-task.xml").read_text(encoding="utf-8")
    read = ElementTree.fromstring(text)
    assert read.findtext(f".//{TASK}Command") == command[0]
    assert read.findtext(f".//{TASK}Arguments") == '-P -m sidecar serve --service "a b"'
    assert {element.text for element in read.iter(f"{TASK}UserId")} == {r"PC\Jö"}


@pytest.mark.parametrize("value", ["/d", r"C:\Jö's \"x\" %TEMP%", "\\\\server\\share\\"])
def test_a_tasks_sidecar_starts_with_the_variables_it_was_installed_with(
    value: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-P", "-m", "sidecar", "config", "--json"]
    assert with_variables(command, {}) == command
    changed = with_variables(command, {"XDG_CONFIG_HOME": value})
    read = ElementTree.fromstring(render_task(changed, "me"))
    arguments = read.findtext(f".//{TASK}Arguments")
    assert arguments == subprocess.list2cmdline(changed[1:])
    assert "%" not in arguments
    (tmp_path / "sidecar").mkdir()
    (tmp_path / "sidecar" / "__init__.py").write_text("raise SystemExit('of a project')")
    said = json.loads(subprocess.check_output(changed, cwd=tmp_path))["data"]["files"]
    assert said == [str(tmp_path / value / "opencode" / "agent-memory.json")]


def test_a_task_is_made_from_its_file_and_run(tmp_path: Path) -> None:
    manager = FakeManager()
    service = task(tmp_path, manager)
    assert not service.state().installed
    service.install()
    assert "PC" not in service.file.read_bytes().decode("utf-16")
    assert "pc\\jö" in service.file.read_bytes().decode("utf-16")
    assert manager.acts() == [
        f"schtasks /Create /TN opencode-memory /XML {service.file} /F",
        "schtasks /Run /TN opencode-memory",
    ]
    manager.says["Get-ScheduledTask"] = "Running\r\n"
    assert service.state().as_wanted


@pytest.mark.parametrize(
    ("said", "enabled", "running"),
    [("Ready\r\n", True, False), ("Running\r\n", True, True), ("Disabled\r\n", False, False)],
)
def test_a_tasks_state_is_as_the_scheduler_says(
    said: str, enabled: bool, running: bool, tmp_path: Path
) -> None:
    manager = FakeManager()
    manager.says["Get-ScheduledTask"] = said
    state = task(tmp_path, manager).state()
    assert (state.installed, state.enabled, state.running) == (True, enabled, running)


def test_a_task_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    manager = FakeManager()
    manager.refuses["Get-ScheduledTask"] = "No MSFT_ScheduledTask objects found"
    assert not task(tmp_path, manager).state().installed


def test_a_running_task_is_ended_before_it_is_replaced_or_deleted(tmp_path: Path) -> None:
    manager = FakeManager()
    manager.says["Get-ScheduledTask"] = "Running\r\n"
    service = task(tmp_path, manager)
    service.install()
    service.uninstall()
    verbs = [line.split()[1] for line in manager.acts()]
    assert verbs == ["/End", "/Create", "/Run", "/End", "/Delete"]
    assert not service.file.exists()


def test_what_the_scheduler_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    manager = FakeManager()
    service = task(tmp_path, manager)
    manager.refuses["/Create"] = "ERROR: Access is denied."
    with pytest.raises(ServiceError, match=r"/Create .* failed: ERROR: Access is denied"):
        service.install()


# Which one


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "systemd"), ("darwin", "launchd"), ("win32", "Task Scheduler")],
)
def test_each_platform_has_its_own_manager(
    platform: str, name: str, settings: Settings, home: Path
) -> None:
    manager = FakeSystemd()
    manager.says["whoami"] = "pc\\me"
    service = find_service(settings, manager, platform)
    assert service.manager == name
    assert service.file.is_relative_to(home)


@pytest.mark.parametrize(
    ("platform", "question", "words"),
    [
        ("linux", "systemctl --user", "Failed to connect to bus: No medium found"),
        ("darwin", "launchctl print gui/", "Could not find domain for user gui: 501"),
    ],
)
def test_where_no_manager_answers_it_is_said_and_start_is_named(
    platform: str, question: str, words: str, settings: Settings
) -> None:
    manager = FakeManager()
    manager.refuses[question] = words
    with pytest.raises(NoServiceManagerError, match="opencode-memory start") as raised:
        find_service(settings, manager, platform)
    assert words in str(raised.value)


def test_a_systemctl_that_says_nothing_as_in_a_chroot_is_no_manager(settings: Settings) -> None:
    with pytest.raises(NoServiceManagerError):
        find_service(settings, FakeManager(), "linux")


def test_a_manager_whose_program_is_not_there_is_no_manager(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoServiceManagerError, match="There is no systemctl"):
        find_service(settings, run_captured, "linux")


def test_a_manager_that_never_answers_is_not_waited_for_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("sidecar.service.ANSWER_SECONDS", 0.2)
    with pytest.raises(NoServiceManagerError, match="took longer than"):
        find_service(settings, run_captured, "linux")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_service_that_is_not_installed_is_found_out_without_asking_anybody(
    platform: str, settings: Settings
) -> None:
    manager = FakeSystemd()
    manager.says["whoami"] = "pc\\me"
    assert installed_service(settings, manager, platform) is None
    assert manager.asked == []
    file = find_service(settings, manager, platform).file
    file.parent.mkdir(parents=True)
    file.touch()
    service = installed_service(settings, manager, platform)
    assert service is not None
    assert service.file == file


def test_the_units_log_is_the_journals_and_the_others_are_our_file(tmp_path: Path) -> None:
    service = systemd(tmp_path, FakeSystemd())
    unit = ["journalctl", "--user", f"--unit={UNIT}", "--output=cat"]
    assert service.log_command(9, follow=False) == [*unit, "--lines=9", "--no-pager"]
    assert service.log_command(9, follow=True) == [*unit, "--lines=9", "--follow"]
    assert agent(tmp_path, FakeLaunchd()).log_command(9, follow=True) == []
    assert task(tmp_path, FakeManager()).log_command(9, follow=True) == []


def test_a_service_that_hangs_is_started_again_by_its_manager(tmp_path: Path) -> None:
    manager = FakeSystemd(LoadState="loaded", ActiveState="active")
    systemd(tmp_path, manager).restart()
    assert manager.acts() == [f"systemctl --user restart {UNIT}"]
    loaded = FakeLaunchd()
    service = agent(tmp_path, loaded)
    service.restart()
    service.restart()
    assert [line.split()[1] for line in loaded.acts()] == ["bootstrap", "kickstart", "kickstart"]
    assert "-k" in loaded.acts()[-1].split()
    scheduler = FakeManager()
    scheduler.says["Get-ScheduledTask"] = "Running"
    task(tmp_path, scheduler).restart()
    assert [line.split()[1] for line in scheduler.acts()] == ["/End", "/Run"]


def test_stopping_leaves_the_service_installed(tmp_path: Path) -> None:
    manager = FakeSystemd(LoadState="loaded", ActiveState="active")
    systemd(tmp_path, manager).stop()
    assert manager.acts() == [f"systemctl --user stop {UNIT}"]
    loaded = FakeLaunchd()
    service = agent(tmp_path, loaded)
    service.install()
    service.stop()
    assert not service.state().running
    assert service.state().enabled
    scheduler = FakeManager()
    scheduler.says["Get-ScheduledTask"] = "Running"
    task(tmp_path, scheduler).stop()
    assert [line.split()[1] for line in scheduler.acts()] == ["/End"]


def test_the_service_is_given_the_variables_that_moved_our_folders_and_no_others(
    home: Path, tmp_path: Path
) -> None:
    assert folder_variables(load_settings()) == {}
    moved = {
        "XDG_DATA_HOME": str(tmp_path / "d a"),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "OPENCODE_CONFIG_DIR": str(tmp_path / "ö"),
    }
    for name, value in moved.items():
        settings = load_settings({name: value})
        assert folder_variables(settings) == {name: value}
    assert folder_variables(load_settings(moved)) == moved


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_each_platforms_service_is_written_with_those_variables(
    platform: str, tmp_path: Path
) -> None:
    manager = FakeSystemd()
    manager.says["whoami"] = "pc\\me"
    manager.says["print-disabled"] = ""
    manager.refuses[f"launchctl print gui/{os.getuid()}/opencode-memory"] = "not loaded"
    settings = load_settings({"XDG_DATA_HOME": str(tmp_path / "moved")})
    service = find_service(settings, manager, platform)
    service.install()
    content = service.file.read_bytes()
    assert str(tmp_path / "moved") in content.decode("utf-16" if platform == "win32" else "utf-8")
