"""The user's own OpenCode in a place of its own: a copy of its configuration and plugins.

No way leads out of it: no credentials, of the environment only what a program needs to run, and one
provider, which is the recorder. No way leads back: what is written is written into the copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar.host_package import place_stand_in
from sidecar.host_plugins import CONFIG_FILES, parse_host_config
from sidecar.launcher import record_launcher
from sidecar.settings import load_settings, process_variables
from sidecar.shim import NAME as SHIM_NAME
from sidecar.shim import install_path, installed_shims, shim_path
from snapshots.regular import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.host import Host
    from sidecar.settings import Settings

PROVIDER = "memory-verify"
MODEL = "recorder"
CONTEXT_TOKENS = 200_000

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "SYSTEMROOT", "COMSPEC", "PATHEXT")
# What would call somebody, or start something: the recorder's own settings take their place.
_LEFT_OUT = ("provider", "model", "small_model", "enabled_providers", "disabled_providers")
_LEFT_OUT_TOO = ("mcp", "share", "server", "experimental")


class VerifyError(Exception):
    """What keeps verify from its work; the message says what to do."""

    code = "verify_error"


class Sandbox:
    """One copy. `keep` says which of the other plugins are loaded; `memory`, whether ours is."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        folder: Path,
        keep: Callable[[str], bool] = lambda _name: True,
        *,
        memory: bool = True,
    ) -> None:
        self.folder = folder
        self.host = host
        self.project = folder / "project"
        self.plugins: list[str] = []
        """The names of the other plugins that are loaded."""
        self._keep = keep
        self._memory = memory
        self._extra: Path | None = None
        first, *others = settings.config_folders
        self.config = self._copy(first, folder / "config" / "opencode")
        for other in others:
            self._extra = self._copy(other, folder / "extra")
        self._copy(Path.home() / ".opencode", folder / "home" / ".opencode")
        _link_tree(_cache_folder(), folder / "cache" / "opencode")
        self._make_project()
        self.settings = load_settings(self._variables())
        if memory:
            self._place_plugin()
        place_stand_in(self.config)

    def environment(self, url: str) -> dict[str, str]:
        """Return the host's whole environment, with the recorder at this address as provider."""
        return {**self._variables(), "OPENCODE_CONFIG_CONTENT": json.dumps(_overrides(url))}

    def _variables(self) -> dict[str, str]:
        passed = process_variables()
        runtime = self.folder / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        variables = {name: passed[name] for name in _PASSED_ON if name in passed}
        variables |= {
            "HOME": str(self.folder / "home"),
            "PWD": str(self.project),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_RUNTIME_DIR": str(runtime),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "npm_config_offline": "true",
        }
        if self._extra:
            variables["OPENCODE_CONFIG_DIR"] = str(self._extra)
        return variables

    def _copy(self, source: Path, target: Path) -> Path:
        """Copy a configuration folder; packages are linked to, since they are many and large."""
        if not source.is_dir():
            return target  # an empty one would have the host install its package there
        ignore = shutil.ignore_patterns("node_modules", "*.corrupt.*")
        shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True)
        if (source / "node_modules").is_dir():
            (target / "node_modules").symlink_to(source / "node_modules")
        for name in CONFIG_FILES:
            if (target / name).is_file():
                self._rewrite(target / name)
        for folder in ("plugin", "plugins"):
            for file in sorted((target / folder).glob("*")):
                if file.suffix in (".js", ".ts") and file not in installed_shims(target):
                    self._decide(file.stem, drop=file.unlink)
        if not self._memory:
            for shim in installed_shims(target):
                shim.unlink()
        return target

    def _rewrite(self, file: Path) -> None:
        try:
            config = parse_host_config(read_regular(file)[0].decode())
        except (OSError, ValueError) as error:
            raise VerifyError(
                f"{file.name} of your configuration can't be read ({error}), so it is not sure "
                "that no provider of yours would be called. Mend it first."
            ) from error
        for name in (*_LEFT_OUT, *_LEFT_OUT_TOO):
            config.pop(name, None)
        for agent in (*config.get("agent", {}).values(), *config.get("mode", {}).values()):
            agent.pop("model", None)
        kept: list[object] = []
        for entry in config.get("plugin", []):
            named = entry[0] if isinstance(entry, list) else entry
            if not named.endswith(SHIM_NAME):
                self._decide(plugin_name(named), take=partial(kept.append, entry))
            elif self._memory:
                kept.append(entry)
        config["plugin"] = kept
        file.write_text(json.dumps(config), encoding="utf-8")

    def _decide(
        self,
        name: str,
        *,
        take: Callable[[], object] = lambda: None,
        drop: Callable[[], object] = lambda: None,
    ) -> None:
        if self._keep(name):
            take()
            self.plugins.append(name)
        else:
            drop()

    def _make_project(self) -> None:
        self.project.mkdir(parents=True)
        (self.project / "README.md").write_text("A project to try things in.\n")
        author = ["-c", "user.name=verify", "-c", "user.email=verify@localhost"]
        commands = (["init", "--quiet"], ["add", "."], [*author, "commit", "-qm", "begin"])
        if shutil.which("git"):
            for command in commands:
                subprocess.run(
                    ["git", *command], cwd=self.project, env=self._variables(), check=False
                )

    def _place_plugin(self) -> None:
        """Load the plugin as it is installed, and the one that is packaged where none is."""
        if not installed_shims(self.config):
            target = install_path(self.config)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(shim_path(), target)
        record_launcher(self.settings)


def plugin_name(entry: str) -> str:
    """Return what people call a plugin of the configuration: its package, or its file."""
    if entry.startswith(("file:", ".", "/", "~")):
        return Path(entry.removeprefix("file://")).stem
    return re.sub(r"(?<=.)@[^@/]*$", "", entry)


def _overrides(url: str) -> dict[str, Any]:
    model = {
        "name": MODEL,
        "tool_call": True,
        "limit": {"context": CONTEXT_TOKENS, "output": 8_000},
    }
    return {
        "model": f"{PROVIDER}/{MODEL}",
        "small_model": f"{PROVIDER}/{MODEL}",
        "enabled_providers": [PROVIDER],
        "permission": {"*": "allow"},
        "share": "disabled",
        "autoupdate": False,
        "provider": {
            PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": PROVIDER,
                "options": {"baseURL": url, "apiKey": "none"},
                "models": {MODEL: model},
            }
        },
    }


def _cache_folder() -> Path:
    home = process_variables().get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "opencode"


def _link_tree(source: Path, target: Path) -> None:
    """Have the same files without copying them: downloads, which the host does not change."""

    def link(old: str, new: str) -> None:
        try:
            os.link(old, new)
        except OSError:
            shutil.copy2(old, new)

    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=link, symlinks=True)
