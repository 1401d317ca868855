"""What stands in for OpenCode's npm package: where it goes, and where nothing is touched."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from sidecar.host_package import (
    NAME,
    has_stand_in,
    make_way_for_package,
    place_stand_in,
    remove_stand_in,
    sparing_npm,
)

STAND_IN = {"node_modules", "package.json", "package-lock.json"}


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_it_names_the_package_and_holds_nothing(tmp_path: Path) -> None:
    assert place_stand_in(tmp_path)
    assert names(tmp_path) == STAND_IN
    for name in ("package.json", "package-lock.json"):
        assert NAME in (tmp_path / name).read_text()
    assert json.loads((tmp_path / "package-lock.json").read_bytes())["lockfileVersion"] == 3
    assert names(tmp_path / "node_modules") == set()
    assert not place_stand_in(tmp_path)
    assert remove_stand_in(tmp_path)
    assert names(tmp_path) == set()
    assert not remove_stand_in(tmp_path)


def test_half_of_it_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes, mode: int) -> None:
        if path.name == "package-lock.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(data)

    monkeypatch.setattr("sidecar.host_package.write_atomic", full)
    assert not place_stand_in(tmp_path)
    assert names(tmp_path) == set()
    assert not place_stand_in(tmp_path / "not there")


@pytest.mark.parametrize("changed", ["node_modules/zod", "package.json", "package-lock.json"])
def test_what_has_become_more_than_that_is_left_alone(changed: str, tmp_path: Path) -> None:
    place_stand_in(tmp_path)
    (tmp_path / changed).write_text("{}")
    assert not has_stand_in(tmp_path)
    assert not remove_stand_in(tmp_path)
    assert (tmp_path / changed).read_text() == "{}"
    assert names(tmp_path) == STAND_IN


@pytest.mark.parametrize("code", ["plugin/a.js", "plugins/a.ts", "tool/a.ts", "tools/a.js"])
def test_it_makes_way_for_code_that_may_need_the_package(code: str, tmp_path: Path) -> None:
    place_stand_in(tmp_path)
    make_way_for_package([tmp_path, tmp_path / "none"])
    assert has_stand_in(tmp_path)
    (tmp_path / code).parent.mkdir()
    (tmp_path / code).touch()
    make_way_for_package([tmp_path])
    assert names(tmp_path) == {code.partition("/")[0]}


def test_a_projects_folder_gets_it_only_where_a_block_made_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".opencode"
    with sparing_npm(tmp_path):
        pass
    assert not folder.exists()
    folder.mkdir()
    with sparing_npm(tmp_path):
        (folder / "memory").mkdir()
    assert names(folder) == {"memory"}


def test_a_projects_folder_gets_the_hosts_own_gitignore_with_it(tmp_path: Path) -> None:
    folder = tmp_path / ".opencode"
    with sparing_npm(tmp_path):
        (folder / "memory").mkdir(parents=True)
    assert names(folder) == {"memory", ".gitignore"} | STAND_IN
    assert {*STAND_IN, ".gitignore"} <= set((folder / ".gitignore").read_text().split("\n"))
    assert has_stand_in(folder)
