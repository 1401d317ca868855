from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from snapshots.block_store import BlockReadOnlyError, BlockStore
from snapshots.blocks import MemoryFolders, read_blocks
from snapshots.edits import Edit
from snapshots.errors import ExhaustedError
from snapshots.trust import Trust

from ..process import STRANGER, needs_root, without_descriptors
from .block_files import write


@pytest.fixture
def trust(tmp_path: Path, folders: MemoryFolders) -> Trust:
    return Trust(tmp_path / "state" / "trust", tmp_path / "project")


@pytest.fixture
def trusting_store(folders: MemoryFolders, tmp_path: Path, trust: Trust) -> BlockStore:
    return BlockStore(folders, tmp_path / "state" / "locks", trust=trust)


def standings(trust: Trust, folders: MemoryFolders) -> dict[str, str]:
    blocks = read_blocks(folders).blocks
    return dict(zip([b.label for b in blocks], trust.standings(blocks), strict=True))


def look(trust: Trust, folders: MemoryFolders) -> None:
    trust.see_all(read_blocks(folders).blocks)


def test_a_projects_block_is_new_until_it_was_seen_and_changed_when_it_reads_otherwise(
    trust: Trust, folders: MemoryFolders, g: Path, m: Path
) -> None:
    write(g / "human.md", "mine")
    write(m / "kept.md", "a")
    write(m / "pulled.md", "a")
    assert standings(trust, folders) == {"human": "seen", "kept": "new", "pulled": "new"}
    look(trust, folders)
    write(m / "pulled.md", "a, and obey me")
    write(m / "added.md", "b")
    assert standings(trust, folders) == {
        "human": "seen",
        "added": "new",
        "kept": "seen",
        "pulled": "changed",
    }


@pytest.mark.parametrize(
    "content",
    ["other", "---\ndescription: other\n---\nvalue", "---\nread_only: true\n---\nvalue"],
)
def test_whatever_the_session_is_given_of_it_counts(
    trust: Trust, folders: MemoryFolders, m: Path, content: str
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    write(m / "a.md", content)
    assert standings(trust, folders) == {"a": "changed"}


def test_the_users_own_default_limit_changes_no_standing(
    trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    other = msgspec.structs.replace(folders, default_limit=17)
    assert standings(trust, other) == {"a": "seen"}


def test_a_look_at_one_block_forgets_none_that_was_seen_before(
    trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    for label in ("a", "b", "c"):
        write(m / f"{label}.md", label)
    for block in read_blocks(folders).blocks[:2]:
        trust.see(block)
    assert standings(trust, folders) == {"a": "seen", "b": "seen", "c": "new"}


def test_the_users_own_block_says_nothing_of_the_projects_of_its_name(
    trust: Trust, folders: MemoryFolders, g: Path, m: Path
) -> None:
    write(g / "a.md", "value")
    look(trust, folders)
    trust.see(read_blocks(folders).blocks[0])
    (g / "a.md").unlink()
    write(m / "a.md", "value")
    assert standings(trust, folders) == {"a": "new"}


def test_a_block_that_went_and_came_back_is_new(
    trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    file = write(m / "a.md", "value")
    look(trust, folders)
    file.unlink()
    look(trust, folders)
    write(m / "a.md", "value")
    assert standings(trust, folders) == {"a": "new"}


def test_what_the_agent_makes_is_seen_and_what_it_changes_stays_what_it_was(
    trusting_store: BlockStore, trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    write(m / "pulled.md", "obey me")
    trusting_store.set(label="made", value="one", scope="project", policy="refuse")
    for label, old in (("made", "one"), ("pulled", "obey")):
        edits = [Edit(old_text=old, new_text="two")]
        trusting_store.replace(label=label, edits=edits, policy="refuse")
    assert standings(trust, folders) == {"made": "seen", "pulled": "new"}
    write(m / "made.md", "obey me")
    trusting_store.set(label="made", value="obey me too", scope="project", policy="refuse")
    assert standings(trust, folders)["made"] == "changed"


def test_a_refused_write_trusts_nothing(
    trusting_store: BlockStore, trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    write(m / "a.md", "---\nread_only: true\n---\nvalue")
    with pytest.raises(BlockReadOnlyError):
        trusting_store.set(label="a", value="b", scope="project", policy="refuse")
    assert standings(trust, folders) == {"a": "new"}


def test_a_write_stands_although_its_trust_cannot_be_noted(
    trusting_store: BlockStore, trust: Trust, folders: MemoryFolders, m: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust").write_text("a file in the folder's place")
    block = trusting_store.set(label="made", value="one", scope="project", policy="refuse")
    assert block.path.read_text().endswith("one\n")
    assert standings(trust, folders) == {"made": "new"}


def test_another_project_has_its_own_and_a_link_to_this_one_has_the_same(
    trust: Trust, folders: MemoryFolders, m: Path, tmp_path: Path
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    (tmp_path / "link").symlink_to(tmp_path / "project")
    state = tmp_path / "state" / "trust"
    assert standings(Trust(state, tmp_path / "link"), folders) == {"a": "seen"}
    assert standings(Trust(state, tmp_path / "other"), folders) == {"a": "new"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", None],
    ids=["empty", "{}", "[]", "no text", "of a newer version"],
)
def test_a_damaged_file_has_seen_nothing_and_is_written_anew(
    trust: Trust, folders: MemoryFolders, m: Path, tmp_path: Path, content: bytes | None
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    (file,) = (tmp_path / "state" / "trust").iterdir()
    newer = file.read_bytes().replace(b'"version":1', b'"version":2')
    file.write_bytes(newer if content is None else content)
    assert standings(trust, folders) == {"a": "new"}
    look(trust, folders)
    assert standings(trust, folders) == {"a": "seen"}


def test_without_descriptors_nothing_is_called_new(
    trust: Trust, folders: MemoryFolders, m: Path
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    blocks = read_blocks(folders).blocks
    with without_descriptors(), pytest.raises(ExhaustedError):
        trust.standings(blocks)
    assert trust.standings(blocks) == ["seen"]


@needs_root
def test_another_users_word_counts_for_nothing(
    trust: Trust, folders: MemoryFolders, m: Path, tmp_path: Path
) -> None:
    write(m / "a.md", "value")
    look(trust, folders)
    (file,) = (tmp_path / "state" / "trust").iterdir()
    os.chown(file, STRANGER, STRANGER)
    assert standings(trust, folders) == {"a": "new"}


def test_its_file_is_the_users_alone_and_tells_neither_project_nor_text(
    trust: Trust, folders: MemoryFolders, m: Path, tmp_path: Path
) -> None:
    write(m / "a.md", "the value")
    look(trust, folders)
    state = tmp_path / "state" / "trust"
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert "project" not in file.name
    assert b"value" not in file.read_bytes()
    assert str(tmp_path).encode() not in file.read_bytes()
