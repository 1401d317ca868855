"""`POST /v1/snapshot`: the session's frozen text."""

from functools import partial
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from sidecar.errors import RequestError
from sidecar.sessions import SESSIONS
from sidecar.wire import SnapshotRequest, decode_snapshot_request
from snapshots.blocks import MemoryFolders, read_blocks
from snapshots.render import render


async def post_snapshot(request: web.Request) -> web.Response:
    """Answer with the injected bytes exactly, or 304 if the shim has them already."""
    asked = decode_snapshot_request(await request.read())
    folders = memory_folders(asked)
    snapshot = await request.app[SESSIONS].snapshot(
        asked.session_id, asked.epoch, partial(_render, folders)
    )
    if request.headers.get("If-None-Match") == snapshot.etag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": snapshot.etag})
    return web.Response(
        body=snapshot.text,
        headers={"Content-Type": "text/plain; charset=utf-8", "ETag": snapshot.etag},
    )


def memory_folders(asked: SnapshotRequest) -> MemoryFolders:
    """Return where this host's blocks lie.

    Raises RequestError if a path is not absolute: it would mean another folder here than there.
    """
    directory = Path(asked.directory)
    configs = [Path(path) for path in asked.config_directories]
    for path in (directory, *configs):
        if not path.is_absolute() or "\0" in str(path):
            raise RequestError(
                HTTPStatus.BAD_REQUEST, "invalid_request", "Every directory must be absolute."
            )
    return MemoryFolders(
        global_folders=tuple(config / "memory" for config in configs),
        project_folder=directory / ".opencode" / "memory",
        project_root=directory,
    )


def _render(folders: MemoryFolders) -> str:
    return render(read_blocks(folders).blocks)
