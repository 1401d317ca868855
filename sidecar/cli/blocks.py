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
    parser.add_argument(
        "--trust",
        action="store_true",
        help="note that you have looked at the project's blocks as they are now",
    )


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

    inventory = take_inventory(
        settings.config_folders,
        options.directory.absolute(),
        settings.trust_folder,
        seen=options.trust,
    )
    lines = [line for block in inventory.blocks for line in _lines(block)]
    lines += [f"not read: {problem}" for problem in inventory.block_problems]
    lines += [f"settings: {problem}" for problem in inventory.settings_problems]
    if not inventory.blocks:
        lines.insert(0, "There is no memory block yet.")
    unseen = any(block.standing != "seen" for block in inventory.blocks)
    return Result("\n".join(lines), msgspec.to_builtins(inventory), aside=_aside(options, unseen))


def _aside(options: argparse.Namespace, unseen: bool) -> str:
    if options.trust:
        return "The project's blocks count as seen from now on, as they are listed here."
    if unseen:
        return "Read what is new or changed, then: opencode-memory blocks --trust"
    return ""


def _lines(block: InventoryBlock) -> list[str]:
    marks = " read-only" if block.read_only else ""
    if block.size > block.limit:
        marks += f" {block.size - block.limit} over its limit"
    if block.standing != "seen":
        marks += f" {block.standing} since you last looked"
    if not block.given:
        marks += " given to no session"
    heading = f"{block.scope}:{block.label}  {block.size}/{block.limit}{marks}  {block.file}"
    return [heading, *(f"  warning: {warning}" for warning in block.warnings)]
