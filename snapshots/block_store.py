"""Writing memory blocks: one writer at a time per block, and only what was asked for is changed."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from snapshots.atomic import write_atomic
from snapshots.blocks import (
    LABEL,
    LABEL_RULE,
    MAX_FILE,
    MAX_LIMIT,
    SUFFIX,
    Block,
    BlockFile,
    Blocks,
    MemoryFolders,
    Scope,
    block_of,
    read_blocks,
    read_bytes,
    read_file,
    read_files,
    refuse_outside,
)
from snapshots.edits import Edit, Policy, apply_edits, check_limit
from snapshots.errors import SnapshotError
from snapshots.frontmatter import Document, Scalar, new_document, read_document
from snapshots.ownership import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from snapshots.trust import Trust

LOCK_TIMEOUT = 10.0
"""Seconds that a writer waits for the one before it."""


class BlockNotFoundError(SnapshotError):
    """No block has this label in this scope."""

    code = "block_not_found"


class BlockAmbiguousError(SnapshotError):
    """Both scopes have a block with this label."""

    code = "block_ambiguous"


class BlockRefusedError(SnapshotError):
    """A write that this block, this label or this scope doesn't take."""

    code = "block_refused"


class BlockReadOnlyError(BlockRefusedError):
    """A write to a block that its user protects."""

    code = "block_read_only"


class BlockConflictError(SnapshotError):
    """Someone else has changed the file meanwhile; nothing was written."""

    code = "block_conflict"


class BlockWriteError(SnapshotError):
    """The disk or the platform doesn't let the file be written; it is as it was."""

    code = "block_write_failed"


