import os
import sys
import time
from pathlib import Path

import msgspec
import pytest

import snapshots.blocks
from snapshots.blocks import (
    DEFAULT_LIMIT,
    MAX_FILE,
    Block,
    Blocks,
    BlockUnreadableError,
    MemoryFolders,
    read_blocks,
)
from snapshots.errors import ExhaustedError

from ..process import without_descriptors
from .block_files import only, posix, write


def test_a_block_is_read(folders, g):
    path = write(g / "a.md", "---\nlabel: b\ndescription: D\nlimit: 7\nread_only: true\n---\nv\n")
    assert only(read_blocks(folders)) == Block(
        scope="global",
        label="b",
        description="D",
        limit=7,
        read_only=True,
        value="v",
        path=path,
    )


def test_a_file_without_front_matter_is_a_block_named_after_it(folders, g):
    path = write(g / "notes.md", "just text\n")
    assert only(read_blocks(folders)) == Block(
        scope="global",
        label="notes",
        description="",
        limit=DEFAULT_LIMIT,
        read_only=False,
        value="just text",
        path=path,
    )


def test_folders_that_are_not_there_hold_nothing(folders):
    assert read_blocks(folders) == Blocks(blocks=(), problems=())
    assert read_blocks(MemoryFolders()) == Blocks(blocks=(), problems=())


def test_blocks_come_global_first_and_by_code_point(folders, g, m):
    for label in ("b", "B", "a", "ä", "Z", "10", "9"):
        write(g / f"{label}.md", "x")
    (g / "b.md").rename(g / "0.md")
    write(g / "0.md", "---\nlabel: b\n---\nx\n")
    write(m / "a.md", "x")
    order = [(block.scope, block.label) for block in read_blocks(folders).blocks]
    expected = [("global", label) for label in ("10", "9", "B", "Z", "a", "b", "ä")]
    assert order == [*expected, ("project", "a")]


def test_only_markdown_files_are_blocks(folders, g):
    for name in (".a.md", "a.md~", "a.md.bak", "#a.md#", "a.txt", ".a.md.0f.tmp", ".gitignore"):
        write(g / name, "x")
    assert read_blocks(folders) == Blocks(blocks=(), problems=())


@pytest.mark.parametrize(
    ("text", "read_only", "warns"),
    [
        ("true", True, False),
        ("Yes", True, False),
        ("on", True, False),
        ("1", True, False),
        ("'true'", True, False),
        ("false", False, False),
        ("NO", False, False),
        ("off", False, False),
        ("0", False, False),
        ("maybe", True, True),
        ("", True, True),
        ("[false]", True, True),
        ("2026-01-01", True, True),
    ],
)
def test_a_doubtful_read_only_counts_as_read_only(folders, g, text, read_only, warns):
    write(g / "a.md", f"---\nread_only: {text}\n---\nv\n")
    block = only(read_blocks(folders))
    assert (block.read_only, block.warnings != ()) == (read_only, warns)


@pytest.mark.parametrize(
    ("header", "read_only"),
    [
        ("description: Use when: foo", False),
        ("description: Use when: foo\nread_only: false", False),
        ("description: Use when: foo\nread_only: true", True),
        ('description: Use when: foo\n"read_only": false', True),
        ("read_only: false\nread_only: true", True),
        ("read_only: true\nread_only: false", True),
        ("label: a\nread_only:true", True),
        ("<<: {read_only: true}", True),
        ("{read_only: true", True),
    ],
)
def test_a_broken_header_leaves_the_block_and_protects_it_if_it_may_have_said_so(
    folders, g, header, read_only
):
    write(g / "a.md", f"---\n{header}\n---\nbody\n")
    block = only(read_blocks(folders))
    assert (block.value, block.read_only) == ("body", read_only)
    assert block.warnings


@pytest.mark.parametrize(
    ("text", "limit", "warns"),
    [
        ("7", 7, False),
        ("'7'", 7, False),
        ("7 # seven", 7, False),
        ("0", DEFAULT_LIMIT, True),
        ("-1", DEFAULT_LIMIT, True),
        ("1e3", DEFAULT_LIMIT, True),
        ("5.5", DEFAULT_LIMIT, True),
        ("many", DEFAULT_LIMIT, True),
        ("", DEFAULT_LIMIT, True),
        ("[1]", DEFAULT_LIMIT, True),
        ("1" * 5000, DEFAULT_LIMIT, True),
    ],
)
def test_a_limit_is_a_whole_number_or_the_default(folders, g, text, limit, warns):
    write(g / "a.md", f"---\nlimit: {text}\n---\nv\n")
    block = only(read_blocks(folders))
    assert (block.limit, block.warnings != ()) == (limit, warns)


