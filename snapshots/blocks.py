"""The memory blocks: which files they are, and what each one says.

A block is never dropped in silence: it is read, or read with a warning, or reported as a problem
with its file. Nothing but a file's content and name decides what a block says.
"""

from __future__ import annotations

import os
import re
import stat
from errno import ELOOP
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from snapshots.edits import size
from snapshots.errors import SnapshotError, raise_if_exhausted
from snapshots.frontmatter import Document, Header, read_document, read_header
from snapshots.regular import NotRegularError, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

Scope = Literal["global", "project"]

DEFAULT_LIMIT = 5000
MAX_FILE = 1024 * 1024
"""Bytes of a file that are read as a block; a larger file is reported instead."""

LABEL = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z))[a-z0-9][a-z0-9_.-]{0,63}", re.IGNORECASE
)
"""The one rule for labels: a file name on every platform, so no names that Windows keeps back."""

LABEL_RULE = "1 to 64 of the characters A-Z a-z 0-9 _ . - beginning with a letter or a digit"

MAX_LIMIT = 999_999_999

SUFFIX = ".md"
# What turns the direction of text, and letters that no font shows but a model reads.
_HIDING = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
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
    default_limit: int = DEFAULT_LIMIT

    @property
    def root(self) -> Path | None:
        """Where the project's files have to lie."""
        return self.project_root or self.project_folder


class BlockUnreadableError(SnapshotError):
    """A file that can't be read as a block."""

    code = "block_unreadable"


class BlockFile(msgspec.Struct, frozen=True, kw_only=True):
    """A block together with what it was read from."""

    block: Block
    document: Document
    target: Path  # the file itself, behind any links
    data: bytes
    mode: int
    damaged: bool


def read_blocks(folders: MemoryFolders) -> Blocks:
    """Read every block; what can't be read is among the problems. Raises only ExhaustedError."""
    files, problems = read_files(folders)
    return Blocks(blocks=tuple(file.block for file in files), problems=tuple(problems))


def read_files(folders: MemoryFolders) -> tuple[list[BlockFile], list[BlockProblem]]:
    """Read every block with its file, one per scope and label."""
    problems: list[BlockProblem] = []
    found: dict[tuple[str, str], list[BlockFile]] = {}
    for scope, path, is_file in _block_paths(folders, problems):
        try:
            file = read_file(path, scope, folders, is_file=is_file)
        except FileNotFoundError:
            continue  # removed since the folder was listed
        except BlockUnreadableError as error:
            problems.append(BlockProblem(path=path, message=str(error)))
        else:
            found.setdefault((scope, file.block.label), []).append(file)
    files = []
    for (_, label), (used, *others) in sorted(found.items(), key=lambda item: item[0]):
        if not others:
            files.append(used)
            continue
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


def read_file(
    path: Path, scope: Scope, folders: MemoryFolders, *, is_file: bool = False
) -> BlockFile:
    """Read one file as a block; a project's file only if it lies in the project.

    `is_file` says that `path` is known to be a file in a folder of blocks, and no link.

    Raises BlockUnreadableError, and FileNotFoundError where there is no file.
    """
    target = path
    try:
        if not is_file:
            if path.is_symlink():
                target = resolve(path)
            if scope == "project":
                refuse_outside(path, folders.root)
            if not stat.S_ISREG(target.stat().st_mode):  # opening a device could act
                raise NotRegularError(target)
        data, status = read_bytes(target)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        text, damaged = data.decode(), False
    except UnicodeDecodeError:
        text, damaged = data.decode(errors="replace"), True
    document = read_document(text)
    block = block_of(document, path, scope, folders.default_limit, damaged=damaged)
    return BlockFile(
        block=block,
        document=document,
        target=target,
        data=data,
        mode=stat.S_IMODE(status.st_mode),
        damaged=damaged,
    )


def _block_paths(
    folders: MemoryFolders, problems: list[BlockProblem]
) -> Iterator[tuple[Scope, Path, bool]]:
    """Yield what should be blocks; of two with one identity, the one to use first.

    With each comes whether it is a file and no link.
    """
    seen = set()
    places: list[tuple[Scope, Path]] = [
        ("global", folder) for folder in reversed(folders.global_folders)
    ]
    if folders.project_folder is not None:
        places.append(("project", folders.project_folder))
    for scope, folder in places:
        try:
            identity = _identity(folder)
            if scope == "project":
                refuse_outside(folder, folders.root)
            items = [] if identity in seen else _listed(folder)
            seen.add(identity)
        except FileNotFoundError:
            continue
        except BlockUnreadableError as error:
            problems.append(BlockProblem(path=folder, message=str(error)))
            continue
        except OSError as error:
            problems.append(BlockProblem(path=folder, message=str(_unreadable(folder, error))))
            continue
        for name, is_file in items:
            if name.startswith(".") or not name.endswith(SUFFIX):
                continue
            try:
                name.encode()
            except UnicodeEncodeError:
                shown = os.fsencode(name).decode(errors="replace")
                message = f"{folder} holds {shown!r}, whose name is not UTF-8. Rename it."
                problems.append(BlockProblem(path=folder, message=message))
                continue
            yield scope, folder / name, is_file


