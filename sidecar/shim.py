"""The shim's file: where ours lies, where OpenCode looks for it, and whether the two agree."""

from __future__ import annotations

from pathlib import Path

NAME = "opencode-memory.js"
_SIGN = b"// opencode-memory-sidecar:"  # how every version of the shim begins
_FOLDERS = ("plugins", "plugin")  # OpenCode loads from both; the first is where we install


def shim_path() -> Path:
    """Return the packaged shim, in a wheel and in a checkout alike."""
    packaged = Path(__file__).with_name(NAME)
    if packaged.exists():
        return packaged
    return Path(__file__).parents[1] / "plugin-shim" / NAME


def install_path(config_folder: Path) -> Path:
    """Return where the shim goes below one of OpenCode's configuration folders."""
    return config_folder / _FOLDERS[0] / NAME


def installed_shims(config_folder: Path) -> list[Path]:
    """Return every file below this configuration folder that OpenCode loads as our shim."""
    return [
        file
        for folder in _FOLDERS
        for file in sorted((config_folder / folder).glob("*.[jt]s"))
        if is_shim(file)
    ]


def is_shim(file: Path) -> bool:
    """Whether this file is a version of our shim, or a link that was one."""
    try:
        if not file.is_file():
            return file.is_symlink() and file.readlink().name == NAME
        with file.open("rb") as stream:
            return stream.read(len(_SIGN)) == _SIGN
    except OSError:
        return False


def is_current(file: Path) -> bool:
    """Whether this installed shim is the same as the packaged one."""
    try:
        return file.read_bytes() == shim_path().read_bytes()
    except OSError:
        return False
