"""Which of a project's blocks the user has seen: they come with the repository, from anybody.

One small JSON file per project, named by a hash of the project's folder, with a hash of each block
as it was seen. A block that reads otherwise now is changed, one that isn't named there is new. What
the user's own agent writes keeps the standing that the block had before.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from snapshots.atomic import write_atomic
from snapshots.blocks import Block
from snapshots.errors import raise_if_exhausted
from snapshots.ownership import make_private_folder, read_own

Standing = Literal["seen", "new", "changed"]


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: Literal[1] = 1
    seen: dict[str, str]


_decode = msgspec.json.Decoder(_File).decode


class Trust:
    """What the user has seen of one project; `folder` is where all projects' files lie."""

    def __init__(self, folder: Path, project: Path) -> None:
        self._folder = folder
        self._project = project

    def standings(self, blocks: Iterable[Block]) -> list[Standing]:
        """Return how each block stands now; a user's own is always seen."""
        seen = self._seen()
        return [_standing(block, seen) for block in blocks]

    def see_all(self, blocks: Iterable[Block]) -> None:
        """Note that the user has seen these, and no other, of the project's blocks.

        Raises OSError.
        """
        self._write({block.label: _hash(block) for block in blocks if block.scope == "project"})

    def see(self, block: Block) -> None:
        """Note that the user has seen this block too. Raises OSError."""
        if block.scope == "project":
            self._write({**self._seen(), block.label: _hash(block)})

    def follow(self, old: Block | None, new: Block) -> None:
        """Note a write of the user's own agent: to a block that was seen, or that it made.

        Raises OSError.
        """
        if old is None or self.standings([old]) == ["seen"]:
            self.see(new)

    @cached_property
    def _file(self) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.realpath(self._project))).hexdigest()
        return self._folder / f"{name}.json"

    def _seen(self) -> dict[str, str]:
        try:
            return _decode(read_own(self._file)).seen
        except OSError as error:
            raise_if_exhausted(error)
            return {}
        except msgspec.MsgspecError:
            return {}  # in doubt, nothing was seen

    def _write(self, seen: dict[str, str]) -> None:
        make_private_folder(self._file.parent)
        write_atomic(self._file, msgspec.json.encode(_File(seen=seen), order="sorted"))


def _standing(block: Block, seen: dict[str, str]) -> Standing:
    if block.scope != "project":
        return "seen"
    if block.label not in seen:
        return "new"
    return "seen" if seen[block.label] == _hash(block) else "changed"


def _hash(block: Block) -> str:
    """Of all that a session is given of it, save the limit, whose default is the user's own."""
    said = [block.label, block.description, block.read_only, block.value]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
