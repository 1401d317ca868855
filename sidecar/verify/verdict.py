"""What each request was to the provider's cache: how much was sent before, where it broke."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar.verify.prefix import Difference, first_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar.verify.prefix import Piece
    from sidecar.verify.script import Sent


@dataclass(frozen=True)
class Verdict:
    """One request. `size` and `repeated` are bytes of the prompt; `extends` counts from 1.

    `difference` is where it leaves the request that it was to extend; None if it extends it.
    """

    number: int
    step: str
    size: int
    repeated: int
    extends: int | None
    difference: Difference | None
    expected: bool

    @property
    def broke(self) -> bool:
        """Whether the prefix moved where it had no reason to."""
        return self.difference is not None and not self.expected


def judge(conversation: Sequence[Sent]) -> list[Verdict]:
    """Compare each request with the one before, which it was to extend, a fork's with its parent's.

    A change is expected right after a compaction, and only in the messages. What was sent before
    counts from any request: the provider has all of them in its cache.
    """
    verdicts: list[Verdict] = []
    for number, sent in enumerate(conversation, 1):
        earlier = conversation[: number - 1]
        shared = [_shared(before.request.pieces, sent.request.pieces) for before in earlier]
        difference = None
        if earlier:
            difference = first_difference(earlier[-1].request.body, sent.request.body)
        in_messages = difference is None or difference.place.startswith("message")
        verdicts.append(
            Verdict(
                number=number,
                step=sent.step,
                size=_size(sent.request.pieces),
                repeated=max(shared, default=0),
                extends=number - 1 if earlier and difference is None else None,
                difference=difference,
                expected=not earlier or (sent.change_due and in_messages),
            )
        )
    return verdicts


def _shared(before: Sequence[Piece], after: Sequence[Piece]) -> int:
    """Return the bytes of what both begin with, to the last whole piece."""
    size = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        size += len(new.text.encode())
    return size


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.text.encode()) for piece in pieces)
