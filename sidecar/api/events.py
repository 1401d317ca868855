"""`POST /v1/events`: what the host said has happened; never awaited by it."""

from http import HTTPStatus

from aiohttp import web

from sidecar.body import read_body
from sidecar.sessions import SESSIONS
from sidecar.wire import decode_events_request


async def post_events(request: web.Request) -> web.Response:
    """Take in the events in their order."""
    sessions = request.app[SESSIONS]
    for event in decode_events_request(await read_body(request)).events:
        if event.type == "deleted":
            await sessions.clear(event.session_id)
        else:
            await sessions.mark_compacted(event.session_id)
    return web.Response(status=HTTPStatus.NO_CONTENT)
