"""`opencode-memory status`: whether the sidecar runs, and what stands where."""

from __future__ import annotations

import time
from pathlib import Path

from sidecar.background import running
from sidecar.cli.output import ExitCode, Result
from sidecar.client import HangsError, NotRunningError, SidecarError, connect
from sidecar.endpoint import read_endpoint
from sidecar.host_plugins import OTHER_PLUGIN, other_memory_plugins
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
    health, hangs = None, None
    try:
        health = running(settings)
    except HangsError as error:
        hangs = str(error)
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
        "hangs": hangs,
        "sidecar": health,
        "service": _service(settings),
        "address": endpoint.address if health and endpoint else None,
        "shims": shims,
        "other_plugins": [str(file) for file in other_memory_plugins(settings, Path.cwd())],
        "sessions": sessions,
        "memory": _inventory(settings) if health else None,
        "folders": {
            "data": str(settings.data_folder),
            "config": [str(folder) for folder in settings.config_folders],
        },
    }
    down = ExitCode.FAILED if hangs else ExitCode.NOT_RUNNING
    return Result(_text(data), data, exit_code=ExitCode.DONE if health else down)


def _inventory(settings: Settings) -> dict[str, Any] | None:
    """Return what the sidecar finds in this folder's memory; reading it here would be slow."""
    asked = {
        "directory": str(Path.cwd()),
        "config_directories": [str(folder) for folder in settings.config_folders],
    }
    try:
        return connect(settings).call("POST", "/v1/inventory", asked)
    except (HangsError, NotRunningError, SidecarError):
        return None


def _service(settings: Settings) -> str:
    """Return the service's state in words."""
    from sidecar.service import ServiceError, installed_service

    try:
        service = installed_service(settings)
        if service is None:
            return "none; OpenCode starts the sidecar when it needs it"
        state = service.state()
    except ServiceError as error:
        return f"unknown; {error}"
    if not state.as_wanted:
        return f"{service.manager}, not as it should be; run: opencode-memory service install"
    return f"{service.manager}, runs and starts with every login"


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return ", none so far"
    return f", the last {max(0, time.time() - seconds):.0f} s ago"


def _text(data: dict[str, Any]) -> str:
    health = data["sidecar"]
    if data["hangs"]:
        lines = [f"sidecar:   hangs; {data['hangs']}"]
    elif health is None:
        lines = ["sidecar:   not running; start it: opencode-memory start"]
    else:
        lines = [
            f"sidecar:   running, version {health['version']}, instance {health['instance']}, "
            f"process {health['pid']}",
            f"uptime:    {health['uptime']:.0f} s",
            f"listens:   {data['address']}",
            f"requests:  {health['requests']}" + _ago(health["last_request_at"]),
        ]
    lines.append(f"service:   {data['service']}")
    for shim in data["shims"]:
        state = "current" if shim["current"] else "another version; run: opencode-memory install"
        lines.append(f"plugin:    {shim['file']} ({state})")
    if not data["shims"]:
        lines.append("plugin:    not installed; run: opencode-memory install")
    lines += [
        f"plugin:    {OTHER_PLUGIN} injects the same blocks; take it out of {place}"
        for place in data["other_plugins"]
    ]
    lines.append(f"sessions:  {data['sessions']} with a snapshot")
    lines.append(f"data:      {data['folders']['data']}")
    lines += [f"config:    {folder}" for folder in data["folders"]["config"]]
    lines += [f"problem:   {problem}" for problem in (health or {}).get("problems", [])]
    lines += [
        f"logged:    {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(warned['at']))} "
        f"{warned['message']}"
        for warned in (health or {}).get("warnings", [])
    ]
    if memory := data["memory"]:
        lines.append(f"blocks:    {len(memory['blocks'])} for this folder")
        lines += [
            f"warning:   {block['file']}: {warning}"
            for block in memory["blocks"]
            for warning in block["warnings"]
        ]
        if unseen := [b["label"] for b in memory["blocks"] if b["standing"] != "seen"]:
            lines.append(
                f"look at:   {', '.join(unseen)}: new or changed since you last looked, and from "
                "the repository (opencode-memory blocks)"
            )
        lines += [f"problem:   {problem}" for problem in memory["block_problems"]]
        lines += [f"settings:  {problem}" for problem in memory["settings_problems"]]
    return "\n".join(lines)
