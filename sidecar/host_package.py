"""OpenCode's own npm package beside a plugin: what stands in for it, so that nobody waits for npm.

Where a configuration folder has a plugin and no `node_modules`, the host installs
`@opencode-ai/plugin` there from npm and loads no plugin before that is done: seconds, or minutes
without a registry. It installs nothing where a package and a lock file name the package and a
`node_modules` is there. This plugin imports nothing, so an empty one does.

The other way would be to have npm install the real package during `install`: it needs the network
then, and without one fails as slowly. The price of the empty one is that whoever adds a tool or
plugin that imports the package would have it fail, without a word from the host; so the sidecar
takes the empty one away as soon as it sees other code there, and the host installs the real one.
"""

from __future__ import annotations

import contextlib
import json

from sidecar.host_plugins import other_code
from snapshots.atomic import write_atomic

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sidecar.host import Host

NAME = "@opencode-ai/plugin"
_MODULES = "node_modules"
_NPM_FILES = (_MODULES, "package.json", "package-lock.json", ".npmrc", "bun.lock", "bun.lockb")


def place_stand_in(config_folder: Path, host: Host) -> bool:
    """Write the stand-in for this host; False if its version is unknown, or npm has a use there."""
    if has_use_of_npm(config_folder) or not host.version:
        return False
    for name, content in _stand_in(host.version).items():
        write_atomic(config_folder / name, content, mode=0o644)
    (config_folder / _MODULES).mkdir()
    return True


def has_use_of_npm(config_folder: Path) -> bool:
    """Whether anything of npm's is there, or any code but ours, which may import the package."""
    if any((config_folder / name).exists() for name in _NPM_FILES):
        return True
    return bool(other_code(config_folder))


def make_way_for_package(config_folders: Iterable[Path]) -> None:
    """Remove each stand-in beside which there is code now that may need the real package."""
    for folder in config_folders:
        with contextlib.suppress(OSError):
            if has_stand_in(folder) and other_code(folder):
                remove_stand_in(folder)


def has_stand_in(config_folder: Path) -> bool:
    """Whether what is there is the stand-in, unchanged."""
    try:
        package = json.loads((config_folder / "package.json").read_bytes())
        stand_in = _stand_in(package["dependencies"][NAME])
        return not any((config_folder / _MODULES).iterdir()) and all(
            (config_folder / name).read_bytes() == content for name, content in stand_in.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def remove_stand_in(config_folder: Path) -> bool:
    """Remove the stand-in; False if there is none, or if it has become more than that."""
    if not has_stand_in(config_folder):
        return False
    (config_folder / _MODULES).rmdir()
    for name in _stand_in(""):
        (config_folder / name).unlink()
    return True


def _stand_in(version: str) -> dict[str, bytes]:
    package = {"dependencies": {NAME: version}}
    lock = {"lockfileVersion": 3, "packages": {"": package}}
    return {
        name: json.dumps(fields, indent=2).encode() + b"\n"
        for name, fields in (("package.json", package), ("package-lock.json", lock))
    }
