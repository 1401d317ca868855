"""What memory there is for one project and its user, and what is wrong with it."""

from pathlib import Path

import msgspec

from sidecar.config import load_config, memory_folders
from snapshots.blocks import read_blocks


class InventoryBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One block without its value; sizes are in the unit of `limit`."""

    scope: str
    label: str
    size: int
    limit: int
    read_only: bool
    description: str
    file: str
    warnings: tuple[str, ...]


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks, the files that are none with their reasons, and what is wrong in the settings."""

    blocks: tuple[InventoryBlock, ...]
    block_problems: tuple[str, ...]
    settings_problems: tuple[str, ...]


def take_inventory(config_folders: tuple[Path, ...], directory: Path) -> Inventory:
    """Read everything as the next session would."""
    loaded = load_config(config_folders)
    found = read_blocks(memory_folders(loaded.config, config_folders, directory))
    return Inventory(
        blocks=tuple(
            InventoryBlock(
                scope=block.scope,
                label=block.label,
                size=block.size,
                limit=block.limit,
                read_only=block.read_only,
                description=block.description,
                file=str(block.path),
                warnings=block.warnings,
            )
            for block in found.blocks
        ),
        block_problems=tuple(problem.message for problem in found.problems),
        settings_problems=loaded.problems,
    )
