"""The launcher: how the shim starts the sidecar when none answers.

A JSON file beside the endpoint, written by `install`: `version`, and `command` with the full path
of the interpreter. The shim never looks for a program on PATH or in the current folder.
"""

from __future__ import annotations

import json
import sys

from sidecar import __version__
from snapshots.atomic import write_atomic
from snapshots.ownership import make_private_folder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from sidecar.settings import Settings

BACKGROUND = ("-P", "-m", "sidecar", "serve", "--background")
"""Arguments of the interpreter. -P: a project with folders of our names is never imported."""


def background_command() -> list[str]:
    """Return the command that starts a sidecar in the background, from this installation."""
    return [sys.executable, *BACKGROUND]


def record_launcher(settings: Settings) -> None:
    """Write the launcher file."""
    make_private_folder(settings.data_folder)
    fields = {"version": __version__, "command": background_command()}
    write_atomic(settings.launcher_file, json.dumps(fields).encode())
