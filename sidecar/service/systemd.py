"""The service as a unit of the user's own systemd."""

from __future__ import annotations

from pathlib import Path

from sidecar.service import NAME, Service, ServiceError, State

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar.service import Runner

UNIT = f"{NAME}.service"

# Nothing here needs a mount namespace (PrivateTmp, ProtectSystem, ProtectHome): a user's manager
# has those only where the kernel lets users make namespaces, the socket may lie in the real /tmp,
# and memory is written in whatever folder a project is. MemoryDenyWriteExecute would stop an
# interpreter that compiles as it runs; UMask would take from a shared project's folders.
_UNIT_TEXT = """\
# Written by `opencode-memory service install`, which writes it anew; change a copy.

[Unit]
Description=OpenCode memory sidecar
# A sidecar that can't stay up is left down after five attempts; OpenCode goes on without.
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}Restart=on-failure
RestartSec=1
WatchdogSec=60
# Its last requests have two seconds.
TimeoutStopSec=10
SyslogIdentifier=opencode-memory
# A core file would hold memory's text.
LimitCORE=0
NoNewPrivileges=yes
LockPersonality=yes
# Its socket, and no network at all.
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""

_NOT_IN_A_PROGRAM = "\"'\\$\n"
"""systemd refuses the path of a program that has one of these, however quoted; a shell does not."""


def render_unit(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the unit's text."""
    if set(command[0]) & set(_NOT_IN_A_PROGRAM):
        command = ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
    words = " ".join(_quote(word).replace("$", "$$") for word in command)
    variables = (f"{name}={value}" for name, value in sorted(environment.items()))
    return _UNIT_TEXT.format(
        command=words,
        environment="".join(f"Environment={_quote(variable)}\n" for variable in variables),
    )


def _quote(word: str) -> str:
    """Return one word as systemd reads it: C's escapes between quotes, "%%" for a percent sign."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "%": "%%"}
    return '"' + "".join(escapes.get(letter, letter) for letter in word) + '"'


class Systemd(Service):
    """The unit in the user's unit folder."""

    manager = "systemd"

    def __init__(
        self,
        file: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        runner: Runner,
    ) -> None:
        unit = render_unit(command, environment)
        super().__init__(file, unit.encode("utf-8", "surrogateescape"), runner)
        # Another shell's XDG_CONFIG_HOME may have put it elsewhere.
        if there := self._property("FragmentPath"):
            self.file = Path(there)

    def state(self) -> State:
        """Ask systemd."""
        return State(
            installed=self._property("LoadState") != "not-found",
            current=self._is_current(),
            enabled=self._property("UnitFileState") == "enabled",
            running=self._property("ActiveState") == "active",
        )

    def install(self) -> None:
        """Write the unit, enable it, and start it or start it again."""
        self._write_file()
        self._systemctl("daemon-reload")
        # By its path: if systemd does not know this shell's XDG_CONFIG_HOME, it makes a link.
        self._systemctl("enable", str(self.file))
        self.restart()

    def uninstall(self) -> None:
        """Stop the unit, disable it, and remove its file."""
        self._systemctl("disable", "--now", UNIT)
        self.file.unlink(missing_ok=True)
        self._systemctl("daemon-reload")

    def restart(self) -> None:
        """Start the unit, or start it again."""
        if self._property("ActiveState") == "failed":
            self._systemctl("reset-failed", UNIT)  # or the five attempts would count on
        self._systemctl("restart", UNIT)

    def stop(self) -> None:
        """Stop the unit; a later start or login starts it."""
        self._systemctl("stop", UNIT)

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        """Have the journal print the unit's messages; they have their time in them."""
        command = ["journalctl", "--user", f"--unit={UNIT}", "--output=cat", f"--lines={lines}"]
        return [*command, "--follow"] if follow else [*command, "--no-pager"]

    def _property(self, name: str) -> str:
        said, equals, value = self._systemctl("show", f"--property={name}", UNIT).partition("=")
        if (said, equals) != (name, "="):  # in a chroot, systemctl does nothing and is content
            raise ServiceError(f"systemctl --user does not say the unit's {name}")
        return value.rstrip("\n")

    def _systemctl(self, *arguments: str) -> str:
        return self._call("systemctl", "--user", *arguments)
