"""Every scenario of the table, in the real host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .scenarios import DIFFERENT, SCENARIOS
from .script import Script

if TYPE_CHECKING:
    from .conftest import LastingWorlds


HOST = Path(os.environ.get("HOST_RESULTS", "")).stem
"""The host's version, as `make test-hosts` says."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(lasting_worlds: LastingWorlds, name: str, request: pytest.FixtureRequest) -> None:
    if reason := DIFFERENT.get(HOST, {}).get(name):
        # Not strict: of what an old host does in its own way, some is a race in it.
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    with lasting_worlds.take() as world:
        Script(world).run(SCENARIOS[name])
