import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapshots.block_store
from snapshots.block_store import (
    BlockAmbiguousError,
    BlockConflictError,
    BlockNotFoundError,
    BlockReadOnlyError,
    BlockRefusedError,
    BlockStore,
    BlockWriteError,
)
from snapshots.blocks import MAX_FILE, Block, MemoryFolders
from snapshots.edits import Edit, OldTextMissingError, OverLimitError
from snapshots.frontmatter import FrontMatterError

from .block_files import EXAMPLES, posix, write


def replace(store: BlockStore, label: str, old: str, new: str) -> Block:
    edit = Edit(old_text=old, new_text=new)
    return store.replace(label=label, edits=[edit], policy="refuse")


def strictly_read(path: Path) -> tuple[dict[str, object], str]:
    """Read a file as a reader does that takes no liberties."""
    opening, header, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert opening == ""
    fields = yaml.safe_load(header)
    assert isinstance(fields["label"], str)
    assert isinstance(fields["description"], str)
    assert type(fields["limit"]) is int
    assert type(fields["read_only"]) is bool
    return fields, body


def test_each_way_to_change_them_leaves_them_readable_to_a_strict_reader(moved, store, g, m):
    before = {path: path.read_text() for path in m.glob("*.md")}
    replace(store, "project", "$5", "$& $1 \\1")
    store.set(label="123", value="two", scope="project", description="a: b", policy="refuse")
    store.set(label="true", value="yes", scope="global", limit=10, policy="refuse")
    store.delete(label="persona")
    project = m / "project.md"
    assert project.read_text() == before[project].replace("$5", "$& $1 \\1")
    assert (m / "123.md").read_text() == (
        "---\nlabel: '123'\ndescription: 'a: b'\nlimit: 5000\nread_only: false\n"
        "modified_at: '2026-01-02T03:04:05.678Z'\n---\ntwo\n"
    )
    assert strictly_read(g / "true.md")[0]["limit"] == 10
    for path in [*g.glob("*.md"), *m.glob("*.md")]:
        strictly_read(path)
    with pytest.raises(BlockReadOnlyError):
        replace(store, "human", "Ann", "Eve")


def test_a_new_block_is_a_file_that_a_strict_reader_reads(store, m):
    store.set(label="true", value="v", scope="project", description="a: b", policy="refuse")
    assert (m / "true.md").read_text() == (
        "---\nlabel: 'true'\ndescription: 'a: b'\nlimit: 5000\nread_only: false\n---\nv\n"
    )
    strictly_read(m / "true.md")


def test_nothing_is_made_in_a_project_before_something_is_written(store, tmp_path):
    store.read()
    store.set(label="a", value="v", scope="global", policy="refuse")
    with pytest.raises(BlockRefusedError):
        store.set(label="../a", value="v", scope="project", policy="refuse")
    with pytest.raises(OverLimitError):
        store.set(label="a", value="vv", scope="project", limit=1, policy="refuse")
    assert list((tmp_path / "project").iterdir()) == []


def test_the_first_block_of_a_project_brings_a_gitignore(store, folders, tmp_path):
    store.set(label="a", value="v", scope="project", policy="refuse")
    ignore = folders.project_folder / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.unlink()
    store.set(label="b", value="v", scope="project", policy="refuse")
    store.set(label="g", value="v", scope="global", policy="refuse")
    assert not ignore.exists()
    assert not (tmp_path / "global" / ".gitignore").exists()


def test_a_gitignore_of_the_users_own_stays(store, m):
    write(m / ".gitignore", "mine\n")
    store.set(label="a", value="v", scope="project", policy="refuse")
    assert (m / ".gitignore").read_text() == "mine\n"


