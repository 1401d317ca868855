"""`POST /v1/snapshot`: the session's frozen text."""

from functools import partial
from http import HTTPStatus

from aiohttp import web

from sidecar.api.host import host_folders
from sidecar.config import render_memory
from sidecar.sessions import SESSIONS
from sidecar.wire import decode_snapshot_request


async def post_snapshot(request: web.Request) -> web.Response:
    """Answer with the injected bytes exactly, 304 if the shim has them, 204 to inject nothing."""
    asked = decode_snapshot_request(await request.read())
    configs, directory = host_folders(asked)
    snapshot = await request.app[SESSIONS].snapshot(
        asked.session_id,
        asked.epoch,
        partial(render_memory, configs, directory, asked.parent_id),
        asked.origin,
    )
    if not snapshot.text:
        return web.Response(status=HTTPStatus.NO_CONTENT)
    if request.headers.get("If-None-Match") == snapshot.etag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": snapshot.etag})
    return web.Response(
        body=snapshot.text,
        headers={"Content-Type": "text/plain; charset=utf-8", "ETag": snapshot.etag},
    )
