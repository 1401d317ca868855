"""Folders for memory blocks, and small ways to fill and read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from snapshots.block_store import BlockStore
from snapshots.blocks import MemoryFolders

FIXTURE = Path(__file__).parent / "fixtures" / "opencode-agent-memory-0.2.0"


@pytest.fixture
def folders(tmp_path: Path) -> MemoryFolders:
    """A global folder and a project; the project's own folder isn't there yet."""
    (tmp_path / "global").mkdir()
    (tmp_path / "project").mkdir()
    return MemoryFolders(
        global_folders=(tmp_path / "global",),
        project_folder=tmp_path / "project" / ".opencode" / "memory",
        project_root=tmp_path / "project",
    )


@pytest.fixture
def g(folders: MemoryFolders) -> Path:
    return folders.global_folders[0]


@pytest.fixture
def m(folders: MemoryFolders) -> Path:
    assert folders.project_folder
    folders.project_folder.mkdir(parents=True)
    return folders.project_folder


@pytest.fixture
def store(folders: MemoryFolders, tmp_path: Path) -> BlockStore:
    return BlockStore(folders, tmp_path / "state" / "locks")


@pytest.fixture
def moved(folders, g, m) -> MemoryFolders:
    shutil.copytree(FIXTURE / "global", g, dirs_exist_ok=True)
    shutil.copytree(FIXTURE / "project", m, dirs_exist_ok=True)
    return folders
