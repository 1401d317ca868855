"""The README's table of scenarios: which of them was run on which host, and how it went.

`make test-hosts` has pytest note the results, one file per host, and then runs this module, which
prints the table and writes it into the README.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / ".hosts"
BEGIN = "<!-- Written by `make test-hosts`. -->\n"
END = "<!-- The end of what it writes. -->\n"
WORDS = {"passed": "as it should", "failed": "**fails**", "skipped": "the host differs"}


class Notes:
    """A plugin for pytest: notes in a file how each scenario went."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or "test_scenario[" not in report.nodeid:
            return
        known = json.loads(self._file.read_bytes()) if self._file.exists() else {}
        known[report.nodeid.partition("[")[2].removesuffix("]")] = report.outcome
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps(known))


def table() -> str:
    """In Markdown; a scenario that a host was not asked about has an empty cell there."""
    results = {file.stem: json.loads(file.read_bytes()) for file in RESULTS.glob("*.json")}
    hosts = sorted(results, key=lambda version: [int(number) for number in version.split(".")])
    lines = [f"| scenario | {' | '.join(hosts)} |", "|---" * (1 + len(hosts)) + "|"]
    for name in SCENARIOS:
        cells = [WORDS.get(results[host].get(name, ""), "not run") for host in hosts]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(readme: Path = ROOT / "README.md") -> None:
    """Put the table between its marks."""
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    readme.write_text(before + begin + table() + end + after)


if __name__ == "__main__":
    print(table())
    write()
