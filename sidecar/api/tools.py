"""`POST /v1/tools/{name}`: one tool call of the agent."""

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from sidecar.answers import ArgumentsError, Memory, refusal
from sidecar.api.host import TRUST_FOLDER, host_folders
from sidecar.body import read_body
from sidecar.config import load_config, memory_folders
from sidecar.errors import RequestError
from sidecar.host_package import sparing_npm
from sidecar.refusals import Refusals
from sidecar.sessions import SESSIONS
from sidecar.tools import TOOLS, Tool
from sidecar.wire import MAX_TOOL_BODY, ToolRequest, decode_tool_request
from snapshots.block_store import BlockStore
from snapshots.errors import SnapshotError
from snapshots.trust import Trust

REFUSALS = web.AppKey("refusals", Refusals)
LOCK_FOLDER = web.AppKey("lock_folder", Path)
"""Where the locks of blocks lie: ours, since a block's own folder may be read-only."""

_ENOUGH = "This was refused three times in this turn. Stop trying, and tell the user about it."


async def post_tool(request: web.Request) -> web.Response:
    """Run one tool; the answer is text for the model, a refusal a sentence it can act on."""
    name = request.match_info["name"]
    if (tool := TOOLS.get(name)) is None:
        known = ", ".join(TOOLS)
        raise RequestError(
            HTTPStatus.NOT_FOUND, "unknown_tool", f"There is no tool {name}; there are {known}."
        )
    # A block's value may be longer than anything else that is sent here.
    asked = decode_tool_request(await read_body(request.clone(client_max_size=MAX_TOOL_BODY)))
    snapshot = await request.app[SESSIONS].show(asked.session_id)
    memory = await asyncio.to_thread(
        _open_memory, asked, request.app, snapshot.text.decode() if snapshot else ""
    )
    if tool.writes and memory.config.ask and not asked.approved:
        raise RequestError(
            HTTPStatus.FORBIDDEN, "approval_needed", "The user has to be asked first."
        )
    arguments: object = None
    try:
        arguments = tool_arguments(tool, asked.arguments)
        text = await asyncio.to_thread(_answer, tool, memory, arguments, asked)
    except SnapshotError as error:
        message = await asyncio.to_thread(refusal, memory, arguments, error)
        if request.app[REFUSALS].note(asked.session_id, asked.turn_id, error.code):
            message = f"{message}\n{_ENOUGH}"
        raise RequestError(HTTPStatus.CONFLICT, error.code, message) from error
    return web.Response(text=text)


def _open_memory(asked: ToolRequest, app: web.Application, snapshot: str) -> Memory:
    configs, directory = host_folders(asked)
    config = load_config(configs).config
    folders = memory_folders(config, configs, directory)
    store = BlockStore(
        folders,
        app[LOCK_FOLDER],
        gitignore=config.gitignore,
        trust=Trust(app[TRUST_FOLDER], directory),
    )
    return Memory(store=store, config=config, snapshot=snapshot)


def _answer(tool: Tool, memory: Memory, arguments: object, asked: ToolRequest) -> str:
    with sparing_npm(Path(asked.directory)):
        return tool.answer(memory, arguments)


def tool_arguments(tool: Tool, given: dict[str, Any]) -> Any:
    """Check what the model gave; it says null for what it leaves out, and numbers in quotes."""
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(said, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ArgumentsError(
            f"The arguments are wrong: {error}. Mend them and try again."
        ) from error
