"""What each tool does to the blocks, and the text that it answers the model with.

Every answer shows the live state: the model never has to trust the frozen snapshot for it.
"""

import contextlib
from typing import TypeVar

import msgspec

from sidecar.arguments import (
    BlockArguments,
    ListArguments,
    ReplaceArguments,
    Scope,
    SetArguments,
)
from sidecar.config import Config
from snapshots.block_store import BlockStore
from snapshots.blocks import Block
from snapshots.edits import Edit, OldTextMissingError
from snapshots.errors import SnapshotError
from snapshots.render import neutralised, render_block

T = TypeVar("T")

SHOWN = 20_000
"""Characters of a value in the answer to a write; memory_get shows all of it."""


class ArgumentsError(SnapshotError):
    """Arguments of a wrong type, or that make no sense together."""

    code = "invalid_arguments"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks as one session may read and write them, and the text that it was given."""

    store: BlockStore
    config: Config
    snapshot: str


def list_blocks(memory: Memory, arguments: ListArguments) -> str:
    """Every block in a line, and every file that is none, with its reason."""
    found = memory.store.read()
    scope = _given(arguments.scope)
    blocks = [block for block in found.blocks if scope in (None, block.scope)]
    lines = [line for block in blocks for line in _lines(block)]
    lines += [f"Not read: {problem.message}" for problem in found.problems]
    if not blocks:
        lines.insert(0, "There is no memory block. Make one with memory_set.")
    return "\n".join(lines)


def list_oversized(memory: Memory, arguments: ListArguments) -> str:
    """Every block over its limit in a line."""
    scope = _given(arguments.scope)
    lines = [
        f"{_name(block)}: {block.size} of {block.limit} characters, {block.size - block.limit} over"
        for block in memory.store.read().blocks
        if block.size > block.limit and scope in (None, block.scope)
    ]
    if not lines:
        return "No memory block is over its limit."
    return "\n".join([*lines, "Consolidate them: merge what belongs together, drop what is old."])


def get_block(memory: Memory, arguments: BlockArguments) -> str:
    """One block, whole."""
    return show(memory.store.get(arguments.label, _given(arguments.scope)), None)


def set_block(memory: Memory, arguments: SetArguments) -> str:
    """Write a whole value."""
    scope: Scope = _given(arguments.scope) or _home_of(memory, arguments.label)
    block = memory.store.set(
        label=arguments.label,
        value=arguments.value,
        scope=scope,
        description=_given(arguments.description),
        limit=_given(arguments.limit),
        policy=memory.config.limit_policy,
    )
    return f"Written. {show(block)}"


def replace_text(memory: Memory, arguments: ReplaceArguments) -> str:
    """Make one edit or a batch of them."""
    edits = _edits_of(arguments)
    try:
        block = memory.store.replace(
            label=arguments.label,
            edits=edits,
            scope=_given(arguments.scope),
            policy=memory.config.limit_policy,
        )
    except OldTextMissingError as error:
        if neutralised(edits[error.position - 1].old_text) in memory.snapshot:
            error.add_note(
                "That text stands in the snapshot at the start of the conversation, but no longer "
                "in the block: it was changed since."
            )
        raise
    return f"Replaced. {show(block)}"


def delete_block(memory: Memory, arguments: BlockArguments) -> str:
    """Delete a block, and show what it said, so that it can be made again."""
    block = memory.store.delete(label=arguments.label, scope=_given(arguments.scope))
    return f"Deleted {block.path}. {show(block, verb='had')}"


def refusal(memory: Memory, arguments: object, error: SnapshotError) -> str:
    """Return the sentence for a refused call, with the block as it is where there is one."""
    sentences = [str(error), *getattr(error, "__notes__", [])]
    if isinstance(arguments, BlockArguments):
        with contextlib.suppress(SnapshotError):
            sentences.append(show(memory.store.get(arguments.label, _given(arguments.scope))))
    return " ".join(sentences)


def show(block: Block, most: int | None = SHOWN, verb: str = "has") -> str:
    """Return a block as it is, with its size; of a long value, the beginning and a note."""
    over = block.size - block.limit
    excess = f", {over} over its limit: consolidate it soon" if over > 0 else ""
    heading = f"{_name(block)} {verb} {block.size} of {block.limit} characters{excess}:"
    note = ""
    if most is not None and len(block.value) > most:
        note = f"\n({len(block.value) - most} more characters: memory_get shows them.)"
        block = msgspec.structs.replace(block, value=block.value[:most])
    warnings = "".join(f"\nWarning: {warning}" for warning in block.warnings)
    return f"{heading}\n{render_block(block)}{note}{warnings}"


def _edits_of(arguments: ReplaceArguments) -> list[Edit]:
    """Return the batch, whichever way it was said.

    Raises ArgumentsError.
    """
    single = (_given(arguments.old_text), _given(arguments.new_text))
    if arguments.edits is msgspec.UNSET:
        old_text, new_text = single
        if old_text is None or new_text is None:
            raise ArgumentsError("Give oldText and newText, or edits.")
        return [Edit(old_text=old_text, new_text=new_text)]
    if single != (None, None):
        raise ArgumentsError("Give either oldText and newText, or edits, not both.")
    if not arguments.edits:
        raise ArgumentsError("edits is empty. Give at least one edit.")
    return [Edit(old_text=edit.old_text, new_text=edit.new_text) for edit in arguments.edits]


def _home_of(memory: Memory, label: str) -> Scope:
    """Return the scope of the block to write: its own, or for a new one the project's."""
    scopes: list[Scope] = [b.scope for b in memory.store.read().blocks if b.label == label]
    if len(scopes) > 1:
        raise ArgumentsError(
            f"There are two blocks {label!r}, one in each scope. Say which scope you mean."
        )
    if scopes:
        return scopes[0]
    return "project" if memory.config.project_scope else "global"


def _lines(block: Block) -> list[str]:
    read_only = ", read-only" if block.read_only else ""
    over = f", {block.size - block.limit} over" if block.size > block.limit else ""
    size = f"{block.size} of {block.limit} characters{over}{read_only}"
    description = " ".join(block.description.split())
    return [
        f"{_name(block)}: {size}" + (f" - {description}" if description else ""),
        *(f"  Warning: {warning}" for warning in block.warnings),
    ]


def _name(block: Block) -> str:
    return f"{block.scope}:{block.label}"


def _given(argument: T | msgspec.UnsetType) -> T | None:
    return None if isinstance(argument, msgspec.UnsetType) else argument