def _listed(folder: Path) -> list[tuple[str, bool]]:
    with os.scandir(folder) as items:
        return sorted((item.name, item.is_file(follow_symlinks=False)) for item in items)


def _identity(folder: Path) -> tuple[int, int]:
    """Return what tells two folders apart, however each is named.

    Raises FileNotFoundError only where there is nothing at all.
    """
    status = folder.lstat()  # says at once, as a rule, that there is nothing
    if stat.S_ISLNK(status.st_mode):
        status = resolve(folder).stat()
    return status.st_dev, status.st_ino


def resolve(path: Path) -> Path:
    """Follow links to the end.

    Raises FileNotFoundError only where there is nothing at all.
    """
    is_link = False
    try:
        is_link = stat.S_ISLNK(path.lstat().st_mode)
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        if is_link:
            raise BlockUnreadableError(f"{path} is a link to a file that isn't there.") from None
        raise
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> BlockUnreadableError:
    raise_if_exhausted(error)
    if error.errno == ELOOP:
        return BlockUnreadableError(f"{path} is a link that leads back to itself.")
    return BlockUnreadableError(f"{path} can't be read: {error.strerror}.")


def refuse_outside(path: Path, root: Path | None) -> None:
    """Keep a cloned repository from reading the user's files into a prompt, or writing to them."""
    if root is None or not _may_lead_out(path, root):
        return
    try:
        target = resolve(path)
    except FileNotFoundError:
        target = path.resolve()  # there is yet to be one
    if not target.is_relative_to(root.resolve()):
        raise BlockUnreadableError(
            f"{path} is a link that leads out of the project, to {target}. "
            "Put the real file or folder there, or use a global block."
        )


def _may_lead_out(path: Path, root: Path) -> bool:
    """Whether there is a link from `root` on, or `path` isn't there by its name."""
    place, depth = str(root), len(root.parts)
    if path.parts[:depth] != root.parts:
        return True
    for part in path.parts[depth:]:
        place = f"{place}{os.sep}{part}"
        if os.path.islink(place):  # noqa: PTH114 - a first request waits for it
            return True
    return False


def read_bytes(target: Path) -> tuple[bytes, os.stat_result]:
    """Read a file that may be a block, and its status."""

    def refuse_large(status: os.stat_result) -> None:
        if status.st_size > MAX_FILE:
            raise BlockUnreadableError(
                f"{target} is too large for a block: {status.st_size} bytes, "
                f"{MAX_FILE} are allowed."
            )

    return read_regular(target, refuse_large, getattr(os, "O_NOFOLLOW", 0))


def block_of(
    document: Document, path: Path, scope: Scope, default_limit: int, *, damaged: bool = False
) -> Block:
    """Return the block that a file's text makes."""
    header = read_header(document.header)
    warnings = []
    if damaged:
        warnings.append("The file is not UTF-8; what isn't shows as U+FFFD and can't be changed.")
    problem = document.problem or header.problem
    if problem:
        warnings.append(f"The front matter isn't read as it stands: {problem}.")
    text = document.text
    if not text.isascii() and (hidden := len(_HIDING.findall(text))):
        warnings.append(
            f"The file holds {hidden} characters that hide text from the eye but not from a model. "
            "Look at it in an editor that shows them."
        )
    return Block(
        scope=scope,
        label=_label(header, path, warnings),
        description=_text(header, "description", warnings),
        limit=_limit(header, default_limit, warnings),
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


def _label(header: Header, path: Path, warnings: list[str]) -> str:
    label = _text(header, "label", warnings)
    if not label and "label" in header.fields:
        warnings.append(f"label is empty; the file's name, {path.stem!r}, is used.")
    label = label or path.stem
    if not LABEL.fullmatch(label):
        warnings.append(f"The label {label!r} is outside the rule: {LABEL_RULE}.")
    return label


def _limit(header: Header, default: int, warnings: list[str]) -> int:
    if "limit" not in header.fields:
        return default
    text = header.fields["limit"].text
    if text is not None and re.fullmatch("[1-9][0-9]{0,8}", text):
        return int(text)
    warnings.append(f"limit is not a whole number above 0; {default} is used.")
    return default


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
