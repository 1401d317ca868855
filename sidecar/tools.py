"""The agent's tools: names, descriptions, arguments, and what each one does.

Constant, since tool definitions stand before everything else in the cached prefix: nothing here may
depend on the blocks, the settings, or whether the sidecar runs. The shim has them as a table that
`make tools` generates from here.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sidecar.answers import (
    delete_block,
    get_block,
    list_blocks,
    list_oversized,
    replace_text,
    set_block,
)
from sidecar.arguments import BlockArguments, ListArguments, ReplaceArguments, SetArguments


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what the model is told, the type of its arguments, and what it does."""

    description: str
    arguments: type[msgspec.Struct]
    answer: Callable[[Any, Any], str]
    writes: bool = False


_LIVE = (
    "The memory at the start of the conversation is a snapshot and does not change; this tool "
    "works on the blocks as they are now."
)

TOOLS = {
    "memory_list": Tool(
        description=f"List the memory blocks: label, scope, size and limit, description. {_LIVE}",
        arguments=ListArguments,
        answer=list_blocks,
    ),
    "memory_get": Tool(
        description=f"Read one memory block as it is now, with its exact value. {_LIVE}",
        arguments=BlockArguments,
        answer=get_block,
    ),
    "memory_set": Tool(
        description="Give a memory block a whole new value, or make a new block (in the project "
        "unless scope is global). To change a part of a block, use memory_replace. Keep what is "
        "worth knowing in later sessions: preferences, conventions, decisions, traps.",
        arguments=SetArguments,
        answer=set_block,
        writes=True,
    ),
    "memory_replace": Tool(
        description="Replace text in a memory block: one place with oldText and newText, or "
        "several with edits, judged on the end state. oldText must match the block as it is now "
        f"exactly once; an empty newText removes it. {_LIVE}",
        arguments=ReplaceArguments,
        answer=replace_text,
        writes=True,
    ),
    "memory_delete": Tool(
        description="Delete a memory block and its file. Only when the user wants that, or all it "
        "says has gone into another block.",
        arguments=BlockArguments,
        answer=delete_block,
        writes=True,
    ),
    "memory_oversized": Tool(
        description="List the memory blocks that are over their limit, and by how much, so that "
        f"they can be consolidated. {_LIVE}",
        arguments=ListArguments,
        answer=list_oversized,
    ),
}


def definitions() -> dict[str, dict[str, Any]]:
    """Return the table for the shim: description, properties (JSON Schema) and what is required."""
    return {name: _definition(tool) for name, tool in TOOLS.items()}


def _definition(tool: Tool) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([tool.arguments], ref_template="{name}")
    own = components[schema["$ref"]]
    return {
        "description": tool.description,
        "properties": _inlined(own["properties"], components),
        "required": own["required"],
    }


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """Replace references by what they name, and drop titles: models read one plain schema best."""
    if isinstance(schema, list):
        return [_inlined(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = components[schema["$ref"]]
        schema = {key: named[key] for key in named if key not in ("title", "description")}
    if "enum" in schema:
        schema = {"type": "string", **schema}  # some providers refuse an enum without
    return {key: _inlined(value, components) for key, value in schema.items()}
