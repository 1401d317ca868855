"""SECURITY.md promises nothing that no test holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PROMISES = re.findall(
    r"^\| (?!promise|--)(.+) \| `(tests/\S+\.py)` `(test_\w+)` \|$", TEXT, re.MULTILINE
)


def test_every_line_of_its_tables_names_one_test() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(lines) == len(PROMISES) > 50


@pytest.mark.parametrize(("file", "name"), [promise[1:] for promise in PROMISES])
def test_the_test_that_holds_a_promise_exists(file: str, name: str) -> None:
    assert re.search(
        rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
    )


def test_no_promise_is_made_twice_and_no_test_holds_two() -> None:
    for column in (0, 2):
        said = [promise[column] for promise in PROMISES]
        assert len(said) == len(set(said))
