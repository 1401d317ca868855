"""What the shim and the command line send: the types of the wire, with their limits.

Ids and small facts only; the history never comes here. Fields that are not known are passed over,
so that a newer shim can say more within one protocol version.
"""

from typing import Annotated, Any, Literal

import msgspec

from snapshots.ledger import Outcome

MAX_BODY = 64 * 1024
"""Bytes. A request for a snapshot has a few hundred."""
MAX_TOOL_BODY = 4 * 1024 * 1024
"""Bytes of a tool call: a value of the largest block, in JSON's longest spelling of it."""

SESSION_HEADER = "Memory-Session"
"""In the reply: whose text this is, so that the shim can't take it for another session's."""
PLACEMENT_HEADER = "Memory-Placement"
"""In the reply: where the text stands, "message" or "part" (`snapshots.metadata.Placement`)."""

_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Epoch = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_.:-]{1,100}\Z")]


class FoldersRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/inventory`, and a part of what follows: where memory is, as the host resolved it.

    `directory` is the project's, and `config_directories` are OpenCode's own, in its order. All are
    absolute.
    """

    directory: _Path
    config_directories: Annotated[list[_Path], msgspec.Meta(max_length=8)]


class SnapshotRequest(FoldersRequest, frozen=True, kw_only=True):
    """`POST /v1/snapshot`: the text for this session and epoch.

    `epoch` is None when the shim could not read the history. `parent_id` is the session that
    started this one, if it is a subagent's. `origin` is a hash of how the history begins, by which
    a fork is known; None where that can't be said. `began` is the ETag of
    the bytes with which this epoch has begun while no sidecar could be asked: they stay.
    """

    session_id: str
    parent_id: str | None = None
    origin: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    epoch: _Epoch | None
    began: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class ToolRequest(FoldersRequest, frozen=True, kw_only=True):
    """`POST /v1/tools/{name}`: one call of the agent, with the arguments as the model gave them.

    `turn_id` is the user's message that the agent is working on. `approved` says that the user was
    asked, if the settings want that.
    """

    session_id: str
    turn_id: Annotated[str, msgspec.Meta(max_length=200)]
    arguments: dict[str, Any]
    approved: bool = False


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the host said has happened to a session."""

    type: Literal["compacted", "deleted"]
    session_id: str


class EventsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/events`."""

    events: Annotated[list[Event], msgspec.Meta(max_length=100)]


_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=10**11)]


class UsageStep(msgspec.Struct, frozen=True, kw_only=True):
    """One finished step, with the fields of `snapshots.ledger.Step`."""

    session_id: _Text
    message_id: _Text
    parent_id: _Text | None
    started_at: _Moment
    finished_at: _Moment
    provider: _Text
    model: _Text
    agent: _Text
    outcome: Outcome
    compaction: bool
    input: _Count
    output: _Count
    reasoning: _Count
    cache_read: _Count
    cache_write: _Count
    cost: Annotated[float, msgspec.Meta(ge=0, le=10**9)]


class UsageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/usage`: steps that have finished; one that is sent twice counts once."""

    steps: Annotated[list[UsageStep], msgspec.Meta(max_length=100)]


class PurgeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/purge`: remove what was not used for so many days, or say what would go."""

    older_than_days: Annotated[float, msgspec.Meta(ge=0)]
    dry_run: bool


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/stop`: end this instance, and no other that has taken its place.

    `hand_over`: another version is to run from now on, and a service's manager is to start it.
    """

    instance: str
    hand_over: bool = False


decode_snapshot_request = msgspec.json.Decoder(SnapshotRequest).decode
decode_folders_request = msgspec.json.Decoder(FoldersRequest).decode
decode_tool_request = msgspec.json.Decoder(ToolRequest).decode
decode_events_request = msgspec.json.Decoder(EventsRequest).decode
decode_usage_request = msgspec.json.Decoder(UsageRequest).decode
decode_purge_request = msgspec.json.Decoder(PurgeRequest).decode
decode_stop_request = msgspec.json.Decoder(StopRequest).decode
