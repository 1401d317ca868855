"""The service as an agent of launchd, in the user's graphical session on macOS."""

from __future__ import annotations

import plistlib
import re
import time

from sidecar.service import NAME, Service, ServiceError, State
from snapshots.ownership import make_private_folder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sidecar.service import Runner

UNLOAD_SECONDS = 10.0
_POLL_SECONDS = 0.1


def render_plist(command: Sequence[str], environment: Mapping[str, str], log: Path) -> bytes:
    """Return the property list."""
    return plistlib.dumps(
        {
            "Label": NAME,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},  # a sidecar that was told to stop stays down
            "StandardErrorPath": str(log),
        }
    )


class Launchd(Service):
    """The property list in the user's LaunchAgents."""

    manager = "launchd"

    def __init__(
        self,
        file: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        runner: Runner,
        *,
        log: Path,
        uid: int,
    ) -> None:
        super().__init__(file, render_plist(command, environment, log), runner)
        self._log = log
        self._domain = f"gui/{uid}"
        self._target = f"gui/{uid}/{NAME}"
        self._call("launchctl", "print", self._domain)  # over ssh alone there is no such domain

    def state(self) -> State:
        """Ask launchd."""
        loaded = self._print()
        disabled = self._call("launchctl", "print-disabled", self._domain)
        return State(
            installed=self.file.exists() or loaded is not None,
            current=self._is_current(),
            enabled=self.file.exists()
            and not re.search(rf'"{NAME}" => (disabled|true)\b', disabled),
            running=bool(re.search(r"^\tstate = running$", loaded or "", re.MULTILINE)),
        )

    def install(self) -> None:
        """Write the property list and load it, the old one out of the way."""
        make_private_folder(self._log.parent)  # launchd makes the file, not its folder
        self._write_file()
        self._unload()
        self._call("launchctl", "enable", self._target)
        self._call("launchctl", "bootstrap", self._domain, str(self.file))

    def uninstall(self) -> None:
        """Unload the property list and remove it."""
        self._unload()
        self.file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Start the agent, or start it again; load it first if it is not."""
        if self._print() is None:
            self._call("launchctl", "bootstrap", self._domain, str(self.file))
        self._call("launchctl", "kickstart", "-k", self._target)

    def stop(self) -> None:
        """Unload the agent, since launchd would start a killed one again; a login loads it."""
        self._unload()

    def _print(self) -> str | None:
        """Return what launchd knows of the loaded service; None if it is not loaded."""
        done = self._runner(["launchctl", "print", self._target])
        return done.stdout if done.returncode == 0 else None

    def _unload(self) -> None:
        """Unload it and wait until it is gone: launchd loads nothing in the place of a dying one.

        Raises ServiceError.
        """
        if self._print() is None:
            return
        done = self._runner(["launchctl", "bootout", self._target])
        deadline = time.monotonic() + UNLOAD_SECONDS
        while self._print() is not None:
            if time.monotonic() > deadline:
                words = done.stderr.strip() or "it is still loaded"
                raise ServiceError(f"`launchctl bootout {self._target}` failed: {words}")
            time.sleep(_POLL_SECONDS)
