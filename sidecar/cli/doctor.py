"""`opencode-memory doctor`: the whole way from OpenCode to memory, and what to mend on it."""

from __future__ import annotations

from sidecar.cli.output import ExitCode, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """Look at everything, also behind a failure."""
    from pathlib import Path

    from sidecar.diagnosis import Level, diagnose

    findings = list(diagnose(settings, Path.cwd()))
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:5} {finding.subject}: {finding.seen}")
        if finding.mend:
            lines.append(f"      mend: {finding.mend}")
    failed = any(finding.level == Level.FAIL for finding in findings)
    data: dict[str, object] = {
        "findings": [
            {name: getattr(finding, name) for name in ("level", "subject", "seen", "mend")}
            for finding in findings
        ]
    }
    return Result("\n".join(lines), data, exit_code=ExitCode.FAILED if failed else ExitCode.DONE)
