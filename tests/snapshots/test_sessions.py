from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from snapshots.errors import InvalidSessionIdError
from snapshots.folder import SnapshotFolder
from snapshots.metadata import Terms
from snapshots.origins import OriginIndex
from snapshots.sessions import DAY, SnapshotStore

from .block_files import posix

NOW = 1_700_000_000.0


class Memory:
    """What a session would be given: counts how often it was rendered."""

    def __init__(self, text: str = "v1") -> None:
        self.text = text
        self.renders = 0

    def render(self, _terms: Terms) -> str:
        self.renders += 1
        return self.text


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "snapshots")


@pytest.fixture
def store(folder: SnapshotFolder) -> SnapshotStore:
    return SnapshotStore(folder, OriginIndex(folder.path.parent / "origins"))


@pytest.fixture
def reopen(folder: SnapshotFolder, store: SnapshotStore) -> Callable[[], SnapshotStore]:
    """The store of a new process."""

    def opened() -> SnapshotStore:
        store.origins.write()
        return SnapshotStore(folder, OriginIndex(folder.path.parent / "origins"))

    return opened


def test_a_snapshot_is_rendered_once_and_stays_although_memory_changes(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    memory = Memory()
    first = store.obtain("ses_a", "initial", memory.render, NOW)
    memory.text = "v2"
    assert store.obtain("ses_a", "initial", memory.render, NOW + 1) == first
    assert store.recall("ses_a", "initial", NOW + 2) == first
    assert reopen().obtain("ses_a", "initial", memory.render, NOW + 3) == first
    assert (first.text, memory.renders) == (b"v1", 1)


def test_a_new_epoch_gets_new_bytes_once_and_another_session_its_own(store: SnapshotStore) -> None:
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW)
    memory.text = "v2"
    assert store.recall("ses_a", "1796097569296", NOW) is None
    assert store.obtain("ses_a", "1796097569296", memory.render, NOW).text == b"v2"
    memory.text = "v3"
    assert store.obtain("ses_a", "1796097569296", memory.render, NOW).text == b"v2"
    assert store.obtain("ses_b", "initial", memory.render, NOW).text == b"v3"


def test_a_snapshot_is_on_the_disk_before_it_is_handed_out(
    store: SnapshotStore, folder: SnapshotFolder
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    file = folder.file_of("ses_a")
    assert file.read_bytes().endswith(b" -->\nv1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_an_epoch_that_is_not_known_keeps_the_bytes_both_ways(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    memory = Memory()
    store.obtain("ses_a", None, memory.render, NOW)
    memory.text = "v2"
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    assert store.obtain("ses_a", None, memory.render, NOW).text == b"v1"
    assert reopen().obtain("ses_a", "later", memory.render, NOW).text == b"v2"


def test_the_hosts_word_on_compaction_counts_only_where_the_epoch_is_not_known(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW)
    store.mark_compacted("ses_a", NOW)
    store.mark_compacted("ses_without_snapshot", NOW)
    memory.text = "v2"
    again = reopen()
    assert again.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    assert again.obtain("ses_a", None, memory.render, NOW).text == b"v2"
    memory.text = "v3"
    assert again.obtain("ses_a", None, memory.render, NOW).text == b"v2"
    assert not again.clear("ses_without_snapshot")


def test_a_session_that_was_compacted_while_its_epoch_was_not_known_is_rendered_anew(
    reopen: Callable[[], SnapshotStore],
) -> None:
    memory = Memory()
    for epoch in ("2000", None):
        store = reopen()
        store.clear("ses_a")
        memory.text = "v1"
        began = store.obtain("ses_a", None, memory.render, NOW).etag
        store.mark_compacted("ses_a", NOW)
        memory.text = "v2"
        given = None if epoch else began
        assert store.obtain("ses_a", epoch, memory.render, NOW, began=given).text == b"v2"


def test_a_cleared_session_is_rendered_anew(store: SnapshotStore) -> None:
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW)
    memory.text = "v2"
    assert store.clear("ses_a")
    assert not store.clear("ses_a")
    assert store.show("ses_a", NOW) is None
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v2"


def test_showing_a_snapshot_makes_none_and_does_not_count_as_use(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    assert store.show("ses_a", NOW) is None
    store.obtain("ses_a", "initial", Memory().render, NOW)
    again = reopen()
    shown = again.show("ses_a", NOW)
    assert shown is not None
    assert shown.text == b"v1"
    assert not again.is_live("ses_a")


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:10]),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes() + b"\n"),
        lambda file: file.write_bytes(file.read_bytes().replace(b"ses_a", b"ses_b")),
        lambda file: (file.unlink(), file.mkdir()),
        pytest.param(lambda file: (file.unlink(), os.mkfifo(file)), marks=posix),
    ],
)
def test_a_file_that_is_not_whole_is_set_aside_and_never_handed_out(
    store: SnapshotStore,
    reopen: Callable[[], SnapshotStore],
    folder: SnapshotFolder,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], object],
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    damage(folder.file_of("ses_a"))
    snapshot = reopen().obtain("ses_a", "initial", Memory("v2").render, NOW)
    assert snapshot.text == b"v2"
    assert "set aside as ses_a.xml.corrupt.1700000000" in caplog.text
    assert reopen().obtain("ses_a", "initial", Memory("v3").render, NOW).text == b"v2"


