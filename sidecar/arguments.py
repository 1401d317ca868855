"""What the agent's tools take: the types that the model's arguments are checked against.

The host checks nothing, so these do; their descriptions are what the model is told.
"""

from typing import Annotated, Literal

import msgspec

Scope = Literal["global", "project"]
_Scope = Annotated[
    Scope,
    msgspec.Meta(
        description="global: the user's, in every project; project: this project's folder."
    ),
]
_Label = Annotated[str, msgspec.Meta(description="The block's label, as memory_list shows it.")]
_OldText = Annotated[
    str,
    msgspec.Meta(
        description="The text to replace: it must occur exactly once in the block as it is now."
    ),
]
_NewText = Annotated[str, msgspec.Meta(description="What stands there afterwards, literally.")]


class ListArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory_list` and `memory_oversized` take."""

    scope: _Scope | msgspec.UnsetType = msgspec.UNSET


class BlockArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory_get` and `memory_delete` take."""

    label: _Label
    scope: _Scope | msgspec.UnsetType = msgspec.UNSET


class SetArguments(BlockArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory_set` takes."""

    value: Annotated[str, msgspec.Meta(description="The block's whole new value.")]
    description: (
        Annotated[str, msgspec.Meta(description="What belongs into the block; kept if left out.")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: (
        Annotated[
            int,
            msgspec.Meta(description="How many characters it may hold; kept if left out."),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class EditArguments(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """One edit of a batch."""

    old_text: _OldText
    new_text: _NewText


class ReplaceArguments(
    BlockArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """What `memory_replace` takes."""

    old_text: _OldText | msgspec.UnsetType = msgspec.UNSET
    new_text: _NewText | msgspec.UnsetType = msgspec.UNSET
    edits: (
        Annotated[
            list[EditArguments],
            msgspec.Meta(
                description="Several edits instead of oldText and newText, made in this order: "
                "all of them, or none."
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
