"""`opencode-memory blocks`: the memory blocks of this project and its user."""

from __future__ import annotations

from pathlib import Path

from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.inventory import InventoryBlock
    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which project."""
    add_directory_argument(parser)


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--directory`, which every command about a project's memory has."""
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="the project's folder (default: this one)",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Read the files as the next session would; needs no sidecar."""
    import msgspec

    from sidecar.inventory import take_inventory

    inventory = take_inventory(settings.config_folders, options.directory.absolute())
    lines = [line for block in inventory.blocks for line in _lines(block)]
    lines += [f"not read: {problem}" for problem in inventory.block_problems]
    lines += [f"settings: {problem}" for problem in inventory.settings_problems]
    if not inventory.blocks:
        lines.insert(0, "There is no memory block yet.")
    return Result("\n".join(lines), msgspec.to_builtins(inventory))


def _lines(block: InventoryBlock) -> list[str]:
    marks = " read-only" if block.read_only else ""
    if block.size > block.limit:
        marks += f" {block.size - block.limit} over its limit"
    heading = f"{block.scope}:{block.label}  {block.size}/{block.limit}{marks}  {block.file}"
    return [heading, *(f"  warning: {warning}" for warning in block.warnings)]
