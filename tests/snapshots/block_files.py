"""What the tests of reading and of writing blocks both do to files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapshots.blocks import Block, Blocks

EXAMPLES = int(os.environ.get("MEMORY_EXAMPLES", "200"))
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def only(blocks: Blocks) -> Block:
    assert blocks.problems == ()
    (block,) = blocks.blocks
    return block
