"""The OpenCode that PATH finds, and whether the plugin may go there."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OLDEST = (1, 14)
"""The first OpenCode that takes the plugin's form of entry. One before 1.2 would not even start."""
ANSWER_SECONDS = 20.0
"""How long the host may take to answer; it takes half a second, and more on a busy machine."""


class Host:
    """One OpenCode: its program, and its version, empty if it does not say."""

    __slots__ = ("program", "version")

    def __init__(self, program: str, version: str) -> None:
        self.program = program
        self.version = version

    @property
    def is_too_old(self) -> bool:
        """Whether it is known to be older than the plugin needs; a build of one's own is 0.0.0."""
        if not self.version or self.version.startswith("0.0.0"):
            return False
        major, minor = self.version.split(".")[:2]
        return (int(major), int(minor)) < OLDEST

    @property
    def refusal(self) -> str:
        """Why nothing is installed for a host that is too old, and what to do."""
        oldest = ".".join(map(str, OLDEST))
        return (
            f"OpenCode {self.version} ({self.program}) is too old for this plugin, whose file "
            f"would keep it from starting or be ignored. Update it to {oldest} or newer: "
            "opencode upgrade"
        )


def find_host() -> Host | None:
    """Ask the `opencode` on PATH for its version; None if there is no such program."""
    program = shutil.which("opencode")
    if program is None:
        return None
    said = ask([program, "--version"])
    version = re.search(r"^v?(\d+\.\d+\.\d+\S*)", said.strip())
    return Host(program, version[1] if version else "")


def ask(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Return what a program prints, or nothing if it fails or takes too long."""
    # A file and not a pipe, whose end a child of the program could keep open: what npm puts on PATH
    # may be a script that starts the real one.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError:
            return ""
        try:
            process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            _end_with_its_children(process)
        if process.returncode != 0:
            return ""
        output.seek(0)
        return output.read().decode(errors="replace")


def _end_with_its_children(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], check=False)
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