@pytest.mark.parametrize(
    ("header", "label", "warns"),
    [
        ("label: Ab_9.-x", "Ab_9.-x", False),
        ("label: 'true'", "true", False),
        ("label: 2024-01-01", "2024-01-01", False),
        ("label: my block <b>", "my block <b>", True),
        ("label: ../x", "../x", True),
        ("label: con", "con", True),
        ("label: .hidden", ".hidden", True),
        (f"label: {'x' * 65}", "x" * 65, True),
        ("label:", "file", True),
        ("label: [a]", "file", True),
        ('label: "a\\nb"', "a\nb", True),
    ],
)
def test_a_label_outside_the_rule_is_read_with_a_warning(folders, g, header, label, warns):
    write(g / "file.md", f"---\n{header}\n---\nv\n")
    block = only(read_blocks(folders))
    assert (block.label, block.warnings != ()) == (label, warns)


def test_a_description_that_is_no_text_is_reported(folders, g):
    write(g / "a.md", "---\ndescription: [a]\n---\nv\n")
    block = only(read_blocks(folders))
    assert (block.description, block.warnings) == ("", ("description is not a text.",))


@pytest.mark.parametrize(
    "text", ["---\nread_only: false\nno end", "\n---\nlabel: x\n---\n", "---\rlabel: x\r---\r"]
)
def test_front_matter_that_cannot_be_made_out_protects_the_block(folders, g, text):
    write(g / "a.md", text)
    block = only(read_blocks(folders))
    assert block.read_only
    assert block.warnings
    assert block.value == text.removesuffix("\n")


def test_windows_and_unix_files_say_the_same(folders, g, m):
    text = "---\nlabel: a\ndescription: |-\n  one\n  two\nread_only: true\n---\nx\ny\n"
    write(g / "a.md", text)
    write(m / "a.md", "\ufeff" + text.replace("\n", "\r\n"))
    one, two = read_blocks(folders).blocks
    same = msgspec.structs.replace(two, scope=one.scope, path=one.path)
    assert (one.read_only, one.value) == (True, "x\ny")
    assert same == one


def test_what_is_not_utf8_is_read_with_a_warning(folders, g):
    write(g / "a.md", b"---\nlabel: b\n---\ncaf\xe9\n")
    block = only(read_blocks(folders))
    assert block.value == "caf\ufffd"
    assert "UTF-8" in block.warnings[0]


def test_of_two_files_with_one_label_the_first_by_name_is_used_and_both_are_named(folders, g):
    first = write(g / "a.md", "---\nlabel: same\n---\n1\n")
    second = write(g / "b.md", "---\nlabel: same\n---\n2\n")
    result = read_blocks(folders)
    (block,), (problem,) = result.blocks, result.problems
    assert block.value == "1"
    assert str(second) in block.warnings[0]
    assert problem.path == second
    assert str(first) in problem.message
    assert str(second) in problem.message


def test_the_last_global_folder_wins(folders, g, tmp_path):
    later = tmp_path / "later"
    later.mkdir()
    write(g / "a.md", "earlier")
    write(later / "a.md", "later")
    both = msgspec.structs.replace(folders, global_folders=(g, later, g))
    result = read_blocks(both)
    assert [block.value for block in result.blocks] == ["earlier"]
    result = read_blocks(msgspec.structs.replace(folders, global_folders=(g, later)))
    assert [block.value for block in result.blocks] == ["later"]
    assert [problem.path for problem in result.problems] == [g / "a.md"]


def test_one_folder_given_twice_is_read_once(folders, g):
    write(g / "a.md", "x")
    assert only(read_blocks(msgspec.structs.replace(folders, global_folders=(g, g)))).value == "x"


def test_time_and_place_do_not_matter(folders, g, m):
    write(g / "a.md", "x")
    write(m / "a.md", "x")
    os.utime(m / "a.md", (1, 1))
    one, two = read_blocks(folders).blocks
    assert msgspec.structs.replace(two, scope="global", path=one.path) == one


@posix
def test_the_users_own_links_are_followed(folders, g, tmp_path):
    dotfile = write(tmp_path / "dotfile.txt", "mine\n")
    (g / "human.md").symlink_to(dotfile)
    block = only(read_blocks(folders))
    assert (block.label, block.value, block.path) == ("human", "mine", g / "human.md")


@posix
def test_a_linked_global_folder_is_followed(folders, g, tmp_path):
    write(g / "a.md", "x")
    (tmp_path / "link").symlink_to(g)
    linked = msgspec.structs.replace(folders, global_folders=(tmp_path / "link",))
    assert only(read_blocks(linked)).path == tmp_path / "link" / "a.md"


