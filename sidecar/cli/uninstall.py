"""`opencode-memory uninstall`: the shim out of OpenCode's plugin folder."""

from __future__ import annotations

import sys

from sidecar.cli.install import add_project_argument, chosen_config_folder
from sidecar.cli.output import Result
from sidecar.host_package import NAME, remove_stand_in
from sidecar.shim import installed_shims

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where from."""
    add_project_argument(parser)


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Remove every copy of the shim below the configuration folder."""
    folder = chosen_config_folder(options, settings)
    files = installed_shims(folder)
    for file in files:
        file.unlink()
    lines = [f"Removed {file}." for file in files] or ["The plugin was not installed."]
    if options.project is None:
        from sidecar.service import service_file

        settings.launcher_file.unlink(missing_ok=True)
        if service_file(settings, sys.platform).exists():
            lines.append("The service stays; take it out: opencode-memory service uninstall")
        if remove_stand_in(folder):
            lines.append(f"Removed what stood in for {NAME} in {folder}.")
    return Result("\n".join(lines), {"removed": [str(file) for file in files]})
