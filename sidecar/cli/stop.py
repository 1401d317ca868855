"""`opencode-memory stop`: end the sidecar in the background."""

from __future__ import annotations

from sidecar.background import describe, stop
from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """End it if it runs."""
    health = stop(settings)
    if health is None:
        return Result("The sidecar was not running.")
    stopped = describe(health) if health else "the service, whose sidecar did not answer"
    return Result(f"Stopped: {stopped}.", health)