@posix
@pytest.mark.parametrize("outside", ["id_rsa", "project-of-another/id_rsa"])
def test_a_project_link_that_leads_out_is_refused_and_reported(folders, m, tmp_path, outside):
    (tmp_path / outside).parent.mkdir(exist_ok=True)
    secret = write(tmp_path / outside, "secret")
    (m / "key.md").symlink_to(secret)
    (m / "hop.md").symlink_to("key.md")
    result = read_blocks(folders)
    assert result.blocks == ()
    assert [problem.path.name for problem in result.problems] == ["hop.md", "key.md"]
    assert "secret" not in repr(result)
    assert read_blocks(msgspec.structs.replace(folders, project_root=None)) == result


@posix
def test_a_project_link_within_the_project_is_followed(folders, m, tmp_path):
    (m / "a.md").symlink_to(write(tmp_path / "project" / "AGENTS.md", "ours"))
    assert only(read_blocks(folders)).value == "ours"


@posix
@pytest.mark.parametrize("linked", [".opencode", ".opencode/memory"])
def test_a_project_folder_that_leads_out_is_refused_for_reading_and_writing(
    folders, store, g, tmp_path, linked
):
    write(g / "a.md", "mine")
    link = tmp_path / "project" / linked
    link.parent.mkdir(exist_ok=True)
    outside = tmp_path / "outside"
    (outside / "memory").mkdir(parents=True)
    write(outside / "x.md", "secret")
    write(outside / "memory" / "x.md", "secret")
    link.symlink_to(outside)
    result = read_blocks(folders)
    assert [block.label for block in result.blocks] == ["a"]
    assert [problem.path for problem in result.problems] == [folders.project_folder]
    with pytest.raises(BlockUnreadableError, match="out of the project"):
        store.set(label="new", value="v", scope="project", policy="refuse")
    assert not list(outside.rglob("new.md"))


@posix
def test_a_project_folder_that_is_a_loop_is_a_sentence(folders, store, tmp_path):
    (tmp_path / "project" / ".opencode").symlink_to(".opencode")
    assert len(read_blocks(folders).problems) == 1
    with pytest.raises(BlockUnreadableError):
        store.set(label="a", value="v", scope="project", policy="refuse")


@posix
def test_what_is_no_readable_file_is_reported(folders, g):
    (g / "broken.md").symlink_to("nowhere")
    (g / "folder.md").mkdir()
    (g / "loop.md").symlink_to("loop.md")
    os.mkfifo(g / "pipe.md")
    (g / "zero.md").symlink_to("/dev/zero")
    write(g / "good.md", "good")
    result = read_blocks(folders)
    assert [block.label for block in result.blocks] == ["good"]
    names = [problem.path.name for problem in result.problems]
    assert names == ["broken.md", "folder.md", "loop.md", "pipe.md", "zero.md"]
    assert "leads back to itself" in result.problems[2].message


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_whose_reading_fails_is_reported(folders, g):
    (g / "a.md").symlink_to("/proc/self/mem")  # its first byte is nobody's
    write(g / "b.md", "b")
    result = read_blocks(folders)
    assert [block.label for block in result.blocks] == ["b"]
    assert "can't be read: Input/output error" in result.problems[0].message


def test_without_descriptors_no_block_and_no_folder_is_called_unreadable(folders, g):
    path = write(g / "a.md", "a")
    with without_descriptors():
        with pytest.raises(ExhaustedError):
            read_blocks(folders)
        with pytest.raises(ExhaustedError):
            snapshots.blocks.read_file(path, "global", folders)
    assert only(read_blocks(folders)).value == "a"


@posix
def test_a_device_or_pipe_is_never_opened(folders, g, monkeypatch):
    os.mkfifo(g / "pipe.md")
    opened = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *args, **_: opened.append(args))
        read_blocks(folders)
    assert opened == []


@posix
def test_a_file_that_becomes_a_pipe_after_the_look_is_not_waited_for(folders, g, monkeypatch):
    path = write(g / "a.md", "x")
    real = snapshots.blocks.read_file

    def swap_then_read(*arguments, **options):
        path.unlink()
        os.mkfifo(path)
        return real(*arguments, **options)

    monkeypatch.setattr(snapshots.blocks, "read_file", swap_then_read)
    assert "regular" in read_blocks(folders).problems[0].message


@posix
def test_a_file_that_becomes_a_link_after_the_look_is_not_followed(
    folders, m, monkeypatch, tmp_path
):
    path = write(m / "a.md", "x")
    secret = write(tmp_path / "id_rsa", "secret")
    real = snapshots.blocks.read_file

    def swap_then_read(*arguments, **options):
        path.unlink()
        path.symlink_to(secret)
        return real(*arguments, **options)

    monkeypatch.setattr(snapshots.blocks, "read_file", swap_then_read)
    result = read_blocks(folders)
    assert result.blocks == ()
    assert [problem.path for problem in result.problems] == [path]


