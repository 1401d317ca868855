"""`opencode-memory config`: each setting, and where its value is from."""

from __future__ import annotations

from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """Read the settings' files as the sidecar does."""
    import json

    import msgspec

    from sidecar.config import NAME, load_config

    loaded = load_config(settings.config_folders)
    values = msgspec.to_builtins(loaded.config)
    sources = {name: str(loaded.sources.get(name, "default")) for name in values}
    lines = [f"{name}: {json.dumps(value)}  ({sources[name]})" for name, value in values.items()]
    lines += [f"problem: {problem}" for problem in loaded.problems]
    files = [str(folder / NAME) for folder in settings.config_folders]
    return Result(
        "\n".join(lines),
        {"settings": values, "sources": sources, "problems": loaded.problems, "files": files},
        aside="set in " + " or ".join(files),
    )
