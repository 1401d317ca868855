"""OpenCode's own npm package beside a plugin: what stands in for it, so that nobody waits for npm.

Where a configuration folder has no `node_modules`, also a project's `.opencode`, the host installs
`@opencode-ai/plugin` there from npm, and loads no plugin before that is done: seconds, or minutes
without a registry. It installs nothing where a package and a lock file name the package, in any
version, and a `node_modules` is there. This plugin imports nothing, so an empty one does.

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
from snapshots.regular import read_regular

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NAME = "@opencode-ai/plugin"
_MODULES = "node_modules"
_PACKAGE = {"dependencies": {NAME: "*"}}
_FILES = {
    name: json.dumps(fields, indent=2).encode() + b"\n"
    for name, fields in (
        ("package.json", _PACKAGE),
        ("package-lock.json", {"lockfileVersion": 3, "packages": {"": _PACKAGE}}),
    )
}
_NPM_FILES = (_MODULES, *_FILES, ".npmrc", "bun.lock", "bun.lockb")
_GITIGNORE = (_MODULES, *_FILES, "bun.lock", ".gitignore")
"""What the host keeps out of a repository, in its own file."""


def place_stand_in(config_folder: Path) -> bool:
    """Write the stand-in, the whole of it; False if npm has a use there, or it can't be written."""
    if has_use_of_npm(config_folder):
        return False
    try:
        (config_folder / _MODULES).mkdir()  # fails if the host is just installing
    except OSError:
        return False
    try:
        for name, content in _FILES.items():
            write_atomic(config_folder / name, content, mode=0o644)
    except OSError:
        for name in _FILES:
            (config_folder / name).unlink(missing_ok=True)
        (config_folder / _MODULES).rmdir()
        return False
    return True


@contextlib.contextmanager
def sparing_npm(project: Path) -> Iterator[None]:
    """Give a project's configuration folder the stand-in if it is made inside, for a block.

    With it goes the host's own `.gitignore`, so that there is nothing new to commit.
    """
    folder = project / ".opencode"
    was_there = folder.exists()
    yield
    if was_there:
        return
    with contextlib.suppress(OSError):
        if folder.is_dir() and place_stand_in(folder):
            write_atomic(folder / ".gitignore", "\n".join(_GITIGNORE).encode(), mode=0o644)


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
        return not any((config_folder / _MODULES).iterdir()) and all(
            read_regular(config_folder / name)[0] == content for name, content in _FILES.items()
        )
    except OSError:
        return False


def remove_stand_in(config_folder: Path) -> bool:
    """Remove the stand-in; False if there is none, or if it has become more than that."""
    if not has_stand_in(config_folder):
        return False
    (config_folder / _MODULES).rmdir()
    for name in _FILES:
        (config_folder / name).unlink()
    return True
