"""The memory blocks: which files they are, what each one says, and how one is changed.

A block is never dropped in silence: it is read, or read with a warning, or reported as a problem
with its file. Nothing but a file's content and name decides what a block says.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import filelock
import msgspec

from snapshots.atomic import make_private_folder, write_atomic
from snapshots.edits import Edit, Policy, apply_edits, check_limit, size
from snapshots.errors import SnapshotError
from snapshots.frontmatter import (
    Document,
    Header,
    Scalar,
    new_document,
    read_document,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Scope = Literal["global", "project"]

DEFAULT_LIMIT = 5000
MAX_FILE = 1024 * 1024
"""Bytes of a file that are read as a block; a larger file is reported instead."""

LABEL = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z))[a-z0-9][a-z0-9_.-]{0,63}", re.IGNORECASE
)
"""The one rule for labels: a file name on every platform, so no names that Windows keeps back."""

LABEL_RULE = "1 to 64 of the characters A-Z a-z 0-9 _ . - beginning with a letter or a digit"

LOCK_TIMEOUT = 10.0
"""Seconds that a writer waits for the one before it."""

MAX_LIMIT = 999_999_999

_SUFFIX = ".md"
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One block of memory, as its file says."""

    scope: Scope
    label: str
    description: str
    limit: int
    read_only: bool
    value: str
    path: Path
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The value's length in the unit of `limit`."""
        return size(self.value)


class BlockProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that gives no block, and why."""

    path: Path
    message: str


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """What the folders hold: blocks by scope and label in code-point order, and what is wrong."""

    blocks: tuple[Block, ...]
    problems: tuple[BlockProblem, ...]


class MemoryFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Where blocks are; a scope without a folder is off.

    Of the global folders a later one overrides an earlier one; new blocks are made in the first.
    """

    global_folders: tuple[Path, ...] = ()
    project_folder: Path | None = None
    project_root: Path | None = None


class BlockUnreadableError(SnapshotError):
    """A file that can't be read as a block."""

    code = "block_unreadable"


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


class _BlockFile(msgspec.Struct, frozen=True, kw_only=True):
    """A block together with what it was read from."""

    block: Block
    document: Document
    target: Path  # the file itself, behind any links
    data: bytes
    mode: int
    damaged: bool


def read_blocks(folders: MemoryFolders) -> Blocks:
    """Read every block. Never fails: what can't be read is among the problems."""
    files, problems = _read_files(folders)
    return Blocks(blocks=tuple(file.block for file in files), problems=tuple(problems))


def _read_files(folders: MemoryFolders) -> tuple[list[_BlockFile], list[BlockProblem]]:
    """Read every block with its file, one per scope and label."""
    problems: list[BlockProblem] = []
    found: dict[tuple[str, str], list[_BlockFile]] = {}
    for scope, path in _block_paths(folders, problems):
        try:
            file = _read_file(path, scope, _project_root(folders))
        except FileNotFoundError:
            continue  # removed since the folder was listed
        except BlockUnreadableError as error:
            problems.append(BlockProblem(path=path, message=str(error)))
        else:
            found.setdefault((scope, file.block.label), []).append(file)
    files = []
    for (_, label), (used, *others) in sorted(found.items(), key=lambda item: item[0]):
        warnings = list(used.block.warnings)
        for other in others:
            path = other.block.path
            warnings.append(f"{path} has the same scope and label and is not used.")
            message = (
                f"{path} is not used: {used.block.path} already is the block {label!r} of this "
                "scope. Give one of them another label."
            )
            problems.append(BlockProblem(path=path, message=message))
        block = msgspec.structs.replace(used.block, warnings=tuple(warnings))
        files.append(msgspec.structs.replace(used, block=block))
    return files, problems


def _read_file(path: Path, scope: Scope, root: Path | None) -> _BlockFile:
    """Read one file as a block; a project's file only if it lies under `root`.

    Raises BlockUnreadableError, and FileNotFoundError where there is no file.
    """
    target = _resolve(path)
    if scope == "project":
        _refuse_outside(path, target, root)
    try:
        data, mode = _read_bytes(target)
    except OSError as error:
        raise BlockUnreadableError(f"{path} can't be read: {error.strerror}.") from error
    try:
        text, damaged = data.decode(), False
    except UnicodeDecodeError:
        text, damaged = data.decode(errors="replace"), True
    document = read_document(text)
    block = _block(document, path, scope, damaged=damaged)
    return _BlockFile(
        block=block, document=document, target=target, data=data, mode=mode, damaged=damaged
    )


