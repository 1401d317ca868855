"""Every input that was ever of interest, once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from .targets import CORPUS, TARGETS

INPUTS = sorted(file for file in CORPUS.rglob("*") if file.is_file())


@pytest.mark.parametrize("file", INPUTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_an_input_of_the_corpus_shows_no_fault(file: Path) -> None:
    TARGETS[file.parent.name](file.read_bytes())


def test_every_target_has_a_corpus() -> None:
    assert {file.parent.name for file in INPUTS} == set(TARGETS)
