"""`POST /v1/snapshot`: the session's frozen text."""

import time
from functools import cache, partial
from http import HTTPStatus

from aiohttp import web

from sidecar.api.host import TRUST_FOLDER, host_folders
from sidecar.body import read_body
from sidecar.config import choose_terms, render_memory
from sidecar.host_package import make_way_for_package
from sidecar.sessions import SESSIONS
from sidecar.wire import PLACEMENT_HEADER, SESSION_HEADER, SnapshotRequest, decode_snapshot_request
from snapshots.sessions import Snapshot


async def post_snapshot(request: web.Request) -> web.Response:
    """Answer with the injected bytes exactly, 304 if the shim has them, 204 to inject nothing."""
    asked = decode_snapshot_request(await read_body(request))
    snapshot = request.app[SESSIONS].recall(asked.session_id, asked.epoch, asked.origin)
    if snapshot is None:
        snapshot = await _obtain(request, asked)
    headers = {SESSION_HEADER: asked.session_id}
    if not snapshot.text:
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)
    headers |= {"ETag": snapshot.etag, PLACEMENT_HEADER: snapshot.metadata.placement}
    if request.headers.get("If-None-Match") == snapshot.etag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    headers["Content-Type"] = "text/plain; charset=utf-8"
    return web.Response(body=snapshot.text, headers=headers)


async def _obtain(request: web.Request, asked: SnapshotRequest) -> Snapshot:
    configs, directory = host_folders(asked)
    sessions = request.app[SESSIONS]
    choose = cache(partial(choose_terms, configs, asked.parent_id))

    def render() -> str:
        make_way_for_package((*configs, directory / ".opencode"))
        earlier = sessions.store.show(asked.session_id, time.time())
        terms = earlier.metadata.terms if earlier else choose()
        return render_memory(configs, directory, request.app[TRUST_FOLDER], terms.policy)

    return await sessions.obtain(
        asked.session_id, asked.epoch, render, asked.origin, choose, asked.began
    )
