"""The `opencode-memory` command: the table of commands, the dispatch, and the only `except`.

A command is a module of its name here, with `add_arguments(parser)` and `run(options, settings)`.
Only the one that was called is imported: the others' imports would cost it most of its time.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys

from sidecar import __version__
from sidecar.cli.output import CommandError, ExitCode, Result, print_result

COMMANDS = {
    "install": (
        "put the plugin into OpenCode's plugin folder",
        "opencode-memory install",
    ),
    "uninstall": (
        "take the plugin out of OpenCode's plugin folder; memory stays",
        "opencode-memory uninstall",
    ),
    "serve": (
        "run the sidecar in the foreground, logging to stderr",
        "opencode-memory serve",
    ),
    "start": (
        "start the sidecar in the background",
        "opencode-memory start",
    ),
    "stop": (
        "end the sidecar; OpenCode goes on with the bytes it has",
        "opencode-memory stop",
    ),
    "restart": (
        "end the sidecar and start it again; sessions keep their bytes",
        "opencode-memory restart",
    ),
    "status": (
        "say whether the sidecar runs, what is installed, and what is wrong",
        "opencode-memory status --json",
    ),
    "doctor": (
        "go through the whole way from OpenCode to memory, and say what to mend",
        "opencode-memory doctor",
    ),
    "logs": (
        "print what the sidecar in the background has logged",
        "opencode-memory logs --follow",
    ),
    "service": (
        "have the platform's service manager run the sidecar, from every login on",
        "opencode-memory service install",
    ),
    "list": (
        "list the sessions that have a snapshot, the last used first",
        "opencode-memory list",
    ),
    "show": (
        "print exactly what a session's requests begin with",
        "opencode-memory show ses_018f2c3d4e5fAbCdEfGhIjKlMn",
    ),
    "clear": (
        "forget sessions' snapshots; their next request renders memory anew",
        "opencode-memory clear ses_018f2c3d4e5fAbCdEfGhIjKlMn",
    ),
    "blocks": (
        "list the memory blocks of this project and its user, and what is wrong with them",
        "opencode-memory blocks --directory ~/project",
    ),
    "edit": (
        "open a memory block's file in your editor, and check it afterwards",
        "opencode-memory edit human --scope global",
    ),
    "preview": (
        "print exactly what a new session would be given, and its size",
        "opencode-memory preview",
    ),
    "config": (
        "show each setting and where its value is from",
        "opencode-memory config",
    ),
    "verify": (
        "run your own OpenCode against a recorder, and say where the prompt's prefix moves",
        "opencode-memory verify",
    ),
    "stats": (
        "say what the sessions have cost in tokens, and what became of the prompt cache",
        "opencode-memory stats --since 7d",
    ),
    "report": (
        "write the same as a page with pictures",
        "opencode-memory report --html usage.html",
    ),
    "purge": (
        "remove snapshots that were not used for 30 days",
        "opencode-memory purge --older-than 7 --dry-run",
    ),
    "completion": (
        "print a shell's completion script",
        "opencode-memory completion fish | source",
    ),
}
"""Each command's summary and one example."""

_EPILOG = """\
exit codes: 0 done or already so, 1 failed, 2 wrong usage, 3 the sidecar is not running"""


def console() -> None:
    """Run the command that this process was started for, and end the process.

    At once, without taking Python apart piece by piece: that is a tenth of a short command's time,
    and nothing is left to be saved.
    """
    try:
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:  # as `| head` does, once it has seen enough
        code = ExitCode.DONE
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    os._exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] not in COMMANDS:
        make_overview().parse_args(given)  # help, the version, or an error: it does not return
    name = given[0]
    options = make_parser(name).parse_args(given[1:])
    result = _run(name, options)
    print_result(name, result, as_json=options.json)
    return int(result.exit_code)


def make_overview() -> argparse.ArgumentParser:
    """Return the parser that knows every command's name and summary, and no arguments."""
    parser = argparse.ArgumentParser(
        prog="opencode-memory",
        description="Editable, persistent memory for OpenCode that never moves the prompt's "
        "cached prefix.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"opencode-memory {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog)
    for name, (summary, _example) in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    return parser


def make_parser(name: str) -> argparse.ArgumentParser:
    """Return one command's own parser."""
    summary, example = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"opencode-memory {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example: {example}",
    )
    importlib.import_module(f"sidecar.cli.{name}").add_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    return parser


def _run(name: str, options: argparse.Namespace) -> Result:
    from sidecar.background import BackgroundError
    from sidecar.client import HangsError, NotRunningError, SidecarError
    from sidecar.settings import load_settings
    from snapshots.errors import SnapshotError

    command = importlib.import_module(f"sidecar.cli.{name}")
    try:
        result: Result = command.run(options, load_settings())
    except CommandError as error:
        return Result(str(error), exit_code=error.exit_code, code=error.code)
    except NotRunningError as error:
        return Result(str(error), exit_code=ExitCode.NOT_RUNNING, code="not_running")
    except HangsError as error:
        return Result(str(error), exit_code=ExitCode.FAILED, code="hangs")
    except BackgroundError as error:
        return Result(str(error), exit_code=ExitCode.FAILED, code="background_error")
    except (SidecarError, SnapshotError) as error:
        return Result(str(error), exit_code=ExitCode.FAILED, code=error.code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror or error}."
        return Result(message, exit_code=ExitCode.FAILED, code="os_error")
    return result