def _project_root(folders: MemoryFolders) -> Path | None:
    """Where the project's files have to lie."""
    return folders.project_root or folders.project_folder


class BlockStore:
    """Reads and changes blocks: one writer at a time per block, and only what was asked for."""

    def __init__(
        self, folders: MemoryFolders, lock_folder: Path, *, gitignore: bool = True
    ) -> None:
        self._folders = folders
        self._lock_folder = lock_folder
        self._gitignore = gitignore

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
                limit=limit or DEFAULT_LIMIT,
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

    def _find(self, label: str, scope: Scope | None) -> _BlockFile:
        files, problems = _read_files(self._folders)
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
            _refuse_outside(folder, _resolve_new(folder), _project_root(self._folders))
        return folder / f"{label}{_SUFFIX}"

    @contextmanager
    def _locked(self, target: Path) -> Iterator[None]:
        name = sha256(os.fsencode(target)).hexdigest()
        with _disk_errors(self._lock_folder):
            make_private_folder(self._lock_folder)
            lock = filelock.FileLock(
                self._lock_folder / f"{name}.lock", timeout=LOCK_TIMEOUT, poll_interval=0.01
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
    def _opened(self, found: _BlockFile) -> Iterator[_BlockFile]:
        """Lock a block and read it again: only what is read under the lock may be changed."""
        path, label = found.block.path, found.block.label
        with self._locked(found.target):
            try:
                file = _read_file(path, found.block.scope, _project_root(self._folders))
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
        data = _data(new_document(_fields(new), new.value), new)
        with self._locked(_resolve_new(path.parent) / path.name), _disk_errors(path):
            if _is_there(path):
                raise BlockConflictError(
                    f"{path} is there already: another writer has just made it, or it isn't a "
                    f"block {new.label!r}. Nothing was written; list the blocks to see which."
                )
            is_first = not any(path.parent.glob(f"*{_SUFFIX}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            ignore = path.parent / ".gitignore"
            wanted = self._gitignore and new.scope == "project" and not _is_there(ignore)
            # Only with the first block: a user who has removed it wants the blocks in git.
            if wanted and is_first:
                write_atomic(ignore, b"*\n", 0o644)
        return new

    def _save(self, file: _BlockFile, document: Document, new: Block, policy: Policy) -> Block:
        old = file.block
        _check(new, old.value, policy)
        if document.opening and new.description != old.description:
            document = document.with_field("description", new.description)
        if document.opening and new.limit != old.limit:
            document = document.with_field("limit", new.limit)
        if not document.opening and not _reads_as(document, new):
            document = document.with_header(_fields(new))
        data = _data(document, new)
        if data != file.data:
            with _disk_errors(old.path):
                # The lock keeps out our own writers; an editor knows nothing of it.
                if not _is_unchanged(file):
                    raise _conflict(old.path)
                write_atomic(file.target, data, file.mode)
        return new


def _block_paths(
    folders: MemoryFolders, problems: list[BlockProblem]
) -> Iterator[tuple[Scope, Path]]:
    """Yield the files that should be blocks; of two with one identity, the one to use first."""
    seen = set()
    places: list[tuple[Scope, Path]] = [
        ("global", folder) for folder in reversed(folders.global_folders)
    ]
    if folders.project_folder is not None:
        places.append(("project", folders.project_folder))
    for scope, folder in places:
        try:
            target = _resolve(folder)
            if scope == "project":
                _refuse_outside(folder, target, _project_root(folders))
            names = [] if target in seen else sorted(item.name for item in target.iterdir())
            seen.add(target)
        except FileNotFoundError:
            continue
        except BlockUnreadableError as error:
            problems.append(BlockProblem(path=folder, message=str(error)))
            continue
        except OSError as error:
            message = f"{folder} can't be read as a folder: {error.strerror}."
            problems.append(BlockProblem(path=folder, message=message))
            continue
        for name in names:
            if name.startswith(".") or not name.endswith(_SUFFIX):
                continue
            try:
                name.encode()
            except UnicodeEncodeError:
                shown = os.fsencode(name).decode(errors="replace")
                message = f"{folder} holds {shown!r}, whose name is not UTF-8. Rename it."
                problems.append(BlockProblem(path=folder, message=message))
                continue
            yield scope, folder / name


def _resolve(path: Path) -> Path:
    """Follow links to the end. Raises FileNotFoundError only where there is nothing at all."""
    try:
        return path.resolve(strict=True)
    except FileNotFoundError:
        if path.is_symlink():
            raise BlockUnreadableError(f"{path} is a link to a file that isn't there.") from None
        raise
    except OSError as error:
        raise BlockUnreadableError(f"{path} can't be read: {error.strerror}.") from error
    except RuntimeError:  # before Python 3.13: a loop
        raise BlockUnreadableError(f"{path} is a link that leads back to itself.") from None


def _resolve_new(folder: Path) -> Path:
    """Follow links of a folder that may not be there yet."""
    try:
        return _resolve(folder)
    except FileNotFoundError:
        return folder.resolve()


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _refuse_outside(path: Path, target: Path, root: Path | None) -> None:
    """Keep a cloned repository from reading the user's files into a prompt, or writing to them."""
    if root is not None and not target.is_relative_to(root.resolve()):
        raise BlockUnreadableError(
            f"{path} is a link that leads out of the project, to {target}. "
            "Put the real file or folder there, or use a global block."
        )


def _read_bytes(target: Path) -> tuple[bytes, int]:
    """Read a regular file and its permissions; opening a FIFO or a device could wait or act."""
    if not stat.S_ISREG(target.stat().st_mode):
        raise BlockUnreadableError(f"{target} is not a regular file.")
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):  # none exists on every platform
        flags |= getattr(os, name, 0)
    with open(os.open(target, flags), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BlockUnreadableError(f"{target} is not a regular file.")
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise BlockUnreadableError(
            f"{target} is too large for a block: {status.st_size} bytes, {MAX_FILE} are allowed."
        )
    return data, stat.S_IMODE(status.st_mode)


def _block(document: Document, path: Path, scope: Scope, *, damaged: bool) -> Block:
    header = read_header(document.header)
    warnings = []
    if damaged:
        warnings.append("The file is not UTF-8; what isn't shows as U+FFFD and can't be changed.")
    problem = document.problem or header.problem
    if problem:
        warnings.append(f"The front matter isn't read as it stands: {problem}.")
    return Block(
        scope=scope,
        label=_label(header, path.stem, warnings),
        description=_text(header, "description", warnings),
        limit=_limit(header, warnings),
        read_only=_read_only(document, header, warnings),
        value=document.value,
        path=path,
        warnings=tuple(warnings),
    )


def _text(header: Header, key: str, warnings: list[str]) -> str:
    field = header.fields.get(key)
    if field is None:
        return ""
    if field.text is None:
        warnings.append(f"{key} is not a text.")
        return ""
    return field.text


def _label(header: Header, stem: str, warnings: list[str]) -> str:
    label = _text(header, "label", warnings)
    if not label and "label" in header.fields:
        warnings.append(f"label is empty; the file's name, {stem!r}, is used.")
    label = label or stem
    if not LABEL.fullmatch(label):
        warnings.append(f"The label {label!r} is outside the rule: {LABEL_RULE}.")
    return label


def _limit(header: Header, warnings: list[str]) -> int:
    if "limit" not in header.fields:
        return DEFAULT_LIMIT
    text = header.fields["limit"].text
    if text is not None and re.fullmatch("[1-9][0-9]{0,8}", text):
        return int(text)
    warnings.append(f"limit is not a whole number above 0; {DEFAULT_LIMIT} is used.")
    return DEFAULT_LIMIT


def _read_only(document: Document, header: Header, warnings: list[str]) -> bool:
    """Whether the block is protected; in doubt it is."""
    field = header.fields.get("read_only")
    if field is not None:
        text = (field.text or "").lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        doubtful = True
    else:
        mentioned = header.problem and "read_only" in document.header
        doubtful = bool(document.problem or mentioned)
    if doubtful:
        warnings.append("read_only can't be told, so the block counts as read-only.")
    return doubtful


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BlockWriteError(
            f"{path} can't be written: {error.strerror or error}. It is as it was."
        ) from error


def _is_unchanged(file: _BlockFile) -> bool:
    try:
        return _read_bytes(file.target)[0] == file.data
    except FileNotFoundError:
        return False


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


def _data(document: Document, block: Block) -> bytes:
    """Give the bytes to write, once it is sure that they read back as this block."""
    data = document.text.encode()
    if len(data) > MAX_FILE:
        raise BlockRefusedError(
            f"{block.path} would have {len(data)} bytes; a block's file has at most {MAX_FILE}."
        )
    if not _reads_as(document, block):
        raise BlockRefusedError(
            f"{block.path} can't hold this so that it reads back the same. Nothing was written; "
            "change the file by hand."
        )
    return data


def _reads_as(document: Document, block: Block) -> bool:
    read = _block(read_document(document.text), block.path, block.scope, damaged=False)
    return msgspec.structs.replace(read, warnings=block.warnings) == block
