"""The shape of the imports: one way only, and nothing slow where a command must start fast."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def imported_by(file: Path) -> set[str]:
    """The top-level names of every module that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(
    "file", sorted((ROOT / "snapshots").glob("*.py")), ids=lambda file: file.name
)
def test_snapshots_import_nothing_of_the_process_around_them(file: Path) -> None:
    assert not imported_by(file) & {"sidecar", "aiohttp", "asyncio", "platformdirs"}


def test_only_settings_read_the_environment_or_ask_platformdirs() -> None:
    readers = {
        file.relative_to(ROOT).as_posix()
        for package in ("sidecar", "snapshots")
        for file in (ROOT / package).rglob("*.py")
        if "os.environ" in file.read_text() or "platformdirs" in imported_by(file)
    }
    # install and start pass the environment on to a child, with one change.
    assert readers <= {"sidecar/settings.py", "sidecar/cli/install.py"}


@pytest.mark.parametrize("arguments", [["--help"], ["clear", "ses_a"], ["status"], ["list"]])
def test_a_fast_command_imports_nothing_slow(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from sidecar.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "slow = {'aiohttp', 'msgspec', 'asyncio', 'typing', 'platformdirs', 'logging'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