def test_a_file_that_cannot_be_set_aside_is_not_handed_out_either(
    store: SnapshotStore,
    reopen: Callable[[], SnapshotStore],
    folder: SnapshotFolder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    folder.file_of("ses_a").write_bytes(b"torn")
    folder.path.joinpath("ses_a.xml.corrupt.1700000000").mkdir()
    assert reopen().obtain("ses_a", "initial", Memory("v2").render, NOW).text == b"v2"
    assert "left there, since it can't be renamed (Is a directory)" in caplog.text


def test_the_file_of_another_session_is_not_taken_for_this_ones(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore], folder: SnapshotFolder
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    folder.file_of("ses_b").write_bytes(folder.file_of("ses_a").read_bytes())
    assert reopen().obtain("ses_b", "initial", Memory("v2").render, NOW).text == b"v2"


def test_a_file_of_a_newer_version_is_left_as_it_is(
    reopen: Callable[[], SnapshotStore], folder: SnapshotFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.path.mkdir()
    newer = b'<!-- opencode-agent-memory:metadata {"format":99} -->\nwhatever'
    folder.file_of("ses_a").write_bytes(newer)
    store = reopen()
    memory = Memory()
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    memory.text = "v2"
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    assert folder.file_of("ses_a").read_bytes() == newer
    assert "format 99" in caplog.text
    store.clear("ses_a")
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v2"
    assert folder.file_of("ses_a").read_bytes().endswith(b"v2")


def test_a_snapshot_that_the_disk_refuses_stays_the_same_and_is_saved_later(
    store: SnapshotStore, folder: SnapshotFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.path.write_text("a file where the folder belongs")
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW)
    memory.text = "v2"
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    assert store.unsaved() == ["ses_a"]
    assert "can't be saved" in caplog.text
    store.settle("ses_a", NOW + 2 * DAY)  # however long it was idle, nobody else has its bytes
    assert store.obtain("ses_a", "initial", memory.render, NOW).text == b"v1"
    folder.path.unlink()
    assert store.unsettled(NOW) == ["ses_a"]
    store.settle("ses_a", NOW)
    assert store.unsaved() == []
    assert folder.file_of("ses_a").read_bytes().endswith(b"v1")


def test_the_last_use_is_recorded_to_the_day_and_never_by_a_request_in_mid_session(
    store: SnapshotStore, folder: SnapshotFolder, caplog: pytest.LogCaptureFixture
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    os.utime(folder.file_of("ses_a"), (NOW, NOW))
    store.recall("ses_a", "initial", NOW + DAY - 1)
    assert store.unsettled(NOW + DAY - 1) == []
    store.recall("ses_a", "initial", NOW + DAY)
    assert folder.file_of("ses_a").stat().st_mtime == NOW
    assert store.unsettled(NOW + DAY) == ["ses_a"]
    store.settle("ses_a", NOW + DAY)
    assert store.unsettled(NOW + DAY) == []
    assert folder.file_of("ses_a").stat().st_mtime == NOW + DAY
    folder.path.rename(folder.path.with_name("aside"))
    folder.path.write_text("a file where the folder belongs")
    store.recall("ses_a", "initial", NOW + 2 * DAY)
    store.settle("ses_a", NOW + 2 * DAY)
    assert "can't be recorded" in caplog.text
    store.settle("ses_cleared_meanwhile", NOW + 2 * DAY)


def test_a_session_that_is_read_from_the_disk_after_days_counts_as_used(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore], folder: SnapshotFolder
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    os.utime(folder.file_of("ses_a"), (NOW, NOW))
    reopen().obtain("ses_a", "initial", Memory().render, NOW + 29 * DAY)
    assert folder.file_of("ses_a").stat().st_mtime == NOW + 29 * DAY


def test_a_session_not_used_for_a_day_leaves_memory_and_keeps_its_bytes(
    store: SnapshotStore,
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    assert store.unsettled(NOW + DAY) == ["ses_a"]
    store.settle("ses_a", NOW + DAY)
    assert not store.is_live("ses_a")
    assert store.obtain("ses_a", "initial", Memory("v2").render, NOW + DAY).text == b"v1"


def test_a_file_removed_by_hand_is_put_back_for_its_live_session(
    store: SnapshotStore, folder: SnapshotFolder
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW)
    folder.file_of("ses_a").unlink()
    store.recall("ses_a", "initial", NOW + 2 * DAY)
    store.settle("ses_a", NOW + 2 * DAY)
    assert folder.file_of("ses_a").read_bytes().endswith(b"v1")


def test_every_session_with_a_snapshot_is_listed_the_last_used_first(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore], folder: SnapshotFolder
) -> None:
    store.obtain("ses_disk", "initial", Memory().render, NOW)
    os.utime(folder.file_of("ses_disk"), (NOW, NOW))
    again = reopen()
    again.obtain("ses_both", "initial", Memory().render, NOW + 1)
    again.obtain("ses_memory", "initial", Memory().render, NOW + 2)
    os.utime(folder.file_of("ses_both"), (NOW - 1, NOW - 1))
    folder.file_of("ses_memory").unlink()
    listed = [(entry.session_id, entry.last_used) for entry in again.entries()]
    assert listed == [("ses_memory", NOW + 2), ("ses_both", NOW + 1), ("ses_disk", NOW)]


def test_an_id_that_is_none_is_refused_before_anything_is_rendered(store: SnapshotStore) -> None:
    memory = Memory()
    with pytest.raises(InvalidSessionIdError):
        store.obtain("../a", "initial", memory.render, NOW)
    assert memory.renders == 0


ORIGIN = "0" * 64


def test_a_fork_takes_over_what_its_parent_was_given_although_memory_has_changed(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    memory = Memory()
    store.obtain("ses_parent", "initial", memory.render, NOW, ORIGIN)
    memory.text = "v2"
    assert store.obtain("ses_fork", "initial", memory.render, NOW, ORIGIN).text == b"v1"
    assert reopen().obtain("ses_fork_of_fork", "initial", memory.render, NOW, ORIGIN).text == b"v1"
    assert store.obtain("ses_new", "initial", memory.render, NOW, "1" * 64).text == b"v2"
    assert store.obtain("ses_unknown", "initial", memory.render, NOW).text == b"v2"


def test_a_fork_whose_parent_is_gone_asks_its_siblings_and_else_renders(
    store: SnapshotStore,
) -> None:
    memory = Memory()
    store.obtain("ses_parent", "initial", memory.render, NOW, ORIGIN)
    memory.text = "v2"
    store.obtain("ses_fork", "initial", memory.render, NOW, ORIGIN)
    store.clear("ses_parent")
    assert store.obtain("ses_late", "initial", memory.render, NOW, ORIGIN).text == b"v1"
    for session_id in ("ses_fork", "ses_late"):
        store.clear(session_id)
    assert store.obtain("ses_too_late", "initial", memory.render, NOW, ORIGIN).text == b"v2"


def test_a_fork_whose_origins_file_is_damaged_is_rendered(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    store.obtain("ses_parent", "initial", Memory().render, NOW, ORIGIN)
    opened = reopen()
    (store.origins.path / ORIGIN).write_bytes(b"\0" * 20)  # as a power cut may leave it
    fork = opened.obtain("ses_fork", "initial", Memory("v2").render, NOW, ORIGIN)
    assert fork.text == b"v2"


def test_a_cleared_session_is_rendered_anew_although_a_fork_has_its_old_bytes(
    store: SnapshotStore,
) -> None:
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW, ORIGIN)
    store.obtain("ses_fork", "initial", memory.render, NOW, ORIGIN)
    memory.text = "v2"
    store.clear("ses_a")
    assert store.obtain("ses_a", "initial", memory.render, NOW, ORIGIN).text == b"v2"


def test_a_parent_that_has_been_compacted_since_is_not_taken_for_what_it_was(
    store: SnapshotStore,
) -> None:
    memory = Memory()
    store.obtain("ses_parent", "initial", memory.render, NOW, ORIGIN)
    memory.text = "v2"
    store.obtain("ses_parent", "2000", memory.render, NOW, "2" * 64)
    memory.text = "v3"
    assert store.obtain("ses_early", "initial", memory.render, NOW, ORIGIN).text == b"v3"
    assert store.obtain("ses_fork", "2000", memory.render, NOW, "2" * 64).text == b"v2"


def test_of_forks_with_different_bytes_the_one_used_last_is_the_parent(
    store: SnapshotStore,
) -> None:
    memory = Memory()
    store.obtain("ses_parent", "initial", memory.render, NOW, ORIGIN)
    store.obtain("ses_fork", "initial", memory.render, NOW + 1, ORIGIN)
    memory.text = "v2"
    store.clear("ses_parent")
    store.obtain("ses_parent", "initial", memory.render, NOW + 2, ORIGIN)
    memory.text = "v3"
    assert store.obtain("ses_a", "initial", memory.render, NOW + 3, ORIGIN).text == b"v2"
    store.recall("ses_fork", "initial", NOW + 4)
    assert store.obtain("ses_b", "initial", memory.render, NOW + 5, ORIGIN).text == b"v1"


def test_an_epoch_that_has_begun_with_the_one_befores_bytes_keeps_them(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    memory = Memory()
    store.obtain("ses_a", "initial", memory.render, NOW)
    store.mark_compacted("ses_a", NOW)
    began = store.obtain("ses_a", "initial", memory.render, NOW).etag
    memory.text = "v2"
    for opened in (store, reopen()):
        kept = opened.obtain("ses_a", "2000", memory.render, NOW, None, began=began)
        assert kept.text == b"v1"
        assert not kept.metadata.compacted
    assert store.obtain("ses_a", "3000", memory.render, NOW, began="another").text == b"v2"


def as_part() -> Terms:
    return Terms(placement="part")


def test_a_placement_is_kept_for_life_and_taken_over_by_forks(store: SnapshotStore) -> None:
    memory = Memory()
    first = store.obtain(
        "ses_a", "initial", memory.render, NOW, ORIGIN, lambda: Terms(placement="part")
    )
    later = store.obtain("ses_a", "2000", memory.render, NOW, "2" * 64, Terms)
    fork = store.obtain("ses_fork", "2000", memory.render, NOW, "2" * 64, Terms)
    new = store.obtain("ses_new", "initial", memory.render, NOW, "3" * 64, Terms)
    assert [s.metadata.placement for s in (first, later, fork)] == ["part"] * 3
    assert new.metadata.placement == "message"
    assert (new.text == first.text, new.etag == first.etag) == (True, False)


def test_a_fork_finds_a_session_whose_first_message_was_undone(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    before, after = "a" * 64, "b" * 64
    store.obtain("ses_a", "initial", Memory().render, NOW, before)
    assert store.recall("ses_a", "initial", NOW, after) is None
    for each in (store, reopen()):
        assert each.obtain("ses_a", "initial", Memory("v2").render, NOW, after).text == b"v1"
        assert each.recall("ses_a", "initial", NOW, after)
    assert store.obtain("ses_b", "initial", Memory("v2").render, NOW, after).text == b"v1"


def test_an_undone_first_message_does_not_undo_the_hosts_word_on_compaction(
    store: SnapshotStore,
) -> None:
    store.obtain("ses_a", "initial", Memory().render, NOW, "a" * 64)
    store.mark_compacted("ses_a", NOW)
    store.obtain("ses_a", "initial", Memory("v2").render, NOW, "b" * 64)
    assert store.obtain("ses_a", None, Memory("v2").render, NOW).text == b"v2"


def test_a_fork_finds_a_session_whose_epoch_began_without_the_sidecar(store: SnapshotStore) -> None:
    before, after = "a" * 64, "b" * 64
    held = store.obtain("ses_a", "initial", Memory().render, NOW, before)
    store.mark_compacted("ses_a", NOW)
    store.obtain("ses_a", "2", Memory("v2").render, NOW, after, began=held.etag)
    assert store.obtain("ses_b", "2", Memory("v3").render, NOW, after).text == b"v1"


def test_a_subagents_policy_is_kept_for_life(
    store: SnapshotStore, reopen: Callable[[], SnapshotStore]
) -> None:
    store.obtain("ses_a", "initial", lambda _: "", NOW, None, lambda: Terms(policy="skip"))
    later = reopen().obtain("ses_a", "2000", lambda _: "", NOW, None, Terms)
    assert later.metadata.policy == "skip"