def test_the_gitignore_can_be_turned_off(folders, tmp_path):
    BlockStore(folders, tmp_path / "locks", gitignore=False).set(
        label="a", value="v", scope="project", policy="refuse"
    )
    assert [path.name for path in folders.project_folder.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    "label",
    [
        "",
        ".a",
        "a/b",
        "..",
        "a b",
        "ä",
        "x" * 65,
        "con",
        "NUL.txt",
        "a\n",
        "\ud800",
        "-a",
        "a\x1bc",
    ],
)
def test_a_label_outside_the_rule_is_not_written(store, g, label):
    with pytest.raises(BlockRefusedError, match="label"):
        store.set(label=label, value="v", scope="global", policy="refuse")
    assert list(g.iterdir()) == []


def test_a_scope_without_a_folder_is_off(tmp_path):
    store = BlockStore(MemoryFolders(), tmp_path / "locks")
    for scope in ("global", "project"):
        with pytest.raises(BlockRefusedError, match="off"):
            store.set(label="a", value="v", scope=scope, policy="refuse")


def test_a_block_is_found_by_label_and_two_are_ambiguous(store, g, m):
    write(g / "a.md", "G")
    write(g / "only.md", "O")
    write(m / "a.md", "P")
    assert store.get("only").value == "O"
    assert store.get("a", "global").value == "G"
    assert store.get("a", "project").value == "P"
    with pytest.raises(BlockAmbiguousError) as caught:
        store.get("a")
    assert str(g / "a.md") in str(caught.value)
    assert str(m / "a.md") in str(caught.value)


def test_a_block_that_is_not_there_is_refused_with_the_labels_there_are(store, g):
    write(g / "a.md", "x")
    (g / "b.md").mkdir()
    with pytest.raises(BlockNotFoundError, match="'a'"):
        store.get("c")
    with pytest.raises(BlockNotFoundError, match="not a regular file"):
        store.get("b")


CASES = {
    "everything by hand": (
        "\ufeff--- \r\n# mine\r\ntags: [a,  b]\r\nlabel:   'x'\r\nlimit: 100 # c\r\n--- \r\n"
        "one\r\ntwo\r\nthree",
        "two",
        "TWO",
    ),
    "no front matter": ("one\ntwo\n\n", "two", "TWO"),
    "mixed line ends": ("---\r\nlabel: x\r\n---\r\na\nb\r\nc\nd\r\ne", "c", "C"),
    "broken header": ("---\nlabel: x\ndescription: a: b\n---\nold\n", "old", "new"),
    "flow header": ("---\n{label: x, q: [1]}\n---\nold\n", "old", "new"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_replace_changes_its_text_and_no_other_byte(store, g, name):
    text, old, new = CASES[name]
    path = write(g / "x.md", text)
    replace(store, "x", old, new)
    assert path.read_bytes() == text.replace(old, new).encode()


def test_a_batch_leaves_the_lines_between_its_edits_alone(store, g):
    path = write(g / "x.md", "---\r\n---\r\na\nb\r\nc\nd\r\ne\n")
    edits = [Edit(old_text="a", new_text="A"), Edit(old_text="e", new_text="E")]
    store.replace(label="x", edits=edits, policy="refuse")
    assert path.read_bytes() == b"---\r\n---\r\nA\nb\r\nc\nd\r\nE\n"


def test_a_batch_is_all_or_nothing(store, g):
    path = write(g / "x.md", "one two")
    edits = [Edit(old_text="one", new_text="1"), Edit(old_text="three", new_text="3")]
    with pytest.raises(OldTextMissingError) as caught:
        store.replace(label="x", edits=edits, policy="refuse")
    assert path.read_text() == caught.value.current == "one two"


def test_setting_description_and_limit_edits_their_lines_only(store, g):
    path = write(
        g / "x.md",
        "---\n# mine\ndescription: >-\n  old\n  text\nz: 1\nlimit: 100 # small\nlabel: x\n---\nv\n",
    )
    block = store.set(
        label="x", value="v", scope="global", description="new: text", limit=200, policy="refuse"
    )
    assert path.read_text() == (
        "---\n# mine\ndescription: 'new: text'\nz: 1\nlimit: 200 # small\nlabel: x\n---\nv\n"
    )
    assert block == store.get("x")


def test_setting_what_is_there_already_does_not_touch_the_file(store, g):
    text = "---\nlabel: x\ndescription: >-\n  folded\n  text\nlimit: 10\n---\nv\n"
    path = write(g / "x.md", text)
    inode = path.stat().st_ino
    store.set(
        label="x", value="v", scope="global", description="folded text", limit=10, policy="refuse"
    )
    assert (path.read_text(), path.stat().st_ino) == (text, inode)


@pytest.mark.parametrize(
    "value", ["---\nlabel: y\n---\nz", "---", "\n---\n", "\ufeffx", "\ufeff---"]
)
def test_a_file_without_front_matter_gets_some_when_its_value_would_look_like_it(store, g, value):
    write(g / "x.md", "old")
    block = store.set(label="x", value=value, scope="global", policy="refuse")
    assert store.get("x") == block
    assert (block.value, block.label, block.read_only) == (value, "x", False)


VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.sampled_from(list("-ab:# \t\r\n\"'é🎉\ufeff\u2028\x85\x00"))),
)
FILES = st.sampled_from(
    [
        None,
        "",
        "text",
        "a\r\nb\r\n",
        "\ufeff---\r\nlabel: x\r\nq: 'kept'\r\n---\r\na\r\nb\nc\r\n",
        "---\n# c\nlabel: x\nq: [1,  2]\n---",
        "---\nlabel: x\ndescription: a: b\n---\nbody",
        "---\n{label: x, q: 1}\n---\nbody\n",
    ]
)


