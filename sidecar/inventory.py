"""What memory there is for one project and its user, and what is wrong with it."""

from pathlib import Path

import msgspec

from sidecar.config import load_config, memory_folders, trusted
from snapshots.blocks import read_blocks
from snapshots.trust import Standing, Trust


class InventoryBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One block without its value; sizes are in the unit of `limit`.

    `standing` is that of a project's block with its user; `given` whether a session is given it.
    """

    scope: str
    label: str
    size: int
    limit: int
    read_only: bool
    description: str
    file: str
    warnings: tuple[str, ...]
    standing: Standing
    given: bool


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks, the files that are none with their reasons, and what is wrong in the settings."""

    blocks: tuple[InventoryBlock, ...]
    block_problems: tuple[str, ...]
    settings_problems: tuple[str, ...]


def take_inventory(
    config_folders: tuple[Path, ...], directory: Path, trust_folder: Path, *, seen: bool = False
) -> Inventory:
    """Read everything as the next session would.

    With `seen`, note that the user has seen the project's blocks as they were read here. Raises
    OSError only then.
    """
    loaded = load_config(config_folders)
    found = read_blocks(memory_folders(loaded.config, config_folders, directory))
    trust = Trust(trust_folder, directory)
    standings = trust.standings(found.blocks)
    if seen:
        trust.see_all(found.blocks)
    given = trusted(found.blocks, loaded.config.project_trust, trust)
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
                standing=standing,
                given=block in given,
            )
            for block, standing in zip(found.blocks, standings, strict=True)
        ),
        block_problems=tuple(problem.message for problem in found.problems),
        settings_problems=loaded.problems,
    )
