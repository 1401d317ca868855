"""`opencode-memory preview`: what a new session would be given."""

from __future__ import annotations

from sidecar.cli.blocks import add_directory_argument
from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English text; no tokenizer is the right one for every provider."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which project."""
    add_directory_argument(parser)


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Render without keeping anything; needs no sidecar."""
    from sidecar.config import load_config, render_memory
    from snapshots.edits import size

    text = render_memory(
        load_config(settings.config_folders).config,
        settings.config_folders,
        options.directory.absolute(),
        settings.trust_folder,
    )
    characters = size(text)
    tokens = round(characters / CHARACTERS_PER_TOKEN)
    return Result(
        text,
        {"text": text, "characters": characters, "tokens": tokens},
        aside=f"{characters} characters, about {tokens} tokens",
    )
