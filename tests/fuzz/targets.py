"""What is fuzzed: each target takes any bytes, and raises only where the product is at fault."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from sidecar import wire
from sidecar.api.host import host_folders
from sidecar.api.tools import tool_arguments
from sidecar.errors import RequestError
from sidecar.tools import TOOLS
from snapshots.blocks import block_of
from snapshots.errors import SnapshotError
from snapshots.frontmatter import read_document, read_header
from snapshots.metadata import (
    CorruptSnapshotError,
    Metadata,
    NewerSnapshotError,
    decode,
    digest,
    encode,
)
from snapshots.render import render

from ..snapshots.rendered import parse

CORPUS = Path(__file__).with_name("corpus")


def front_matter(data: bytes) -> None:
    """Any file is read in whole, and what it renders to can't be mistaken for anything else."""
    text = data.decode(errors="replace")
    document = read_document(text)
    assert document.text == text, "reading a file lost a part of it"
    header = read_header(document.header)
    for field in header.fields.values():
        assert 0 <= field.start <= field.end <= len(document.header)
    block = block_of(document, Path("/f/name.md"), "project", 5000)
    said = ("project", block.label, block.description, block.limit, block.read_only, block.value)
    assert parse(render([block]).encode().decode()) == [said]
    changed = read_document(document.with_value("changed").text)
    assert changed.value == "changed" or document.problem or not document.opening


def metadata_line(data: bytes) -> None:
    """What is read as a snapshot is one, and says what its checksum was made of."""
    try:
        metadata, text, sha256 = decode(data)
    except (CorruptSnapshotError, NewerSnapshotError):
        return
    assert digest(metadata, text) == sha256
    assert decode(encode(metadata, text, sha256)) == (metadata, text, sha256)


_WHOLE = (Metadata(session_id="ses_a", epoch="initial", created_at=1), b"the text\n")


def damage(data: bytes) -> None:
    """A snapshot with some bytes changed is read as it was, or not at all."""
    metadata, text = _WHOLE
    file = bytearray(encode(metadata, text, digest(metadata, text)))
    for place, byte in zip(data[::2], data[1::2], strict=False):
        file[place * len(file) // 256] = byte
    with contextlib.suppress(CorruptSnapshotError, NewerSnapshotError):
        assert decode(bytes(file))[:2] == _WHOLE


_DECODERS = (
    wire.decode_snapshot_request,
    wire.decode_folders_request,
    wire.decode_tool_request,
    wire.decode_events_request,
    wire.decode_purge_request,
    wire.decode_stop_request,
)


def requests(data: bytes) -> None:
    """Any body is a request or is refused, and no request holds what can't be written as UTF-8."""
    for decoder in _DECODERS:
        try:
            request = decoder(data)
            if isinstance(request, wire.FoldersRequest):
                host_folders(request)
            if isinstance(request, wire.ToolRequest):
                for tool in TOOLS.values():
                    tool_arguments(tool, request.arguments)
        except (msgspec.MsgspecError, RequestError, SnapshotError) as error:
            str(error).encode()
        else:
            msgspec.json.encode(request)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "front_matter": front_matter,
    "metadata_line": metadata_line,
    "damage": damage,
    "requests": requests,
}
