"""The service as a task of the Windows Task Scheduler, at the user's own logon."""

from __future__ import annotations

import subprocess
from xml.etree import ElementTree

from sidecar.service import NAME, Service, State
from snapshots.ownership import make_private_folder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sidecar.service import Runner

_NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
# The state's name as the API has it; what schtasks prints is in the user's language.
_STATE_SCRIPT = f"(Get-ScheduledTask -TaskName {NAME} -ErrorAction Stop).State"


def render_task(command: Sequence[str], user: str) -> str:
    """Return the task's XML."""
    task = ElementTree.Element("Task", {"version": "1.2", "xmlns": _NAMESPACE})
    _add(task, "RegistrationInfo", Description="OpenCode memory sidecar")
    _add(ElementTree.SubElement(task, "Triggers"), "LogonTrigger", UserId=user)
    principal = _add(
        ElementTree.SubElement(task, "Principals"),
        "Principal",
        UserId=user,
        LogonType="InteractiveToken",  # no password is asked for, none is stored
        RunLevel="LeastPrivilege",
    )
    principal.set("id", "Author")
    settings = _add(
        task,
        "Settings",
        MultipleInstancesPolicy="IgnoreNew",
        DisallowStartIfOnBatteries="false",
        StopIfGoingOnBatteries="false",
        ExecutionTimeLimit="PT0S",  # none; the default ends it after three days
    )
    _add(settings, "RestartOnFailure", Interval="PT1M", Count="5")
    actions = ElementTree.SubElement(task, "Actions", {"Context": "Author"})
    arguments = subprocess.list2cmdline(command[1:])
    _add(actions, "Exec", Command=command[0], Arguments=arguments)
    ElementTree.indent(task)
    return ElementTree.tostring(task, encoding="unicode") + "\n"


def with_variables(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command `python -P -m sidecar ...` so that it starts with these variables.

    A task has no place for them, and a shell to set them would open a window at every logon.
    """
    if not environment:
        return list(command)
    program, isolated, _, module, *arguments = command
    variables = repr(dict(environment)).replace("%", "\\x25")  # the scheduler expands %NAME%
    script = (
        f"from os import environ; from runpy import run_module; environ.update({variables}); "
        f"run_module({module!r}, run_name='__main__')"
    )
    return [program, isolated, "-c", script, *arguments]


def _add(parent: ElementTree.Element, tag: str, **texts: str) -> ElementTree.Element:
    """Append an element with these elements of text."""
    element = ElementTree.SubElement(parent, tag)
    for name, text in texts.items():
        ElementTree.SubElement(element, name).text = text
    return element


class TaskScheduler(Service):
    """The task, and the file that it was made from."""

    manager = "Task Scheduler"

    def __init__(
        self,
        file: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        runner: Runner,
    ) -> None:
        self._runner = runner
        user = self._call("whoami").strip()
        # schtasks takes UTF-16 only.
        content = render_task(with_variables(command, environment), user).encode("utf-16")
        super().__init__(file, content, runner)

    def state(self) -> State:
        """Ask the Task Scheduler."""
        done = self._runner(["powershell", "-NoProfile", "-NonInteractive", "-c", _STATE_SCRIPT])
        state = done.stdout.strip()  # nothing, if there is no such task
        return State(
            installed=bool(state),
            current=self._is_current(),
            enabled=state not in ("", "Disabled"),
            running=state == "Running",
        )

    def install(self) -> None:
        """Make the task and run it."""
        make_private_folder(self.file.parent)
        self._write_file()
        self.stop()
        self._schtasks("/Create", "/XML", str(self.file), "/F")
        self._schtasks("/Run")

    def uninstall(self) -> None:
        """End the task, delete it, and remove its file."""
        self.stop()
        self._schtasks("/Delete", "/F")
        self.file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Run the task, after ending one that runs."""
        self.stop()
        self._schtasks("/Run")

    def stop(self) -> None:
        """End the task if it runs; a later start or logon runs it."""
        if self.state().running:
            self._schtasks("/End")

    def _schtasks(self, verb: str, *arguments: str) -> str:
        return self._call("schtasks", verb, "/TN", NAME, *arguments)
