"""The way from OpenCode to memory, step by step, and what is wrong with each: for `doctor`."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
import time
from enum import StrEnum
from pathlib import Path

from sidecar import __version__
from sidecar.background import running
from sidecar.client import HangsError
from sidecar.host import ask, find_host
from sidecar.host_package import has_stand_in, has_use_of_npm
from sidecar.host_plugins import (
    OTHER_PLUGIN,
    config_folders,
    loaded_shims,
    other_code,
    other_memory_plugins,
)
from sidecar.settings import log_file, process_variables, runtime_folder
from sidecar.shim import is_current
from snapshots.folder import SnapshotFolder, last_used_first

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sidecar.host import Host
    from sidecar.settings import Settings

_LOAD_SCRIPT = """\
const plugin = (await import({url})).default;
const hooks = await plugin.server({{ directory: {folder}, client: {{}} }});
if (typeof hooks["experimental.chat.messages.transform"] === "function") console.log("loaded");
"""
_BUN_REVISION = re.compile(r"^\d+\.\d+\.\d+\+[0-9a-f]+$")


class Level(StrEnum):
    """How bad it is."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


class Finding:
    """One thing that was looked at, what was seen, and the command or act that mends it."""

    __slots__ = ("level", "mend", "seen", "subject")

    def __init__(self, level: Level, subject: str, seen: str, mend: str = "") -> None:
        self.level = level
        self.subject = subject
        self.seen = seen
        self.mend = mend


def diagnose(settings: Settings, directory: Path) -> Iterator[Finding]:
    """Look at everything between the host and the memory of this project, in that order."""
    host = find_host()
    shims = loaded_shims(settings, directory)
    yield _host(host)
    if process_variables().get("OPENCODE_PURE") in ("1", "true"):
        seen = "OPENCODE_PURE is set, so OpenCode loads no plugin"
        yield Finding(Level.FAIL, "OpenCode", seen, "unset OPENCODE_PURE")
    yield from _plugin_files(shims)
    if host and not host.is_too_old:
        # What a project brings along runs when its user starts the host there, and not before.
        for shim in shims:
            own = any(shim.is_relative_to(folder) for folder in settings.config_folders)
            if own or is_current(shim):
                yield _loads(host, shim, directory)
    yield from _other_plugins(settings, directory)
    if shims:
        yield from _npm_wait(settings, directory)
    yield _launcher(settings)
    yield from _folders(settings)
    yield _service(settings)
    yield from _sidecar(settings)
    yield from _memory(settings, directory)
    yield from _proxies()


def _host(host: Host | None) -> Finding:
    subject = "OpenCode"
    if host is None:
        return Finding(Level.WARN, subject, "no `opencode` on PATH, so it can't be looked at")
    if host.is_too_old:
        return Finding(Level.FAIL, subject, host.refusal, "opencode upgrade")
    if not host.version:
        return Finding(Level.WARN, subject, f"{host.program} does not say its version")
    return Finding(Level.PASS, subject, f"version {host.version}, {host.program}")


def _plugin_files(shims: list[Path]) -> Iterator[Finding]:
    if not shims:
        yield Finding(Level.FAIL, "plugin", "not installed", "opencode-memory install")
    for file in shims:
        if not file.exists():
            seen = f"OpenCode is to load a file that is not there: {file}"
            yield Finding(Level.FAIL, "plugin", seen, "opencode-memory install")
        elif is_current(file):
            yield Finding(Level.PASS, "plugin", f"current: {file}")
        else:
            seen = f"another version than this command's {__version__}: {file}"
            yield Finding(Level.WARN, "plugin", seen, "opencode-memory install, restart OpenCode")
    for second in shims[1:]:
        seen = f"OpenCode loads a second copy: {second}"
        yield Finding(Level.WARN, "plugin", seen, f"rm {_quote(second)}")


def _loads(host: Host, shim: Path, directory: Path) -> Finding:
    """Import the plugin in the host's own runtime, as the host does, and outside any session."""
    subject = "plugin loads"
    as_bun = {**process_variables(), "BUN_BE_BUN": "1"}
    if not _BUN_REVISION.match(ask([host.program, "--revision"], as_bun).strip()):
        return Finding(Level.WARN, subject, f"{host.program} has no runtime that can be asked")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "load.mjs"
        url, where = (json.dumps(text) for text in (shim.as_uri(), str(directory)))
        script.write_text(_LOAD_SCRIPT.format(url=url, folder=where), encoding="utf-8")
        if "loaded" in ask([host.program, "run", str(script)], as_bun):
            return Finding(Level.PASS, subject, "in OpenCode's own runtime")
    return Finding(
        Level.FAIL,
        subject,
        f"OpenCode's runtime can't load {shim}",
        "opencode-memory install, restart OpenCode",
    )


def _other_plugins(settings: Settings, directory: Path) -> Iterator[Finding]:
    for place in other_memory_plugins(settings, directory):
        yield Finding(
            Level.WARN,
            "other plugins",
            f"{OTHER_PLUGIN} is installed too, and injects the same blocks: {place}",
            f"take {OTHER_PLUGIN} out of {place}, restart OpenCode",
        )


def _npm_wait(settings: Settings, directory: Path) -> Iterator[Finding]:
    """Look at every folder: before it loads any plugin, the host waits for what each one lacks."""
    for folder in config_folders(settings, directory):
        if not (folder / "node_modules").exists():
            ours = folder == settings.config_folders[0] and not has_use_of_npm(folder)
            offline = "once with the network up, or npm_config_fetch_retries=0 opencode without"
            yield Finding(
                Level.WARN,
                "npm",
                f"OpenCode's next start installs its plugin package into {folder} from npm, and "
                "waits for it",
                "opencode-memory install" if ours else f"start OpenCode: {offline}",
            )
        elif has_stand_in(folder) and (others := other_code(folder)):
            names = " ".join(("package.json", "package-lock.json", "node_modules"))
            yield Finding(
                Level.WARN,
                "npm",
                f"an empty package stands in for @opencode-ai/plugin, which {others[0]} may import",
                f"cd {_quote(folder)} && rm -r {names}; restart OpenCode",
            )


