"""`opencode-memory install`: the shim into OpenCode's plugin folder."""

from __future__ import annotations

from sidecar.cli.output import CommandError, Result
from sidecar.launcher import record_launcher
from sidecar.shim import install_path, installed_shims, is_current, is_shim, shim_path

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse
    from pathlib import Path

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
    """Copy or link the shim, unless the one there is somebody else's file."""
    target = install_path(chosen_config_folder(options, settings))
    if (target.exists() or target.is_symlink()) and not is_shim(target):
        raise CommandError(
            "foreign_file",
            f"{target} is not this plugin's file. Move it away, then install again.",
        )
    as_asked = target.is_symlink() == options.link and is_current(target)
    if not as_asked:
        _place(target, link=options.link)
    record_launcher(settings)
    _compile()
    others = [file for file in installed_shims(target.parents[1]) if file != target]
    text = f"{'Already installed' if as_asked else 'Installed'}: {target}"
    if others:
        text += f"\nOpenCode loads a second copy as well; remove it: {others[0]}"
    return Result(f"{text}\nRestart OpenCode to load it.", {"file": str(target)})


def chosen_config_folder(options: argparse.Namespace, settings: Settings) -> Path:
    """Return the project's configuration folder if one was asked for, else the user's."""
    from pathlib import Path

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
    if target.is_symlink():
        target.unlink()  # or the copy would land in the file that it points to
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
