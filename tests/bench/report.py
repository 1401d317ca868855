"""The figures as a table for people, as JSON for scripts, and the machine they are from."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence

from .driver import bun_version
from .figure import Figure


def machine() -> dict[str, str]:
    """What figures depend on; nothing that names one machine."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "bun": bun_version(),
    }


def table(figures: Sequence[Figure]) -> str:
    """Markdown, as it stands in the README."""
    said = machine()
    lines = [
        f"{said['date']}, {said['system']} with {said['cores']} cores, "
        f"Python {said['python']}, Bun {said['bun']}:",
        "",
        "| | measured | spread | bound |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(row, figures)])


def row(figure: Figure) -> str:
    """One figure; its mark says if it is beyond its bound."""
    low, high = min(figure.values), max(figure.values)
    spread = f"{_number(low)} to {_number(high)}" if len(figure.values) > 1 else ""
    measured = f"{_number(figure.value)}{figure.unit}"
    if not figure.holds:
        measured = f"**{measured}: beyond its bound**"
    bound = f"{figure.sign} {_number(figure.bound)}{figure.unit}"
    return f"| {figure.item}. {figure.name} | {measured} | {spread} | {bound} |"


def as_json(figures: Sequence[Figure]) -> str:
    """All of it, with every repeat's value."""
    rows = [
        {
            "item": figure.item,
            "name": figure.name,
            "unit": figure.unit,
            "value": figure.value,
            "values": list(figure.values),
            "bound": figure.bound,
            "sign": figure.sign,
            "holds": figure.holds,
        }
        for figure in figures
    ]
    return json.dumps({"version": 1, "machine": machine(), "figures": rows}, indent=2) + "\n"


def _number(value: float) -> str:
    return f"{value:.4g}" if value >= 100 or value == int(value) else f"{value:.3g}"
