"""`opencode-memory edit`: a block's file in the user's editor, checked afterwards."""

from __future__ import annotations

from sidecar.cli.blocks import add_directory_argument
from sidecar.cli.output import CommandError, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from sidecar.settings import Settings
    from snapshots.block_store import BlockStore
    from snapshots.blocks import Scope


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which block."""
    parser.add_argument("label", metavar="LABEL", help="the block's label")
    parser.add_argument(
        "--scope",
        choices=("global", "project"),
        help="where the block is; needed to make a new one, or if both scopes have it",
    )
    add_directory_argument(parser)


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Open the editor on the file itself, and say how the block reads now."""
    import shlex
    import subprocess

    from sidecar.config import load_config, memory_folders
    from sidecar.host_package import sparing_npm
    from snapshots.block_store import BlockStore
    from snapshots.blocks import read_blocks
    from snapshots.trust import Trust

    config = load_config(settings.config_folders).config
    folders = memory_folders(config, settings.config_folders, options.directory.absolute())
    store = BlockStore(folders, settings.lock_folder, gitignore=config.gitignore)
    with sparing_npm(options.directory.absolute()):
        file = _file(store, options.label, options.scope)
    editor = settings.editor
    if editor is None:
        raise CommandError("no_editor", f"Set $EDITOR, or open the file yourself: {file}")
    status = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
    if status != 0:
        raise CommandError("editor_failed", f"{editor} ended with {status}; see {file}")
    found = read_blocks(folders)
    problems = [problem.message for problem in found.problems if problem.path == file]
    trust = Trust(settings.trust_folder, options.directory.absolute())
    for block in found.blocks:
        if block.path == file:
            trust.see(block)  # it has just been in front of the user
    warnings = [w for block in found.blocks if block.path == file for w in block.warnings]
    lines = [f"Edited {file}.", *problems, *(f"Warning: {warning}" for warning in warnings)]
    return Result("\n".join(lines), {"file": str(file), "problems": problems, "warnings": warnings})


def _file(store: BlockStore, label: str, scope: Scope | None) -> Path:
    from snapshots.block_store import BlockNotFoundError

    try:
        return store.get(label, scope).path
    except BlockNotFoundError as error:
        if scope is None:
            raise CommandError(
                error.code, f"{error} To make it, say where: --scope global or --scope project."
            ) from error
    return store.set(label=label, value="", scope=scope, policy="allow").path
