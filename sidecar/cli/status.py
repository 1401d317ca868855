"""`opencode-memory status`: whether the sidecar runs, and what stands where."""

from __future__ import annotations

from sidecar.background import running
from sidecar.cli.output import ExitCode, Result
from sidecar.endpoint import read_endpoint
from sidecar.shim import installed_shims, is_current
from snapshots.folder import SnapshotFolder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """Ask the sidecar, and look at the files."""
    health = running(settings)
    endpoint = read_endpoint(settings.endpoint_file)
    shims = [
        {"file": str(file), "current": is_current(file)}
        for config in settings.config_folders
        for file in installed_shims(config)
    ]
    entries = SnapshotFolder(settings.snapshot_folder).entries()
    sessions = sum(1 for entry in entries if entry.session_id)
    data: dict[str, object] = {
        "running": health is not None,
        "sidecar": health,
        "address": endpoint.address if health and endpoint else None,
        "shims": shims,
        "sessions": sessions,
        "folders": {
            "data": str(settings.data_folder),
            "config": [str(folder) for folder in settings.config_folders],
        },
    }
    return Result(
        _text(data),
        data,
        exit_code=ExitCode.DONE if health else ExitCode.NOT_RUNNING,
    )


def _text(data: dict[str, Any]) -> str:
    health = data["sidecar"]
    if health is None:
        lines = ["sidecar:   not running; start it: opencode-memory start"]
    else:
        lines = [
            f"sidecar:   running, version {health['version']}, instance {health['instance']}, "
            f"process {health['pid']}",
            f"uptime:    {health['uptime']:.0f} s",
            f"listens:   {data['address']}",
        ]
    for shim in data["shims"]:
        state = "current" if shim["current"] else "another version; run: opencode-memory install"
        lines.append(f"plugin:    {shim['file']} ({state})")
    if not data["shims"]:
        lines.append("plugin:    not installed; run: opencode-memory install")
    lines.append(f"sessions:  {data['sessions']} with a snapshot")
    lines.append(f"data:      {data['folders']['data']}")
    lines += [f"config:    {folder}" for folder in data["folders"]["config"]]
    lines += [f"problem:   {problem}" for problem in (health or {}).get("problems", [])]
    return "\n".join(lines)
