"""`POST /v1/snapshot`: the session's frozen text."""

from functools import cache
from http import HTTPStatus

from aiohttp import web

from sidecar.activity import ACTIVITY
from sidecar.after_reply import after_reply
from sidecar.api.host import TRUST_FOLDER, host_folders
from sidecar.body import read_body
from sidecar.config import Config, choose_terms, load_config, render_memory
from sidecar.host_package import make_way_for_package
from sidecar.sessions import SESSIONS
from sidecar.wire import PLACEMENT_HEADER, SESSION_HEADER, SnapshotRequest, decode_snapshot_request
from snapshots.metadata import Terms
from snapshots.sessions import Snapshot


async def post_snapshot(request: web.Request) -> web.Response:
    """Answer with the injected bytes exactly, 304 if the shim has them, 204 to inject nothing."""
    asked = decode_snapshot_request(await read_body(request))
    app = request.app
    app[ACTIVITY].note_snapshot_request()
    snapshot = app[SESSIONS].recall(asked.session_id, asked.epoch, asked.origin)
    if snapshot is None:
        snapshot = await _obtain(app, asked)
    headers = {SESSION_HEADER: asked.session_id}
    if not snapshot.text:
        return web.Response(status=HTTPStatus.NO_CONTENT, headers=headers)
    headers |= {"ETag": snapshot.etag, PLACEMENT_HEADER: snapshot.metadata.placement}
    if request.headers.get("If-None-Match") == snapshot.etag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    headers["Content-Type"] = "text/plain; charset=utf-8"
    return web.Response(body=snapshot.text, headers=headers)


async def _obtain(app: web.Application, asked: SnapshotRequest) -> Snapshot:
    configs, directory = host_folders(asked)

    @cache  # the terms and the text are of the same settings, read when one of them is wanted
    def config() -> Config:
        return load_config(configs).config

    def choose() -> Terms:
        return choose_terms(config(), asked.parent_id)

    def render(terms: Terms) -> str:
        trust = app[TRUST_FOLDER]
        return render_memory(config(), configs, directory, trust, terms.policy)

    snapshot = await app[SESSIONS].obtain(
        asked.session_id, asked.epoch, render, asked.origin, choose, asked.began
    )

    def finish() -> None:  # in one thread: each that is idle is woken, too, by the next one's work
        app[SESSIONS].store.origins.write()
        make_way_for_package((*configs, directory / ".opencode"))

    after_reply(finish)
    return snapshot
