"""Every scenario of the table, in the real host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .scenarios import SCENARIOS
from .script import Script

if TYPE_CHECKING:
    from .conftest import LastingWorlds


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(lasting_worlds: LastingWorlds, name: str) -> None:
    with lasting_worlds.take() as world:
        Script(world).run(SCENARIOS[name])
