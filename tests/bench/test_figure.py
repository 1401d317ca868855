"""The benchmark's own statistics: a figure beyond its bound fails, a burst of noise does not."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import __main__ as bench
from .figure import BLOCKS, REPEATS, Figure, ratios
from .report import row

RATIOS = (1.1, 1.2, 9.0)


def side(*samples: float) -> Callable[[], list[float]]:
    """One sample per block, over and over."""
    endless = itertools.cycle(samples)
    return lambda: [next(endless)]


def test_a_figure_is_the_median_of_its_repeats_and_shows_their_spread() -> None:
    figure = Figure(1, "hook", RATIOS, 1.25)
    assert figure.holds
    assert row(figure) == "| 1. hook | 1.2x | 1.1 to 9 | ≤ 1.25x |"


@pytest.mark.parametrize(
    ("sign", "bound", "holds"),
    [("≤", 1.2, True), ("≤", 1.19, False), ("≥", 1.2, True), ("≥", 1.21, False), ("=", 1.1, False)],
)
def test_a_bound_is_the_most_the_least_or_the_exact_value(sign, bound, holds) -> None:
    figure = Figure(1, "hook", RATIOS, bound, sign=sign)
    assert figure.holds is holds
    assert ("beyond its bound" in row(figure)) is not holds


def test_a_side_that_is_slower_shows_in_every_repeat() -> None:
    assert ratios(side(3.0), side(2.0)) == [1.5] * REPEATS


@pytest.mark.parametrize("undisturbed", [1, BLOCKS - 1])
def test_what_others_add_to_some_calls_or_to_most_changes_nothing(undisturbed: int) -> None:
    noisy = side(*[2.0] * undisturbed, *[100.0] * (BLOCKS - undisturbed))
    assert set(ratios(noisy, side(2.0))) == {1.0}


def test_load_that_grows_falls_on_both_sides_alike() -> None:
    load = itertools.count(100)
    assert ratios(lambda: [next(load)], lambda: [next(load)]) == pytest.approx(
        [1.0] * REPEATS, rel=0.01
    )


@pytest.mark.parametrize(("value", "exit_code"), [(1.0, 0), (2.0, 1)])
def test_the_program_fails_on_a_figure_beyond_its_bound_and_writes_every_value(
    value: float,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def figures() -> Iterator[Figure]:
        yield Figure(1, "hook", [value, value], 1.25)

    monkeypatch.setitem(sys.modules, "tests.bench.hook_time", SimpleNamespace(figures=figures))
    monkeypatch.setattr("tests.bench.report.bun_version", lambda: "1.0")
    file = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "1", "--json", str(file)])
    assert bench.main() == exit_code
    (figure,) = json.loads(file.read_bytes())["figures"]
    assert figure["values"] == [value, value]
    assert figure["holds"] is not bool(exit_code)
    assert ("beyond its bound" in capsys.readouterr().out) is bool(exit_code)