@given(FILES, VALUES, VALUES)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_value_set_is_the_value_got(store, g, text, value, description):
    (g / "x.md").unlink(missing_ok=True)
    if text is not None:
        write(g / "x.md", text)
    block = store.set(
        label="x", value=value, scope="global", description=description, policy="allow"
    )
    read = store.get("x", "global")
    assert (read.value, read.description, read.label) == (value, description, "x")
    assert msgspec.structs.replace(read, warnings=block.warnings) == block
    if text and "q: " in text:
        assert text[text.index("q: ") :].split("\n")[0].rstrip("}\r") in (g / "x.md").read_text()


@pytest.mark.parametrize("field", ["value", "description"])
def test_half_a_surrogate_pair_is_refused(store, g, field):
    texts = {"value": "v", "description": "d", field: "x\ud83d"}
    with pytest.raises(BlockRefusedError, match=f"{field}.*character 2"):
        store.set(label="x", scope="global", policy="refuse", **texts)
    path = write(g / "x.md", "old")
    with pytest.raises(BlockRefusedError, match="surrogate"):
        replace(store, "x", "old", "\udc00")
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    "text",
    [
        "---\nread_only: true\n---\nold",
        "---\r\nread_only: true\r\n---\r\nold",
        "\ufeff---\nread_only: true\n---\nold",
        "---\nread_only: perhaps\n---\nold",
        "---\nread_only: true\nold",
    ],
)
def test_a_read_only_block_is_not_changed(store, g, text):
    path = write(g / "x.md", text)
    with pytest.raises(BlockReadOnlyError):
        replace(store, "x", "old", "new")
    with pytest.raises(BlockReadOnlyError):
        store.set(label="x", value="new", scope="global", policy="refuse")
    with pytest.raises(BlockReadOnlyError):
        store.delete(label="x")
    assert path.read_bytes() == text.encode()


def test_a_file_that_its_user_has_made_read_only_is_not_changed(store, g):
    path = write(g / "x.md", "old")
    path.chmod(0o444)
    with pytest.raises(BlockReadOnlyError):
        replace(store, "x", "old", "new")
    assert path.read_text() == "old"


def test_a_file_that_is_not_utf8_is_not_written_back(store, g):
    path = write(g / "x.md", b"caf\xe9 old")
    with pytest.raises(BlockRefusedError, match="UTF-8"):
        replace(store, "x", "old", "new")
    assert path.read_bytes() == b"caf\xe9 old"


