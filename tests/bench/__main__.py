"""`python -m tests.bench`: measures what the README promises, and fails on a figure beyond it."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from .report import as_json, row, table

ITEMS = {
    1: ("hook_time",),
    2: ("history",),
    3: ("size",),
    4: ("hot_path",),
    5: ("first_request",),
    6: ("purge",),
    7: ("start", "idle"),
    8: ("load",),
    9: ("wire",),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", type=int, action="append", choices=ITEMS, help="these items")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument(
        "--peer", type=Path, metavar="DIR", help="another memory plugin's source, for item 9"
    )
    options = parser.parse_args()

    figures = []
    for item in options.only or ITEMS:
        began = time.monotonic()
        for name in ITEMS[item]:
            measure = importlib.import_module(f".{name}", __package__).figures
            for figure in measure(options.peer) if name == "wire" else measure():
                figures.append(figure)
                print(row(figure), file=sys.stderr, flush=True)
        print(f"  ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    print(table(figures))
    if options.json:
        options.json.write_text(as_json(figures))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
