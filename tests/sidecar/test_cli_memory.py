"""The commands about memory itself: blocks, edit, preview, config; and what status says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.config import NAME
from sidecar.settings import Settings
from snapshots.marker import MARKER

from .test_cli import run, run_json, run_on_terminal


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".opencode" / "memory"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def here(memory: Path) -> tuple[str, str]:
    return ("--directory", str(memory.parents[1]))


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the user's editor one that replaces the whole file, as a person might."""

    def become(content: str) -> None:
        script = tmp_path / "my editor.py"
        script.write_text(f"import sys; open(sys.argv[1], 'w').write({content!r})")
        monkeypatch.setenv("EDITOR", f"{sys.executable} '{script}'")

    return become


def test_blocks_shows_scope_label_size_limit_warnings_and_file(
    memory: Path, here: tuple[str, str], settings: Settings
) -> None:
    assert run("blocks", *here).stdout == "There is no memory block yet.\n"
    (memory / "a.md").write_text("---\nlimit: 2\nread_only: perhaps\n---\n🎉!\n")
    (memory / "b.md").symlink_to("/etc/passwd")
    settings.config_folders[0].mkdir(parents=True)
    (settings.config_folders[0] / NAME).write_text('{"typo": 1}')
    shown = run("blocks", *here).stdout
    marks = "read-only 1 over its limit new since you last looked"
    assert f"project:a  3/2 {marks}  {memory / 'a.md'}\n" in shown
    assert "  warning: read_only can't be told" in shown
    assert f"not read: {memory / 'b.md'} is a link that leads out of the project" in shown
    assert "'typo' is not a setting" in shown
    data = run_json("blocks", *here)["data"]
    assert (data["blocks"][0]["size"], len(data["block_problems"])) == (3, 1)


def test_status_names_what_is_wrong_with_this_folders_memory(memory: Path) -> None:
    (memory / "a.md").write_text("---\nread_only: perhaps\n---\nx\n")
    (memory / "b.md").symlink_to("/etc/passwd")
    run("start")
    try:
        shown = run("status", cwd=memory.parents[1]).stdout
    finally:
        run("stop")
    assert "blocks:    1 for this folder" in shown
    assert f"warning:   {memory / 'a.md'}: read_only can't be told" in shown
    assert "problem:   " in shown
    assert "out of the project" in shown


def test_preview_is_exactly_what_a_session_would_be_given(
    memory: Path, here: tuple[str, str]
) -> None:
    (memory / "a.md").write_text("remember this\n")
    done = run("preview", *here)
    assert done.stdout.startswith(MARKER)
    assert "\nremember this\n" in done.stdout
    assert f"{len(done.stdout)} characters, about " in done.stderr
    data = run_json("preview", *here)["data"]
    assert data["text"] == done.stdout
    assert data["characters"] == len(done.stdout)


def test_config_shows_each_value_and_where_it_is_from(settings: Settings) -> None:
    file = settings.config_folders[0] / NAME
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"default_limit": 7, "ask": "maybe"}))
    shown = run("config")
    assert f"default_limit: 7  ({file})\n" in shown.stdout
    assert 'limit_policy: "refuse"  (default)\n' in shown.stdout
    assert "problem: " in shown.stdout
    assert f"set in {file}" in shown.stderr
    assert run_json("config")["data"]["settings"]["default_limit"] == 7


def test_edit_opens_the_blocks_file_and_says_how_it_reads_now(
    memory: Path, here: tuple[str, str], editor: Callable[[str], None]
) -> None:
    (memory / "other-name.md").write_text("---\nlabel: a\n---\nold\n")
    editor("---\nlabel: a\nlimit: many\n---\nnew\n")
    done = run("edit", "a", *here)
    assert done.returncode == 0
    assert f"Edited {memory / 'other-name.md'}." in done.stdout
    assert "Warning: limit is not a whole number" in done.stdout
    assert "new" in (memory / "other-name.md").read_text()