def _launcher(settings: Settings) -> Finding:
    subject, mend = "launcher", "opencode-memory install"
    try:
        command = json.loads(settings.launcher_file.read_bytes())["command"]
        said = ask([*command[: command.index("serve")], "--version"])
    except FileNotFoundError:
        return Finding(Level.FAIL, subject, "not recorded: OpenCode can't start a sidecar", mend)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Finding(Level.FAIL, subject, f"{settings.launcher_file} is damaged", mend)
    if not said:
        return Finding(Level.FAIL, subject, f"does not run: {' '.join(command)}", mend)
    if said.split()[-1] != __version__:
        seen = f"starts version {said.split()[-1]}, and this is {__version__}"
        return Finding(Level.WARN, subject, seen, mend)
    return Finding(Level.PASS, subject, f"runs: {command[0]}")


def _folders(settings: Settings) -> Iterator[Finding]:
    folders = [settings.data_folder, settings.snapshot_folder, settings.origin_folder]
    for folder in (*folders, log_file().parent, runtime_folder()):
        if (reason := _why_not_writable(folder)) is not None:
            yield Finding(
                Level.FAIL,
                "folders",
                f"{folder} can't be written ({reason})",
                f"chown -R $USER {_quote(folder)}; chmod 700 {_quote(folder)}",
            )
        elif folder.exists() and os.name == "posix" and folder.stat().st_mode & 0o077:
            seen = f"{folder} is open to others"
            yield Finding(Level.WARN, "folders", seen, f"chmod 700 {_quote(folder)}")
        else:
            yield Finding(Level.PASS, "folders", f"writable: {folder}")


def _why_not_writable(folder: Path) -> str | None:
    """Try it: permissions alone say nothing of a full disk or a read-only one."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"0" * 4096)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _service(settings: Settings) -> Finding:
    from sidecar.service import ServiceError, installed_service

    subject = "service"
    try:
        service = installed_service(settings)
        if service is None:
            return Finding(Level.PASS, subject, "none; OpenCode starts the sidecar by itself")
        if service.state().as_wanted:
            return Finding(Level.PASS, subject, f"runs ({service.manager})")
        return Finding(
            Level.FAIL,
            subject,
            f"not as it should be ({service.manager})",
            "opencode-memory service install",
        )
    except ServiceError as error:
        return Finding(Level.WARN, subject, str(error).partition("\n")[0], "opencode-memory start")


def _sidecar(settings: Settings) -> Iterator[Finding]:
    subject = "sidecar"
    began = time.monotonic()
    try:
        health = running(settings)
    except HangsError as error:
        yield Finding(Level.FAIL, subject, str(error), error.mend)
        return
    took = (time.monotonic() - began) * 1000
    if health is None:
        seen = "not running; OpenCode starts it with the next prompt"
        yield Finding(Level.WARN, subject, seen, "opencode-memory start")
        return
    if health["version"] != __version__:
        seen = f"version {health['version']} runs, and this is {__version__}"
        yield Finding(Level.WARN, subject, seen, "opencode-memory restart")
    else:
        yield Finding(Level.PASS, subject, f"answers, in {took:.0f} ms")
    yield _hook(settings, health)
    for problem in health["problems"]:
        yield Finding(
            Level.FAIL, subject, problem, "make room on the disk, or opencode-memory logs"
        )


def _hook(settings: Settings, health: dict[str, Any]) -> Finding:
    if health["requests"]:
        return Finding(Level.PASS, "hook", f"{health['requests']} requests seen")
    seen = (
        f"this sidecar has run for {health['uptime']:.0f} s and has seen 0 requests of the plugin"
    )
    for entry in last_used_first(SnapshotFolder(settings.snapshot_folder).entries())[:1]:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.last_used))
        seen += f"; an earlier one had some on {day}"
    return Finding(Level.WARN, "hook", seen, "restart OpenCode and send a prompt")


def _memory(settings: Settings, directory: Path) -> Iterator[Finding]:
    """Read it as the next session would, whether or not a sidecar is there to do it."""
    from sidecar.inventory import take_inventory

    memory = take_inventory(settings.config_folders, directory, settings.trust_folder)
    for block in memory.blocks:
        for warning in block.warnings:
            yield Finding(Level.WARN, "memory", f"{block.file}: {warning}", "mend the file")
        if not block.given and block.standing != "seen":
            seen = f"{block.file} is {block.standing} and given to no session"
            yield Finding(Level.WARN, "memory", seen, "read it; opencode-memory blocks --trust")
    for seen in memory.block_problems:
        yield Finding(Level.WARN, "memory", seen, "mend the file")
    for seen in memory.settings_problems:
        yield Finding(Level.WARN, "settings", seen, "mend the file; opencode-memory config")
    yield Finding(Level.PASS, "memory", f"{len(memory.blocks)} blocks for this folder")


def _proxies() -> Iterator[Finding]:
    names = [name for name in process_variables() if name.lower() in _PROXY_VARIABLES]
    if names:
        seen = f"{', '.join(sorted(names))} set; the plugin and this command never use a proxy"
        yield Finding(Level.PASS, "proxies", seen)


_PROXY_VARIABLES = {"http_proxy", "https_proxy", "all_proxy"}


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
