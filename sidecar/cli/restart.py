"""`opencode-memory restart`: end the sidecar and start it again."""

from __future__ import annotations

from sidecar.background import describe, restart
from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """End it if it runs, and start it in any case."""
    health = restart(settings)
    return Result(f"Started: {describe(health)}.", health)
