from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.metadata import (
    CorruptSnapshotError,
    Metadata,
    NewerSnapshotError,
    decode,
    digest,
    encode,
)

metadatas = st.builds(
    Metadata,
    session_id=st.text(max_size=50),
    epoch=st.none() | st.text(max_size=50),
    created_at=st.integers(0, 2**53),
    compacted=st.booleans(),
    origin=st.none() | st.text(max_size=50),
    placement=st.sampled_from(["message", "part"]),
    policy=st.sampled_from(["inject", "project-only", "skip"]),
)
EXAMPLE = Metadata(session_id="ses_a", epoch="initial", created_at=1)


def encoded(metadata: Metadata, text: bytes) -> bytes:
    return encode(metadata, text, digest(metadata, text))


@given(metadata=metadatas, text=st.binary(max_size=300))
def test_what_is_encoded_is_decoded(metadata: Metadata, text: bytes) -> None:
    assert decode(encoded(metadata, text)) == (metadata, text, digest(metadata, text))


@given(text=st.binary(max_size=100), position=st.integers(0), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(text: bytes, position: int, bit: int) -> None:
    data = bytearray(encoded(EXAMPLE, text))
    data[position % len(data)] ^= 1 << bit
    try:
        read = decode(bytes(data))
    except (CorruptSnapshotError, NewerSnapshotError):
        return
    # Letters of JSON's \u escapes may change their case and mean the same.
    assert read[:2] == (EXAMPLE, text)


@given(text=st.binary(min_size=1, max_size=100), length=st.integers(0))
def test_no_truncated_file_is_taken_for_a_whole_one(text: bytes, length: int) -> None:
    data = encoded(EXAMPLE, text)
    with pytest.raises(CorruptSnapshotError):
        decode(data[: length % len(data)])


@given(data=st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(b"<!-- opencode-agent-memory:metadata " + data)


def test_a_newer_format_is_told_from_a_corrupt_file_whatever_its_fields_are() -> None:
    with pytest.raises(NewerSnapshotError, match="format 2"):
        decode(b'<!-- opencode-agent-memory:metadata {"format":2,"other":[]} -->\ntext')


def test_a_format_that_there_never_was_is_a_corrupt_file() -> None:
    with pytest.raises(CorruptSnapshotError, match="can't be read"):
        decode(encoded(EXAMPLE, b"text").replace(b'"format":1', b'"format":0'))


def test_what_another_version_has_saved_in_this_format_is_read() -> None:
    """Or every session would lose its bytes, and its place in the cache, with an upgrade."""
    line = (
        b'{"session_id":"ses_a","epoch":"initial","created_at":1700000000,"compacted":false,'
        b'"origin":null,"placement":"message","policy":"inject","format":1,"sha256":'
        b'"e2d632c2656ea9f0230cee82eba6221eeebdfbd8abbd0b72ddb98be779c25429"}'
    )
    metadata, text, _ = decode(b"<!-- opencode-agent-memory:metadata " + line + b" -->\ntext\n")
    assert metadata == Metadata(session_id="ses_a", epoch="initial", created_at=1_700_000_000)
    assert text == b"text\n"


def test_head_shows_the_metadata_and_tail_the_injected_bytes(tmp_path: Path) -> None:
    file = tmp_path / "ses_a.xml"
    file.write_bytes(encoded(EXAMPLE, b"line 1\nline 2\n"))
    head = subprocess.check_output(["head", "-1", file])
    tail = subprocess.check_output(["tail", "-n", "+2", file])
    assert b'"session_id":"ses_a"' in head
    assert tail == b"line 1\nline 2\n"
