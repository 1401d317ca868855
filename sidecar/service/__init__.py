"""The background service: the sidecar under the platform's own service manager.

A service manager is systemd, launchd or the Windows Task Scheduler, each a module here. What it
reads is a pure function of the command and the environment; what it does goes through a runner.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path

from sidecar.settings import load_settings, log_file
from snapshots.atomic import write_atomic

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from sidecar.settings import Settings

    Runner = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]

NAME = "opencode-memory"
ANSWER_SECONDS = 30.0
"""How long a service manager may take; a restart stops a hung sidecar first, for ten seconds."""
ARGUMENTS = ("-P", "-m", "sidecar", "serve", "--service")
"""Arguments of the interpreter. -P: folders of our names where it starts are never imported."""


class ServiceError(Exception):
    """A service manager that refused; the message has its own words."""

    code = "service_error"


class NoServiceManagerError(ServiceError):
    """None is there, as in a container or in WSL without systemd."""

    code = "no_service_manager"


class State:
    """What there is, as the service manager says."""

    __slots__ = ("current", "enabled", "installed", "running")

    def __init__(self, *, installed: bool, current: bool, enabled: bool, running: bool) -> None:
        self.installed = installed
        self.current = current  # its file is what this installation would write
        self.enabled = enabled  # it starts with the user's session
        self.running = running

    @property
    def as_wanted(self) -> bool:
        """There is nothing left for an installation to do."""
        return self.current and self.enabled and self.running


class Service(ABC):
    """The sidecar as one service manager knows it, by the file that describes it.

    Making one raises ServiceError if the manager does not answer.
    """

    manager: str

    def __init__(self, file: Path, content: bytes, runner: Runner) -> None:
        self.file = file
        self._content = content
        self._runner = runner

    @abstractmethod
    def state(self) -> State:
        """Ask the manager."""

    @abstractmethod
    def install(self) -> None:
        """Write the file, have it started with every session of the user, and start it now.

        Raises ServiceError.
        """

    @abstractmethod
    def uninstall(self) -> None:
        """Stop it, and leave nothing behind.

        Raises ServiceError.
        """

    @abstractmethod
    def restart(self) -> None:
        """Start it, or start it again, hung or not.

        Raises ServiceError.
        """

    @abstractmethod
    def stop(self) -> None:
        """End it, hung or not, until it is started again or the user logs in again.

        Raises ServiceError.
        """

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Return the command that prints its log; empty if that is the file of `log_file()`."""
        return []

    def _is_current(self) -> bool:
        return self.file.is_file() and self.file.read_bytes() == self._content

    def _write_file(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.file, self._content, mode=0o644)

    def _call(self, *command: str) -> str:
        """Run one command of the manager and return what it printed.

        Raises ServiceError.
        """
        done = self._runner(command)
        if done.returncode != 0:
            words = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            raise ServiceError(f"`{' '.join(command)}` failed: {words}")
        return done.stdout


def find_service(
    settings: Settings, runner: Runner | None = None, platform: str = sys.platform
) -> Service:
    """Return this platform's service, installed or not.

    Raises NoServiceManagerError.
    """
    make = {"darwin": _launchd, "win32": _windows}.get(platform, _systemd)
    try:
        return make(settings, runner or run_captured)
    except ServiceError as error:
        raise NoServiceManagerError(
            f"No service manager answers here: {error}\n"
            "Do without: opencode-memory start (and OpenCode starts the sidecar by itself)."
        ) from error


def installed_service(
    settings: Settings, runner: Runner | None = None, platform: str = sys.platform
) -> Service | None:
    """Return this platform's service if it is installed; where its file is not, nobody is asked.

    Raises NoServiceManagerError if the file is there and no manager.
    """
    if not service_file(settings, platform).exists():
        return None
    return find_service(settings, runner, platform)


def service_file(settings: Settings, platform: str) -> Path:
    """Return the file that describes the service to its manager."""
    if platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{NAME}.plist"
    if platform == "win32":
        return settings.data_folder / f"{NAME}-task.xml"
    return settings.config_folders[0].parent / "systemd" / "user" / f"{NAME}.service"


def run_captured(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a service manager's command; what it prints is captured, for a message to quote."""
    import subprocess

    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        words = f"It took longer than {ANSWER_SECONDS:.0f} seconds."
        return subprocess.CompletedProcess(command, 124, "", words)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"There is no {command[0]}.")


def folder_variables(settings: Settings) -> dict[str, str]:
    """Return the variables that moved our folders: a service starts without the shell's."""
    usual = load_settings({})
    variables = {}
    if settings.data_folder != usual.data_folder:
        variables["XDG_DATA_HOME"] = str(settings.data_folder.parents[1])
    if settings.config_folders[0] != usual.config_folders[0]:
        variables["XDG_CONFIG_HOME"] = str(settings.config_folders[0].parent)
    if len(settings.config_folders) > 1:
        variables["OPENCODE_CONFIG_DIR"] = str(settings.config_folders[1])
    return variables


def _systemd(settings: Settings, runner: Runner) -> Service:
    from sidecar.service.systemd import Systemd

    file = service_file(settings, "linux")
    return Systemd(file, [sys.executable, *ARGUMENTS], folder_variables(settings), runner)


def _launchd(settings: Settings, runner: Runner) -> Service:
    import os

    from sidecar.service.launchd import Launchd

    return Launchd(
        service_file(settings, "darwin"),
        [sys.executable, *ARGUMENTS],
        folder_variables(settings),
        runner,
        log=log_file(),
        uid=os.getuid(),
    )


def _windows(settings: Settings, runner: Runner) -> Service:
    from sidecar.service.windows import TaskScheduler

    # python.exe would open a console window at every logon.
    python = Path(sys.executable).with_name("pythonw.exe")
    file = service_file(settings, "win32")
    return TaskScheduler(file, [str(python), *ARGUMENTS], folder_variables(settings), runner)
