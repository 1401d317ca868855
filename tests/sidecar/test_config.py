from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.config import Config, load_config, memory_folders, render_memory
from sidecar.inventory import take_inventory
from snapshots.errors import ExhaustedError

from ..process import without_descriptors


def configure(folder: Path, content: object) -> tuple[Path, ...]:
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "agent-memory.json").write_text(text)
    return (folder,)


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    loaded = load_config((tmp_path,))
    assert loaded.config == Config()
    assert (loaded.sources, loaded.problems) == ({}, ())
    assert (loaded.config.limit_policy, loaded.config.default_limit) == ("refuse", 5000)


def test_a_value_counts_and_its_file_is_known(tmp_path: Path) -> None:
    loaded = load_config(configure(tmp_path, {"limit_policy": "allow", "default_limit": 100}))
    assert (loaded.config.limit_policy, loaded.config.default_limit) == ("allow", 100)
    assert loaded.sources["limit_policy"] == tmp_path / "agent-memory.json"


def test_without_descriptors_the_defaults_are_not_taken_for_the_users_choice(
    tmp_path: Path,
) -> None:
    folders = configure(tmp_path, {"ask": True})
    with without_descriptors(), pytest.raises(ExhaustedError):
        load_config(folders)
    assert load_config(folders).config.ask


def test_an_extra_folder_may_lie_in_the_users_home(tmp_path: Path, home: Path) -> None:
    loaded = load_config(configure(tmp_path, {"extra_folders": ["~/notes"]}))
    assert loaded.problems == ()
    folders = memory_folders(loaded.config, (tmp_path,), tmp_path)
    assert folders.global_folders == (tmp_path / "memory", home / "notes")


def test_a_projects_block_may_be_a_link_within_the_project(tmp_path: Path) -> None:
    (tmp_path / ".opencode" / "memory").mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("ours\n")
    (tmp_path / ".opencode" / "memory" / "a.md").symlink_to("../../AGENTS.md")
    given = render_memory(Config(), (), tmp_path, tmp_path / "trust")
    assert ">\nours\n</memory_block>" in given


def test_a_later_folder_overrides_an_earlier_one_value_by_value(tmp_path: Path) -> None:
    first = configure(tmp_path / "first", {"default_limit": 1, "ask": True})
    second = configure(tmp_path / "second", {"default_limit": 2})
    loaded = load_config(first + second)
    assert (loaded.config.default_limit, loaded.config.ask) == (2, True)
    assert loaded.sources["default_limit"] == tmp_path / "second" / "agent-memory.json"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"limit_policy": "sometimes"}, "limit_policy"),
        ({"default_limit": 0}, "default_limit"),
        ({"default_limit": "many"}, "default_limit"),
        ({"global_scope": "no"}, "global_scope"),
        ({"extra_folders": ["relative"]}, "not absolute"),
        ({"extra_folders": "/a"}, "extra_folders"),
        ({"cache_minutes": 0}, "cache_minutes"),
        ({"idle_hours": -1}, "idle_hours"),
        ({"idle_hours": 10_001}, "idle_hours"),
        ({"limitpolicy": "allow"}, "'limitpolicy' is not a setting"),
    ],
)
def test_a_wrong_or_unknown_value_is_reported_and_the_rest_holds(
    tmp_path: Path, wrong: dict[str, object], words: str
) -> None:
    loaded = load_config(configure(tmp_path, {**wrong, "ask": True}))
    assert loaded.config == Config(ask=True)
    (problem,) = loaded.problems
    assert words in problem
    assert str(tmp_path) in problem


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"text"', "\xff"])
def test_a_file_that_is_no_json_object_is_reported_and_the_defaults_hold(
    tmp_path: Path, content: str
) -> None:
    loaded = load_config(configure(tmp_path, content))
    assert loaded.config == Config()
    assert "the defaults hold" in loaded.problems[0]


@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", os.mkdir)])
def test_a_file_that_cannot_be_read_is_reported(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "agent-memory.json")
    assert "can't be read" in load_config((tmp_path,)).problems[0]


def rendered(configs: tuple[Path, ...], directory: Path, trust_folder: Path) -> str:
    return render_memory(load_config(configs).config, configs, directory, trust_folder)


def test_a_scope_can_be_off_and_more_folders_can_be_read(tmp_path: Path) -> None:
    for name in ("config/memory", "project/.opencode/memory", "extra"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "block.md").write_text(f"---\nlabel: {name[:5]}\n---\nin {name}\n")
    configs = (tmp_path / "config",)

    def shown(**choices: object) -> list[str]:
        configure(tmp_path / "config", choices)
        text = rendered(configs, tmp_path / "project", tmp_path / "trust")
        return [line.partition("/")[0] for line in text.splitlines() if line.startswith("in ")]

    assert shown() == ["in config", "in project"]
    assert shown(global_scope=False) == ["in project"]
    assert shown(project_scope=False) == ["in config"]
    assert shown(global_scope=False, project_scope=False) == []
    assert shown(extra_folders=[str(tmp_path / "extra")]) == ["in config", "in extra", "in project"]


def test_a_folder_below_home_may_be_spelt_with_a_tilde(home: Path, tmp_path: Path) -> None:
    folders = memory_folders(Config(extra_folders=("~/dotfiles",)), (), tmp_path)
    assert folders.global_folders == (home / "dotfiles",)


def test_the_default_limit_is_that_of_blocks_without_one(tmp_path: Path) -> None:
    memory = tmp_path / "config" / "memory"
    memory.mkdir(parents=True)
    (memory / "human.md").write_text("no front matter\n")
    configs = configure(tmp_path / "config", {"default_limit": 123})
    assert 'limit="123"' in rendered(configs, tmp_path, tmp_path / "trust")


def test_a_projects_blocks_are_given_as_far_as_the_user_trusts_them(tmp_path: Path) -> None:
    project, trust_folder = tmp_path / "project", tmp_path / "trust"
    for folder in (tmp_path / "config" / "memory", project / ".opencode" / "memory"):
        folder.mkdir(parents=True)
        (folder / f"{folder.parts[-3]}.md").write_text(f"said by {folder}\n")
    configs = (tmp_path / "config",)

    def given() -> list[str]:
        return re.findall('scope="(global|project)"', rendered(configs, project, trust_folder))

    assert given() == ["global", "project"]
    for choice, expected in (("all", 2), ("ask", 1), ("none", 1)):
        configure(tmp_path / "config", {"project_trust": choice})
        assert given() == ["global", "project"][:expected], choice
    configure(tmp_path / "config", {"project_trust": "ask"})
    take_inventory(configs, project, trust_folder)
    assert given() == ["global"]  # having it listed is not having looked
    take_inventory(configs, project, trust_folder, seen=True)
    assert given() == ["global", "project"]
    (project / ".opencode" / "memory" / "project.md").write_text("pulled since\n")
    assert given() == ["global"]
    configure(tmp_path / "config", {"project_trust": "none"})
    take_inventory(configs, project, trust_folder, seen=True)
    assert given() == ["global"]