def test_a_write_that_ends_over_the_limit_is_refused_and_one_that_shortens_is_not(store, g):
    path = write(g / "x.md", "---\nlimit: 5\n---\n1234567890\n")
    with pytest.raises(OverLimitError) as caught:
        replace(store, "x", "123", "abc")
    error = caught.value
    assert (error.size, error.limit, error.overage, error.current) == (10, 5, 5, "1234567890")
    assert replace(store, "x", "123", "").value == "4567890"
    edits = [Edit(old_text="4", new_text="44444"), Edit(old_text="567890", new_text="")]
    store.replace(label="x", edits=edits, policy="refuse")
    store.set(label="x", value="123456", scope="global", limit=6, policy="refuse")
    assert path.read_text() == "---\nlimit: 6\n---\n123456\n"
    assert store.set(label="x", value="1234567", scope="global", policy="allow").size == 7


@pytest.mark.parametrize("limit", [0, -1, 10**9])
def test_a_limit_that_could_not_be_read_back_is_not_written(store, limit):
    with pytest.raises(BlockRefusedError, match="limit"):
        store.set(label="x", value="v", scope="global", limit=limit, policy="refuse")


def test_a_block_too_large_to_be_read_back_is_not_written(store, g):
    with pytest.raises(BlockRefusedError, match="bytes"):
        store.set(label="x", value="x" * MAX_FILE, scope="global", policy="allow")
    assert list(g.iterdir()) == []


def test_front_matter_too_large_to_be_read_back_is_not_written(store, g):
    with pytest.raises(FrontMatterError, match="longer than"):
        store.set(label="x", value="", scope="global", description="d" * 70_000, policy="allow")
    assert list(g.iterdir()) == []


@posix
def test_a_write_goes_through_the_users_link_and_keeps_the_files_mode(store, g, tmp_path):
    dotfile = write(tmp_path / "dotfile.md", "old")
    dotfile.chmod(0o640)
    (g / "x.md").symlink_to(dotfile)
    replace(store, "x", "old", "new")
    assert (g / "x.md").is_symlink()
    assert dotfile.read_text() == "new"
    assert stat.S_IMODE(dotfile.stat().st_mode) == 0o640


@posix
def test_deleting_a_link_leaves_the_file_it_leads_to(store, g, tmp_path):
    dotfile = write(tmp_path / "dotfile.md", "mine")
    (g / "x.md").symlink_to(dotfile)
    assert store.delete(label="x").value == "mine"
    assert not (g / "x.md").is_symlink()
    assert dotfile.read_text() == "mine"


def test_a_deleted_block_is_gone(store, g):
    write(g / "x.md", "v")
    store.delete(label="x", scope="global")
    with pytest.raises(BlockNotFoundError):
        store.get("x")


def test_a_name_that_another_file_holds_is_not_overwritten(store, g):
    path = write(g / "x.md", "---\nlabel: other\n---\nv\n")
    with pytest.raises(BlockConflictError, match="there already"):
        store.set(label="x", value="new", scope="global", policy="refuse")
    assert path.read_text() == "---\nlabel: other\n---\nv\n"


@posix
def test_a_link_that_leads_nowhere_is_not_replaced(store, g, tmp_path):
    (g / "x.md").symlink_to(tmp_path / "dotfiles" / "x.md")
    with pytest.raises(BlockConflictError, match="there already"):
        store.set(label="x", value="new", scope="global", policy="refuse")
    assert (g / "x.md").is_symlink()


def meanwhile(monkeypatch, name, action):
    """Let `action` happen once, right before this module calls `name`."""
    real = getattr(snapshots.block_store, name)
    actions = [action]

    def call(*args, **options):
        if actions:
            actions.pop()()
        return real(*args, **options)

    monkeypatch.setattr(snapshots.block_store, name, call)


