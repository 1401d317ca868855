"""`opencode-memory completion`: a shell's completion script, made from the commands' parsers."""

from __future__ import annotations

from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """For which shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="whose script to print")


def run(options: argparse.Namespace, _settings: Settings) -> Result:
    """Print nothing but the script: it is made to be sourced."""
    import shtab

    script = shtab.complete(_make_whole_parser(), options.shell)
    return Result(script, {"shell": options.shell, "script": script})


def _make_whole_parser() -> argparse.ArgumentParser:
    """Return the parser that knows every command with its arguments."""
    import shtab

    from sidecar.cli import make_overview, make_parser

    whole = make_overview()
    (commands,) = (action.choices for action in whole._actions if isinstance(action.choices, dict))
    for name in commands:
        commands[name] = make_parser(name)
        for action in commands[name]._actions:
            if action.metavar == "FOLDER":
                action.complete = shtab.DIRECTORY
    return whole
