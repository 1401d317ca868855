"""The README says what there is, neither less nor more."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from sidecar.app import ROUTES
from sidecar.cli import COMMANDS, make_parser
from sidecar.cli.output import ExitCode
from sidecar.config import Config
from sidecar.tools import definitions

from .host.scenarios import SCENARIOS
from .host.table import BEGIN, END

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_and_option_is_in_the_readme(command: str) -> None:
    commands = README.partition("## Commands")[2].partition("## Files")[0]
    assert re.search(rf"`opencode-memory .*\b{command}\b|`{command}`", commands)
    for action in make_parser(command)._actions:
        options = [option for option in action.option_strings if option.startswith("--")]
        assert all(option in commands for option in options)


def test_every_command_in_the_readme_exists() -> None:
    named = set(re.findall(r"opencode-memory ([a-z]+)", README))
    assert named <= set(COMMANDS)


def test_every_exit_code_is_in_the_readme() -> None:
    table = README.partition("| exit code |")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)} == set(ExitCode)


def test_the_routes_in_the_readme_are_those_there_are() -> None:
    named = set(re.findall(r"`(GET|POST|DELETE) (/v1/[^`]*)`", README))
    assert named == {(route.method, route.path) for route in ROUTES}


def test_every_tool_with_its_arguments_is_in_the_readme() -> None:
    table = README.partition("## The agent's tools")[2].partition("\n## ")[0]
    for name, definition in definitions().items():
        (line,) = (line for line in table.splitlines() if line.startswith(f"| `{name}` |"))
        assert {argument for argument in definition["properties"] if argument not in line} == set()


def test_every_setting_with_its_default_is_in_the_readme() -> None:
    table = README.partition("## Settings")[2].partition("\n## ")[0]
    for name, default in msgspec.to_builtins(Config()).items():
        assert f"| `{name}` | `{json.dumps(default)}` |" in table


def test_every_variable_that_is_read_is_in_the_readme() -> None:
    code = (ROOT / "sidecar" / "settings.py").read_text(encoding="utf-8")
    shim = (ROOT / "plugin-shim" / "opencode-memory.js").read_text(encoding="utf-8")
    read = set(re.findall(r"\b(?:XDG|OPENCODE)_[A-Z_]+\b", code + shim)) - {"XDG_RUNTIME_DIR"}
    assert read
    assert {name for name in read if name not in README} == set()


def test_the_scenarios_in_the_readme_are_those_there_are() -> None:
    table = README.partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:] == list(SCENARIOS)


def test_the_two_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("run", "test"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)
