"""Nothing that a user does, in whatever order, moves the prefix where no change is due."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from .script import Script
from .walk import Walk

if TYPE_CHECKING:
    from .conftest import LastingWorlds

SEEDS = range(int(os.environ.get("WALKS", "3")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_walk_finds_no_unexpected_change(lasting_worlds: LastingWorlds, seed: int) -> None:
    with lasting_worlds.take() as world:
        script = Script(world)
        taken: list[str] = []
        try:
            for step in Walk(seed, world, script).steps():
                taken.append(step)
                script.run(step)
        except AssertionError as error:
            error.add_note(f"seed {seed}, steps: {'; '.join(taken)}")
            raise