def test_a_file_in_a_global_folders_place_is_reported(folders, g, tmp_path):
    write(g / "a.md", "x")
    file = write(tmp_path / "file", "no folder")
    result = read_blocks(msgspec.structs.replace(folders, global_folders=(g, file)))
    assert [block.label for block in result.blocks] == ["a"]
    assert "can't be read: Not a directory" in result.problems[0].message


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_reported(folders, g):
    write(g / "a.md", "x").chmod(0)
    assert "Permission" in read_blocks(folders).problems[0].message


def test_an_opencode_that_is_a_file_is_reported(folders, tmp_path):
    write(tmp_path / "project" / ".opencode", "a file")
    (problem,) = read_blocks(folders).problems
    assert problem.path == folders.project_folder


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are not UTF-8")
def test_a_file_name_that_is_not_utf8_is_reported(folders, g):
    Path(os.fsdecode(os.fsencode(g) + b"/caf\xe9.md")).touch()
    result = read_blocks(folders)
    assert "not UTF-8" in result.problems[0].message
    msgspec.json.encode([problem.message for problem in result.problems])


def test_a_file_deleted_while_its_folder_is_read_is_no_block_and_no_problem(
    folders, g, monkeypatch
):
    path = write(g / "x.md", "v")
    real = snapshots.blocks.read_file

    def delete_then_read(*arguments, **options):
        path.unlink()
        return real(*arguments, **options)

    monkeypatch.setattr(snapshots.blocks, "read_file", delete_then_read)
    assert read_blocks(folders) == Blocks(blocks=(), problems=())


def test_a_file_too_large_is_reported_and_not_read_whole(folders, g):
    with (g / "big.md").open("wb") as file:
        file.truncate(50_000_000)
    write(g / "fits.md", b"x" * MAX_FILE)
    started = time.monotonic()
    result = read_blocks(folders)
    assert time.monotonic() - started < 2
    assert [block.size for block in result.blocks] == [MAX_FILE]
    assert "50000000" in result.problems[0].message


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_file_stays_open(folders, g):
    write(g / "a.md", "x")
    write(g / "large.md", b"x" * (MAX_FILE + 1))
    before = os.listdir("/proc/self/fd")
    read_blocks(folders)
    assert os.listdir("/proc/self/fd") == before


def test_500_blocks_and_an_alias_bomb_cost_little_time(folders, g):
    for number in range(500):
        write(g / f"b{number}.md", f"---\nlabel: b{number}\ndescription: D\n---\n{'x' * 5000}\n")
    bomb = "a: &a [x,x]\n" + "".join(f"k{i}: &k{i} [*a,*a,*a]\n" for i in range(20))
    write(g / "bomb.md", f"---\n{bomb}---\nbody\n")
    started = time.monotonic()
    result = read_blocks(folders)
    assert time.monotonic() - started < 3
    assert len(result.blocks) == 501
    assert [block.label for block in result.blocks if block.warnings] == ["bomb"]


# The files of opencode-agent-memory


def test_the_files_of_opencode_agent_memory_are_read(moved):
    result = read_blocks(moved)
    assert result.problems == ()
    assert [(b.scope, b.label, b.limit, b.read_only, b.warnings) for b in result.blocks] == [
        ("global", "human", 2000, True, ()),
        ("global", "persona", 5000, False, ()),
        ("global", "true", 5000, False, ()),
        ("project", "123", 5000, False, ()),
        ("project", "project", 5000, False, ()),
    ]
    assert [block.description for block in result.blocks] == [
        "Who the user is # not a comment\nand what they like: tea",
        "The persona block: Stores details about how the assistant should behave and respond: "
        "tone, habits, and what to avoid.",
        "",
        "A number's name",
        "The project block: Stores durable, high-signal information about this codebase: "
        "commands, architecture notes, conventions, and gotchas.",
    ]
    assert [block.value for block in result.blocks] == [
        "Ann: likes `a < b && c`.\n\n---\n\nA rule above.",
        "Answer briefly.",
        "",
        "one",
        "Run `make test`.\nCosts $5.",
    ]


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\U000e0041"])
def test_characters_that_hide_text_from_the_eye_are_told(
    folders: MemoryFolders, m: Path, hidden: str
) -> None:
    write(m / "a.md", f"---\ndescription: d{hidden}\n---\nvalue{hidden}\n")
    block = only(read_blocks(folders))
    assert block.value == f"value{hidden}"
    assert "holds 2 characters that hide text" in block.warnings[0]


def test_scripts_and_emoji_that_need_invisible_characters_are_no_warning(
    folders: MemoryFolders, m: Path
) -> None:
    write(m / "a.md", "می‌خواهم 👩‍👩‍👧 \u200fعربي\u200e\n")
    assert only(read_blocks(folders)).warnings == ()