@pytest.mark.parametrize("saved", ["old, and more", "old"])
def test_an_editors_save_before_the_lock_is_in_the_result(store, g, monkeypatch, saved):
    path = write(g / "x.md", "old")
    meanwhile(monkeypatch, "make_private_folder", lambda: write(path, saved))
    replace(store, "x", "old", "new")
    assert path.read_text() == saved.replace("old", "new")


def test_an_editors_save_under_the_lock_is_a_conflict(store, g, monkeypatch):
    path = write(g / "x.md", "old text")
    meanwhile(monkeypatch, "check_limit", lambda: write(path, "old mine"))
    with pytest.raises(BlockConflictError, match="read the block again"):
        replace(store, "x", "old", "new")
    assert path.read_text() == "old mine"


def test_an_editors_save_while_the_new_file_is_being_written_is_a_conflict(store, g, monkeypatch):
    path = write(g / "x.md", "old")
    synced = os.fsync

    def save_then_sync(descriptor):
        write(path, "old mine")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", save_then_sync)
    with pytest.raises(BlockConflictError, match="read the block again"):
        replace(store, "x", "old", "new")
    assert path.read_text() == "old mine"
    assert [file.name for file in g.iterdir()] == ["x.md"]


def test_a_file_deleted_under_the_lock_is_a_conflict_and_not_made_again(store, g, monkeypatch):
    path = write(g / "x.md", "old")
    meanwhile(monkeypatch, "check_limit", path.unlink)
    with pytest.raises(BlockConflictError):
        replace(store, "x", "old", "new")
    assert not path.exists()


@pytest.mark.parametrize("action", ["delete", "relabel"])
def test_a_block_that_goes_before_the_lock_is_a_conflict(store, g, monkeypatch, action):
    path = write(g / "x.md", "old")
    change = path.unlink if action == "delete" else lambda: write(path, "---\nlabel: y\n---\nold")
    meanwhile(monkeypatch, "make_private_folder", change)
    with pytest.raises(BlockConflictError):
        replace(store, "x", "old", "new")


def test_a_block_made_by_two_at_once_is_made_by_one(store, g, monkeypatch):
    other = BlockStore(MemoryFolders(global_folders=(g,)), g.parent / "state" / "locks")

    def first():
        other.set(label="x", value="first", scope="global", policy="refuse")

    meanwhile(monkeypatch, "check_limit", first)
    with pytest.raises(BlockConflictError, match="there already"):
        store.set(label="x", value="second", scope="global", policy="refuse")
    assert store.get("x").value == "first"


@posix
def test_a_link_that_leads_elsewhere_before_the_lock_is_a_conflict(store, g, monkeypatch, tmp_path):
    files = [write(tmp_path / name, "old") for name in ("one.md", "two.md")]
    (g / "x.md").symlink_to(files[0])

    def lead_elsewhere():
        (g / "x.md").unlink()
        (g / "x.md").symlink_to(files[1])

    meanwhile(monkeypatch, "make_private_folder", lead_elsewhere)
    with pytest.raises(BlockConflictError):
        replace(store, "x", "old", "new")
    assert [file.read_text() for file in files] == ["old", "old"]


@posix
def test_two_links_to_one_file_have_one_writer_at_a_time(store, g, monkeypatch):
    monkeypatch.setattr(snapshots.block_store, "LOCK_TIMEOUT", 0.05)
    path = write(g / "x.md", "old")
    (g / "y.md").symlink_to("x.md")
    other = BlockStore(MemoryFolders(global_folders=(g,)), g.parent / "state" / "locks")
    caught = []

    def second():
        with pytest.raises(BlockConflictError, match="try again later") as conflict:
            replace(other, "y", "old", "second")
        caught.append(conflict)

    meanwhile(monkeypatch, "check_limit", second)
    replace(store, "x", "old", "first")
    assert len(caught) == 1
    assert path.read_text() == "first"


