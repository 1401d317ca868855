"""`opencode-memory start`: the sidecar, in the background."""

from __future__ import annotations

from sidecar.background import answer, describe, start
from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """Start it unless it answers already."""
    if (health := answer(settings)) is not None:
        return Result(f"Already running: {describe(health)}.", health)
    health = start(settings)
    return Result(f"Started: {describe(health)}.", health)
