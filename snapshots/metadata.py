r"""A snapshot file's first line: what the injected text behind it is, and whether it is whole.

The format: `<!-- opencode-agent-memory:metadata {JSON} -->\n`, then the injected bytes exactly, so
that `head -1` shows the metadata and `tail -n +2` what the model sees. The JSON's `sha256` is the
hash of the other fields, as JSON with sorted keys and no spaces, a newline, and the injected bytes.
"""

import hashlib
from typing import Annotated, Final, Literal

import msgspec

from snapshots.errors import SnapshotError

FORMAT: Final = 1
Placement = Literal["message", "part"]
"""Where the text stands: a message of its own, or the first part of the user's first message."""
_OPENING: Final = b"<!-- opencode-agent-memory:metadata "
_CLOSING: Final = b" -->"


class CorruptSnapshotError(SnapshotError):
    """A snapshot file that is not whole: torn, edited by hand, or not a snapshot at all."""

    code = "corrupt_snapshot"


class NewerSnapshotError(SnapshotError):
    """A snapshot file written by a newer version; it is left as it is."""

    code = "newer_snapshot"


SubagentPolicy = Literal["inject", "project-only", "skip"]
"""What a subagent's session is given; any other has "inject", which is everything."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided when a session begins, and holds for its whole life."""

    placement: Placement = "message"
    policy: SubagentPolicy = "inject"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept about a snapshot beside its text.

    `epoch` is the history head that the text was rendered for; None while the host's history could
    not be read. `compacted` is the host's word, not yet confirmed by the history, that this epoch
    is over. `created_at` is in seconds since 1970. `origin` names the beginning of the history that
    the text was rendered for; the copy that a fork is has the same.
    """

    session_id: str
    epoch: str | None
    created_at: int
    compacted: bool = False
    origin: str | None = None
    placement: Placement = "message"
    policy: SubagentPolicy = "inject"

    @property
    def terms(self) -> Terms:
        """What was decided when the session began."""
        return Terms(placement=self.placement, policy=self.policy)


class _Format(msgspec.Struct, frozen=True, kw_only=True):
    format: Annotated[int, msgspec.Meta(ge=1)]


class _Line(Metadata, frozen=True, kw_only=True):
    format: int
    sha256: str


_decode_format = msgspec.json.Decoder(_Format).decode
_decode_line = msgspec.json.Decoder(_Line).decode


def digest(metadata: Metadata, text: bytes) -> str:
    """Return the SHA-256, in hex, that ties the metadata and the text to each other."""
    fields = msgspec.structs.asdict(metadata) | {"format": FORMAT}
    line = msgspec.json.encode(fields, order="sorted")
    return hashlib.sha256(line + b"\n" + text).hexdigest()


def encode(metadata: Metadata, text: bytes, sha256: str) -> bytes:
    """Return the content of a snapshot file; `sha256` is the `digest` of the two."""
    line = _Line(**msgspec.structs.asdict(metadata), format=FORMAT, sha256=sha256)
    return _OPENING + msgspec.json.encode(line) + _CLOSING + b"\n" + text


def decode(data: bytes) -> tuple[Metadata, bytes, str]:
    """Return what `encode` was given.

    Raises NewerSnapshotError and CorruptSnapshotError, whose messages continue a sentence that
    begins with the file.
    """
    head, newline, text = data.partition(b"\n")
    if not newline or not head.startswith(_OPENING) or not head.endswith(_CLOSING):
        raise CorruptSnapshotError("does not begin with a metadata line")
    fields = head[len(_OPENING) : -len(_CLOSING)]
    try:
        # By itself, since a newer format may have other fields.
        written_in = _decode_format(fields).format
        if written_in > FORMAT:
            raise NewerSnapshotError(
                f"was written in format {written_in}, and this version reads up to {FORMAT}"
            )
        line = _decode_line(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptSnapshotError(f"has a metadata line that can't be read ({error})") from error
    metadata = Metadata(
        session_id=line.session_id,
        epoch=line.epoch,
        created_at=line.created_at,
        compacted=line.compacted,
        origin=line.origin,
        placement=line.placement,
        policy=line.policy,
    )
    if digest(metadata, text) != line.sha256:
        raise CorruptSnapshotError("does not match its checksum")
    return metadata, text, line.sha256
