"""Edits of a text: pure, literal, and refused unless they can mean one thing only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from snapshots.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Policy = Literal["refuse", "allow"]
"""What becomes of a write that ends over its block's limit."""

MAX_COUNT = 1000
"""Occurrences are counted up to here; by then the number no longer helps anybody."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Put `new_text` in the place of the one occurrence of `old_text`."""

    old_text: str
    new_text: str


class EditError(SnapshotError):
    """An edit that can't be made; none of its batch is.

    `position` counts from one, `count` is how often the old text occurs, `current` is the text that
    the batch was meant for.
    """

    code = "edit_refused"

    def __init__(self, message: str, *, position: int, count: int, current: str) -> None:
        super().__init__(message)
        self.position = position
        self.count = count
        self.current = current


class OldTextEmptyError(EditError):
    """No old text: there is nothing to find the place by."""

    code = "old_text_empty"


class OldTextMissingError(EditError):
    """The old text isn't there."""

    code = "old_text_missing"


class OldTextAmbiguousError(EditError):
    """The old text is there more than once."""

    code = "old_text_ambiguous"


class EditUnchangedError(EditError):
    """Old and new text are the same."""

    code = "edit_unchanged"


class OverLimitError(SnapshotError):
    """A write that ends over the limit without shortening the block."""

    code = "over_limit"

    def __init__(self, *, new_size: int, limit: int, current: str) -> None:
        self.size = new_size
        self.limit = limit
        self.overage = new_size - limit
        self.current = current
        super().__init__(
            f"The block would have {new_size} characters, {self.overage} over its limit of {limit}."
            " Nothing was written. Merge or drop entries in the same write, then try again."
        )


def size(text: str) -> int:
    """Count a text in UTF-16 code units, as JavaScript's `length` does: an emoji counts two.

    This is the unit of a block's `limit`, everywhere: the user's other tools count the same.
    """
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_limit(*, old: str, new: str, limit: int, policy: Policy) -> None:
    """Refuse a text over the limit, unless the policy allows it or it is shorter than before."""
    new_size = size(new)
    if policy == "refuse" and new_size > limit and new_size >= size(old):
        raise OverLimitError(new_size=new_size, limit=limit, current=old)


def apply_edits(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the text after each edit; a later edit sees what an earlier one has done.

    Raises EditError. The whole batch holds only when the last text has been yielded.
    """
    current = text
    for position, edit in enumerate(edits, start=1):
        count = count_occurrences(text, edit.old_text)
        error, problem = _refusal(edit, count)
        if error is not None:
            where = f"Edit {position} of {len(edits)}" if len(edits) > 1 else "The edit"
            raise error(
                f"{where} was refused and nothing was written: {problem}",
                position=position,
                count=count,
                current=current,
            )
        text = text.replace(edit.old_text, edit.new_text)
        yield text


def count_occurrences(text: str, part: str) -> int:
    """Count where `part` begins in `text`, overlapping or not, up to MAX_COUNT."""
    count = 0
    start = text.find(part) if part else -1
    while start != -1 and count < MAX_COUNT:
        count += 1
        start = text.find(part, start + 1)
    return count


def _refusal(edit: Edit, count: int) -> tuple[type[EditError] | None, str]:
    if not edit.old_text:
        return OldTextEmptyError, "its old text is empty. Quote the text to be replaced."
    if edit.old_text == edit.new_text:
        return EditUnchangedError, "its old text and its new text are the same."
    if count == 0:
        return OldTextMissingError, "its old text is not in the block. Quote the block as it is."
    if count > 1:
        times = f"{count} times or more" if count == MAX_COUNT else f"{count} times"
        problem = f"its old text is in the block {times}. Quote more of the text around it."
        return OldTextAmbiguousError, problem
    return None, ""