class BlockStore:
    """Reads and changes blocks: one writer at a time per block, and only what was asked for."""

    def __init__(
        self,
        folders: MemoryFolders,
        lock_folder: Path,
        *,
        gitignore: bool = True,
        trust: Trust | None = None,
    ) -> None:
        self._folders = folders
        self._lock_folder = lock_folder
        self._gitignore = gitignore
        self._trust = trust

    def read(self) -> Blocks:
        """Read every block as it is now."""
        return read_blocks(self._folders)

    def get(self, label: str, scope: Scope | None = None) -> Block:
        """Read one block. Raises BlockNotFoundError or BlockAmbiguousError."""
        return self._find(label, scope).block

    def set(
        self,
        *,
        label: str,
        value: str,
        scope: Scope,
        description: str | None = None,
        limit: int | None = None,
        policy: Policy,
    ) -> Block:
        """Give a block this value, and a description and limit if given; make it if need be."""
        if limit is not None and not 0 < limit <= MAX_LIMIT:
            raise BlockRefusedError(f"limit must be from 1 to {MAX_LIMIT}, not {limit}.")
        try:
            found = self._find(label, scope)
        except BlockNotFoundError:
            new = Block(
                scope=scope,
                label=label,
                description=description or "",
                limit=limit or self._folders.default_limit,
                read_only=False,
                value=value,
                path=self._new_path(label, scope),
            )
            return self._create(new, policy)
        with self._opened(found) as file:
            old = file.block
            new = msgspec.structs.replace(
                old,
                value=value,
                description=old.description if description is None else description,
                limit=limit or old.limit,
            )
            return self._save(file, file.document.with_value(value), new, policy)

    def replace(
        self, *, label: str, edits: Sequence[Edit], scope: Scope | None = None, policy: Policy
    ) -> Block:
        """Apply a batch of edits to a block's live value: all of them, or none."""
        with self._opened(self._find(label, scope)) as file:
            document = file.document
            for value in apply_edits(document.value, edits):
                document = document.with_value(value)
            new = msgspec.structs.replace(file.block, value=document.value)
            return self._save(file, document, new, policy)

    def delete(self, *, label: str, scope: Scope | None = None) -> Block:
        """Remove a block's file; of a link, the link. Return the block as it was."""
        with self._opened(self._find(label, scope)) as file, _disk_errors(file.block.path):
            file.block.path.unlink()
            return file.block

    def _find(self, label: str, scope: Scope | None) -> BlockFile:
        files, problems = read_files(self._folders)
        found = [f for f in files if f.block.label == label and scope in (None, f.block.scope)]
        if len(found) > 1:
            paths = " and ".join(str(file.block.path) for file in found)
            raise BlockAmbiguousError(
                f"There are two blocks {label!r}: {paths}. Say which scope you mean."
            )
        if not found:
            known = ", ".join(repr(file.block.label) for file in files) or "none"
            reasons = [problem.message for problem in problems if problem.path.stem == label]
            where = f" in the {scope} scope" if scope else ""
            raise BlockNotFoundError(
                " ".join([f"There is no block {label!r}{where}.", *reasons, f"Blocks: {known}."])
            )
        return found[0]

    def _new_path(self, label: str, scope: Scope) -> Path:
        if not LABEL.fullmatch(label):
            raise BlockRefusedError(f"A block can't be called {label!r}. A label is {LABEL_RULE}.")
        folder = self._folders.project_folder
        if scope == "global":
            folder = next(iter(self._folders.global_folders), None)
        if folder is None:
            raise BlockRefusedError(f"The {scope} scope is off, so nothing can be written to it.")
        if scope == "project":
            refuse_outside(folder, self._folders.root)
        return folder / f"{label}{SUFFIX}"

    @contextmanager
    def _locked(self, target: Path) -> Iterator[None]:
        import filelock  # slow to import, and no sidecar needs it to start

        name = sha256(os.fsencode(os.path.realpath(target))).hexdigest()
        with _disk_errors(self._lock_folder):
            make_private_folder(self._lock_folder)
            lock = filelock.FileLock(
                self._lock_folder / f"{name}.lock",
                timeout=LOCK_TIMEOUT,
                mode=0o600,
                poll_interval=0.01,
            )
            try:
                lock.acquire()
            except filelock.Timeout:
                raise BlockConflictError(
                    f"Another process has been writing {target} for {LOCK_TIMEOUT:.0f} seconds. "
                    "Nothing was written; try again later."
                ) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _opened(self, found: BlockFile) -> Iterator[BlockFile]:
        """Lock a block and read it again: only what is read under the lock may be changed."""
        path, label = found.block.path, found.block.label
        with self._locked(found.target):
            try:
                file = read_file(path, found.block.scope, self._folders)
            except FileNotFoundError:
                raise _conflict(path) from None
            if file.target != found.target or file.block.label != label:
                raise _conflict(path)
            if file.damaged:
                raise BlockRefusedError(
                    f"{path} is not UTF-8, so writing it back would lose what it holds. "
                    "Its user has to convert the file first."
                )
            if file.block.read_only or not file.mode & 0o222:
                reasons = [f"{path} is read-only: only its user changes it."]
                raise BlockReadOnlyError(" ".join([*reasons, *file.block.warnings]))
            yield file

    def _create(self, new: Block, policy: Policy) -> Block:
        path = new.path
        _check(new, "", policy)
        data = self._data(new_document(_fields(new), new.value), new)
        with self._locked(path), _disk_errors(path):
            if _is_there(path):
                raise BlockConflictError(
                    f"{path} is there already: another writer has just made it, or it isn't a "
                    f"block {new.label!r}. Nothing was written; list the blocks to see which."
                )
            is_first = not any(path.parent.glob(f"*{SUFFIX}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            ignore = path.parent / ".gitignore"
            wanted = self._gitignore and new.scope == "project" and not _is_there(ignore)
            # Only with the first block: a user who has removed it wants the blocks in git.
            if wanted and is_first:
                write_atomic(ignore, b"*\n", 0o644)
            self._follow(None, new)
        return new

    def _save(self, file: BlockFile, document: Document, new: Block, policy: Policy) -> Block:
        old = file.block
        _check(new, old.value, policy)
        if document.opening and new.description != old.description:
            document = document.with_field("description", new.description)
        if document.opening and new.limit != old.limit:
            document = document.with_field("limit", new.limit)
        if not document.opening and not self._reads_as(document, new):
            document = document.with_header(_fields(new))
        data = self._data(document, new)
        if data != file.data:
            with _disk_errors(old.path):
                # The lock keeps out our own writers; an editor knows nothing of it.
                write_atomic(file.target, data, file.mode, check=lambda: _check_unchanged(file))
            self._follow(old, new)
        return new

    def _follow(self, old: Block | None, new: Block) -> None:
        if self._trust is not None:
            # The write itself is done; at worst the user is asked to look at it.
            with suppress(OSError):
                self._trust.follow(old, new)

    def _data(self, document: Document, block: Block) -> bytes:
        """Give the bytes to write, once it is sure that they read back as this block."""
        data = document.text.encode()
        if len(data) > MAX_FILE:
            raise BlockRefusedError(
                f"{block.path} would have {len(data)} bytes; a block's file has at most {MAX_FILE}."
            )
        if not self._reads_as(document, block):
            raise BlockRefusedError(
                f"{block.path} can't hold this so that it reads back the same. Nothing was "
                "written; change the file by hand."
            )
        return data

    def _reads_as(self, document: Document, block: Block) -> bool:
        text = read_document(document.text)
        read = block_of(text, block.path, block.scope, self._folders.default_limit)
        return msgspec.structs.replace(read, warnings=block.warnings) == block


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BlockWriteError(
            f"{path} can't be written: {error.strerror or error}. It is as it was."
        ) from error


def _check_unchanged(file: BlockFile) -> None:
    try:
        unchanged = read_bytes(file.target)[0] == file.data
    except FileNotFoundError:
        unchanged = False
    if not unchanged:
        raise _conflict(file.block.path)


def _conflict(path: Path) -> BlockConflictError:
    return BlockConflictError(
        f"{path} was changed by someone else meanwhile. Nothing was written; "
        "read the block again, then repeat the change."
    )


def _check(new: Block, old_value: str, policy: Policy) -> None:
    for name, text in (("value", new.value), ("description", new.description)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BlockRefusedError(
                f"The {name} can't be written as UTF-8: character {error.start + 1} is half of a "
                "surrogate pair. Leave it out."
            ) from None
    check_limit(old=old_value, new=new.value, limit=new.limit, policy=policy)


def _fields(block: Block) -> dict[str, Scalar]:
    return {
        "label": block.label,
        "description": block.description,
        "limit": block.limit,
        "read_only": block.read_only,
    }
