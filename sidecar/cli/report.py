"""`opencode-memory report`: the usage as a page with pictures."""

from __future__ import annotations

from pathlib import Path

from sidecar.cli.output import CommandError, Result
from sidecar.cli.stats import add_since_argument, read_usage

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of what, and where to."""
    parser.add_argument(
        "--html", required=True, metavar="FILE", help="the page; a report that is there is replaced"
    )
    parser.add_argument("--force", action="store_true", help="replace any other file as well")
    add_since_argument(parser)


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Write one page that needs nothing beside it."""
    import time

    from sidecar.usage_page import render_page
    from snapshots.atomic import write_atomic

    file = Path(options.html).absolute()
    if not (options.force or _is_report(file)):
        raise CommandError(
            "foreign_file",
            f"{file} is no report of this command's. Choose another name, or say --force.",
        )
    if not file.parent.is_dir():
        raise CommandError("no_folder", f"There is no folder {file.parent}; make it first.")
    usage = read_usage(settings, since=options.since)
    write_atomic(file, render_page(usage, time.time()).encode("utf-8", "replace"))
    return Result(
        f"Wrote {file}: {len(usage)} sessions.", {"file": str(file), "sessions": len(usage)}
    )


def _is_report(file: Path) -> bool:
    """Whether it is one of ours, or not there yet."""
    from sidecar.usage_page import SIGN

    try:
        with file.open("rb") as page:
            return SIGN.encode() in page.read(200)
    except FileNotFoundError:
        return True