def test_edit_makes_a_new_block_only_where_it_is_told_to(
    memory: Path, here: tuple[str, str], settings: Settings, editor: Callable[[str], None]
) -> None:
    editor("---\nlabel: human\n---\nAda\n")
    done = run("edit", "human", *here)
    assert done.returncode == 1
    assert "--scope global or --scope project" in done.stderr
    assert run("edit", "human", "--scope", "global", *here).returncode == 0
    assert "Ada" in (settings.config_folders[0] / "memory" / "human.md").read_text()
    assert list(memory.iterdir()) == []


def test_edit_without_an_editor_names_the_file(
    memory: Path, here: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    (memory / "a.md").write_text("x\n")
    done = run("edit", "a", *here)
    assert done.returncode == 1
    assert f"Set $EDITOR, or open the file yourself: {memory / 'a.md'}" in done.stderr
    monkeypatch.setenv("EDITOR", "false")
    assert "false ended with 1" in run("edit", "a", *here).stderr
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "no-such-editor" in run("edit", "a", *here).stderr


def test_a_block_of_the_repository_is_named_until_the_user_says_that_it_was_looked_at(
    memory: Path, here: tuple[str, str], settings: Settings
) -> None:
    for label in ("a", "b"):
        (memory / f"{label}.md").write_text("pulled\n")
    listed = run("blocks", *here)
    assert "project:a  6/5000 new since you last looked  " in listed.stdout
    assert "opencode-memory blocks --trust" in listed.stderr
    trusted = run("blocks", "--trust", *here)
    assert "project:a  6/5000 new since you last looked  " in trusted.stdout
    assert "count as seen from now on" in trusted.stderr
    (memory / "b.md").write_text("pulled again\n")
    listed = run("blocks", *here)
    assert f"project:a  6/5000  {memory / 'a.md'}\n" in listed.stdout
    assert "project:b  12/5000 changed since you last looked  " in listed.stdout
    standings = [block["standing"] for block in run_json("blocks", *here)["data"]["blocks"]]
    assert standings == ["seen", "changed"]
    settings.config_folders[0].mkdir(parents=True)
    (settings.config_folders[0] / NAME).write_text('{"project_trust": "ask"}')
    assert " changed since you last looked given to no session " in run("blocks", *here).stdout
    assert "pulled again" not in run("preview", *here).stdout


def test_what_the_user_edits_was_looked_at(
    memory: Path, here: tuple[str, str], editor: Callable[[str], None]
) -> None:
    for label in ("a", "b"):
        (memory / f"{label}.md").write_text("pulled\n")
    editor("edited\n")
    assert run("edit", "a", *here).returncode == 0
    blocks = run_json("blocks", *here)["data"]["blocks"]
    assert [block["standing"] for block in blocks] == ["seen", "new"]


def test_status_names_a_projects_unseen_blocks(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(memory.parents[1])
    (memory / "a.md").write_text("pulled\n")
    run("start")
    try:
        assert "look at:   a: new or changed since you last looked" in run("status").stdout
        run("blocks", "--trust")
        assert "look at:" not in run("status").stdout
    finally:
        run("stop")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
def test_a_label_from_a_repository_cannot_drive_the_terminal(
    memory: Path, here: tuple[str, str]
) -> None:
    (memory / "a.md").write_text('---\nlabel: "\\e]0;owned\\a\\u202e\\r\\e[31m"\n---\nx\n')
    shown = run_on_terminal("blocks", *here)
    assert rb"project:\x1b]0;owned\x07\u202e\r\x1b[31m" in shown
    assert b"\x1b" not in shown
    assert b"\r" not in shown.replace(b"\r\n", b"")
    script = subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", "blocks", *here], capture_output=True, check=True
    )
    assert "\x1b]0;owned\a\u202e\r\x1b[31m" in script.stdout.decode()  # it gets what there is


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of any bytes")
def test_a_folder_whose_name_is_not_utf8_is_shown_as_far_as_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    (folder / ".opencode" / "memory").mkdir(parents=True)
    (folder / ".opencode" / "memory" / "a.md").write_text("x\n")
    assert "/caf?/.opencode/memory/a.md" in run("blocks", "--directory", str(folder)).stdout
