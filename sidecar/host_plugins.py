"""The plugins that the host loads: the files in its folders, and the names in its configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sidecar.settings import process_variables
from sidecar.shim import NAME, installed_shims
from snapshots.regular import read_regular

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sidecar.settings import Settings

OTHER_PLUGIN = "opencode-agent-memory"
"""It injects the same blocks a second time, and other bytes after every edit."""
_NAMES_OTHER_PLUGIN = re.compile(rf"(^|[/\\]){OTHER_PLUGIN}([@/.\\]|$)")
_CODE_FOLDERS = ("plugin", "plugins", "tool", "tools")
CONFIG_FILES = ("opencode.json", "opencode.jsonc", "config.json")
_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENTS = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[\]}}])")


def config_folders(settings: Settings, directory: Path) -> list[Path]:
    """Return each folder from which the host takes configuration and plugins in this project."""
    projects = [folder / ".opencode" for folder in (directory, *directory.parents)]
    folders = [*settings.config_folders, Path.home() / ".opencode", *projects]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def loaded_shims(settings: Settings, directory: Path) -> list[Path]:
    """Return every file that the host loads as our shim in this project, by either way."""
    files = [
        file for folder in config_folders(settings, directory) for file in installed_shims(folder)
    ]
    for config_file, name in named_plugins(settings, directory):
        if name.endswith(NAME):
            path = unquote(urlsplit(name).path) if name.startswith("file:") else name
            files.append(config_file.parent / path)
    return list(dict.fromkeys(files))


def other_memory_plugins(settings: Settings, directory: Path) -> list[Path]:
    """Return the files that have the host load `OTHER_PLUGIN` in this project."""
    places = [
        file
        for folder in config_folders(settings, directory)
        for file in other_code(folder)
        if OTHER_PLUGIN in file.name
    ]
    places += [
        file
        for file, name in named_plugins(settings, directory)
        if _NAMES_OTHER_PLUGIN.search(name) and not name.endswith(NAME)
    ]
    return list(dict.fromkeys(places))


def named_plugins(settings: Settings, directory: Path) -> Iterator[tuple[Path, str]]:
    """Return what the `plugin` entries name (a package, a URL or a path), each with its file."""
    folders = [*config_folders(settings, directory), directory, *directory.parents]
    files = [folder / name for folder in folders for name in CONFIG_FILES]
    if chosen := process_variables().get("OPENCODE_CONFIG"):
        files.append(Path(chosen).absolute())
    for file in files:
        for entry in _plugin_entries(file):
            # An entry may have options: [name, options].
            yield file, str(entry[0] if isinstance(entry, list) and entry else entry)


def other_code(config_folder: Path) -> list[Path]:
    """Return the plugins and tools of others that the host loads from this folder."""
    ours = installed_shims(config_folder)
    files = (
        file
        for folder in _CODE_FOLDERS
        if (config_folder / folder).is_dir()
        for file in sorted((config_folder / folder).iterdir())
    )
    return [file for file in files if file.suffix in (".js", ".ts") and file not in ours]


def parse_host_config(text: str) -> dict[str, Any]:
    """Read JSON with comments and trailing commas, as the host does.

    Raises ValueError for what is no such object.
    """
    bare = _LAST_COMMAS.sub(_keep_strings, _COMMENTS.sub(_keep_strings, text))
    config = json.loads(bare)
    if not isinstance(config, dict):
        raise ValueError("it is not an object")
    return config


def _plugin_entries(file: Path) -> list[object]:
    try:
        entries = parse_host_config(read_regular(file)[0].decode()).get("plugin")
    except (OSError, ValueError):
        return []  # of a file that is wrong the host says so itself, and does not start
    return entries if isinstance(entries, list) else []


def _keep_strings(found: re.Match[str]) -> str:
    return found[1] or " "
