"""A measured figure with its bound, and how two things are compared on a noisy machine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

REPEATS = 7
BLOCKS = 6
"""Of each side in one repeat. Short ones, in turn: a neighbour's burst falls on both sides."""

_SATISFIES = {"≤": operator.le, "=": operator.eq, "≥": operator.ge}

Sampler = Callable[[], Sequence[float]]
"""Runs one block and returns its samples: how long each took."""


@dataclass(frozen=True)
class Figure:
    """One value per repeat; their median is held against the bound."""

    item: int
    name: str
    values: Sequence[float]
    bound: float
    unit: str = "x"
    sign: Literal["≤", "=", "≥"] = "≤"

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def holds(self) -> bool:
        return _SATISFIES[self.sign](self.value, self.bound)


def ratios(
    ours: Sampler, other: Sampler, repeats: int = REPEATS, blocks: int = BLOCKS
) -> list[float]:
    """Of each repeat the ratio of what each side takes, from blocks in the order A B, B A, A B."""
    ours()
    other()  # both warm
    found = []
    for _ in range(repeats):
        samples: dict[Sampler, list[float]] = {ours: [], other: []}
        for block in range(blocks):
            for side in (ours, other) if block % 2 == 0 else (other, ours):
                samples[side] += side()
        found.append(undisturbed(samples[ours]) / undisturbed(samples[other]))
    return found


def undisturbed(samples: Sequence[float]) -> float:
    """What it takes when nothing else wants the processor: the fastest twentieth's most.

    Where other processes do, a call waits for their turns, not at all or for milliseconds: of that
    a median is a matter of luck.
    """
    return sorted(samples)[len(samples) // 20]
