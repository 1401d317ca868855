"""`opencode-memory install`: the shim into OpenCode's plugin folder."""

from __future__ import annotations

from pathlib import Path

from sidecar.cli.output import CommandError, Result
from sidecar.host_package import NAME, place_stand_in
from sidecar.host_plugins import OTHER_PLUGIN, other_memory_plugins
from sidecar.launcher import record_launcher
from sidecar.shim import install_path, installed_shims, is_current, is_shim, shim_path

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, and as what."""
    parser.add_argument(
        "--link", action="store_true", help="a link instead of a copy, for developers"
    )
    add_project_argument(parser)


def add_project_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--project`, which `uninstall` has too."""
    parser.add_argument(
        "--project",
        nargs="?",
        const=".",
        metavar="FOLDER",
        help="for one project only: its .opencode folder (default: of the current folder)",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Copy or link the shim, unless the one there is somebody else's file or the host too old."""
    from sidecar.host import find_host

    host = find_host()
    if host and host.is_too_old:
        raise CommandError("host_too_old", host.refusal)
    folder = chosen_config_folder(options, settings)
    target = install_path(folder)
    if (target.exists() or target.is_symlink()) and not is_shim(target):
        raise CommandError(
            "foreign_file",
            f"{target} is not this plugin's file. Move it away, then install again.",
        )
    outcome = _outcome(target, link=options.link)
    if outcome != "unchanged":
        _place(target, link=options.link)
    record_launcher(settings)
    _compile()
    # In a project these files would be somebody's to commit.
    stands_in = options.project is None and place_stand_in(folder)
    lines = [f"{_WORDS[outcome]}: {target}"]
    if stands_in:
        lines.append(
            f"So that OpenCode does not wait for npm when it starts, an empty {NAME} stands in "
            f"for the real one in {folder} (package.json, package-lock.json, node_modules). "
            "They go by themselves once another plugin or a tool is there, and with `uninstall`."
        )
    others = [file for file in installed_shims(folder) if file != target]
    if others:
        lines.append(f"OpenCode loads a second copy as well; remove it: {others[0]}")
    lines += [
        f"{OTHER_PLUGIN} is installed too, and injects the same blocks; take it out of {place}"
        for place in other_memory_plugins(settings, Path(options.project or "."))
    ]
    lines.append("Restart OpenCode to load it.")
    return Result(
        "\n".join(lines), {"file": str(target), "outcome": outcome, "stands_in": stands_in}
    )


_WORDS = {
    "unchanged": "Already installed",
    "updated": "Updated, since another version was there",
    "installed": "Installed",
}


def _outcome(target: Path, *, link: bool) -> str:
    """Return which of `_WORDS` an installation will be."""
    if target.is_symlink() == link and is_current(target):
        return "unchanged"
    return "updated" if target.exists() and not is_current(target) else "installed"


def chosen_config_folder(options: argparse.Namespace, settings: Settings) -> Path:
    """Return the project's configuration folder if one was asked for, else the user's."""
    if options.project is not None:
        return Path(options.project).absolute() / ".opencode"
    return settings.config_folders[0]


def _place(target: Path, *, link: bool) -> None:
    from snapshots.atomic import write_atomic

    target.parent.mkdir(parents=True, exist_ok=True)
    if link:
        target.unlink(missing_ok=True)
        target.symlink_to(shim_path())
        return
    write_atomic(target, shim_path().read_bytes(), mode=0o644)


def _compile() -> None:
    """Have Python write its byte-code now, so that the first start is not three times as slow."""
    import os
    import subprocess
    import sys

    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    subprocess.run(
        [sys.executable, "-P", "-c", "import sidecar.server"], env=environment, check=False
    )