@posix
def test_who_makes_a_block_keeps_out_who_makes_it_by_another_way(store, g, monkeypatch):
    monkeypatch.setattr(snapshots.block_store, "LOCK_TIMEOUT", 0.05)
    (g.parent / "link").symlink_to(g)
    linked = MemoryFolders(global_folders=(g.parent / "link",))
    other = BlockStore(linked, g.parent / "state" / "locks")
    caught = []

    def second():
        with pytest.raises(BlockConflictError, match="try again later") as conflict:
            other.set(label="x", value="second", scope="global", policy="refuse")
        caught.append(conflict)

    meanwhile(monkeypatch, "write_atomic", second)
    store.set(label="x", value="first", scope="global", policy="refuse")
    assert len(caught) == 1
    assert store.get("x").value == "first"


def test_a_writer_that_waits_too_long_says_so(store, g, monkeypatch):
    monkeypatch.setattr(snapshots.block_store, "LOCK_TIMEOUT", 0.05)
    path = write(g / "x.md", "old")
    other = BlockStore(MemoryFolders(global_folders=(g,)), g.parent / "state" / "locks")
    caught = []

    def second():
        try:
            replace(other, "x", "old", "new")
        except BlockConflictError as error:
            caught.append(str(error))

    meanwhile(monkeypatch, "check_limit", second)
    replace(store, "x", "old", "first")
    assert "try again later" in caught[0]
    assert path.read_text() == "first"


def test_a_disk_that_refuses_is_a_sentence_and_leaves_the_file(store, g, monkeypatch):
    path = write(g / "x.md", "old")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshots.block_store, "write_atomic", full)
    with pytest.raises(BlockWriteError, match="No space left") as caught:
        replace(store, "x", "old", "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"


def test_a_state_folder_that_cannot_be_made_is_a_sentence(folders, g, tmp_path):
    write(tmp_path / "file", "in the way")
    write(g / "x.md", "old")
    store = BlockStore(folders, tmp_path / "file" / "locks")
    assert store.get("x").value == "old"
    with pytest.raises(BlockWriteError):
        replace(store, "x", "old", "new")


def test_an_opencode_that_is_a_file_is_a_sentence_when_written(store, tmp_path):
    write(tmp_path / "project" / ".opencode", "a file")
    with pytest.raises(BlockWriteError, match="Not a directory"):
        store.set(label="x", value="v", scope="project", policy="refuse")


def test_locks_lie_in_the_state_folder_only(store, g, tmp_path):
    write(g / "x.md", "old")
    replace(store, "x", "old", "new")
    assert [path.name for path in g.iterdir()] == ["x.md"]
    assert stat.S_IMODE((tmp_path / "state" / "locks").stat().st_mode) == 0o700


WRITER = """
import sys
from pathlib import Path
from snapshots.block_store import BlockStore
from snapshots.blocks import MemoryFolders
from snapshots.edits import Edit

folder, locks, writer = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
store = BlockStore(MemoryFolders(global_folders=(folder,)), locks)
for number in range(50):
    edit = Edit(old_text=f"<{writer}.{number}>", new_text=f"done {writer}.{number}.")
    store.replace(label="x", edits=[edit], policy="refuse")
"""


def test_20_processes_do_not_lose_each_others_edits(g, tmp_path):
    lines = [f"<{writer}.{number}>" for writer in range(20) for number in range(50)]
    path = write(g / "x.md", "---\nlimit: 100000\n---\n" + "\n".join(lines) + "\n")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(g), str(tmp_path / "locks"), str(writer)]
        )
        for writer in range(20)
    ]
    try:
        assert [writer.wait(timeout=50) for writer in writers] == [0] * 20
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    done = [line.replace("<", "done ").replace(">", ".") for line in lines]
    assert path.read_text() == "---\nlimit: 100000\n---\n" + "\n".join(done) + "\n"
    assert [entry.name for entry in g.iterdir()] == ["x.md"]
