"""The table of contents: every route, what stands before it, and what runs beside it."""

import asyncio
import time
from collections.abc import Callable
from itertools import groupby

from aiohttp import web

from sidecar.activity import ACTIVITY, Activity
from sidecar.api.events import post_events
from sidecar.api.host import TRUST_FOLDER
from sidecar.api.instance import HANDING_OVER, INSTANCE, STOPPING, Instance, get_health, post_stop
from sidecar.api.inventory import post_inventory
from sidecar.api.sessions import (
    delete_session,
    delete_sessions,
    get_session,
    get_sessions,
    post_purge,
)
from sidecar.api.snapshot import post_snapshot
from sidecar.api.tools import LOCK_FOLDER, REFUSALS, post_tool
from sidecar.api.usage import LEDGER, post_usage
from sidecar.connections import CONNECTIONS, Connections
from sidecar.errors import Handler
from sidecar.guard import Guard
from sidecar.recent_warnings import RECENT_WARNINGS, RecentWarnings, keep_recent_warnings
from sidecar.refusals import Refusals
from sidecar.sessions import SESSIONS, Sessions
from sidecar.settings import Settings
from sidecar.store import open_store
from sidecar.sweep import keep_swept
from sidecar.wire import MAX_BODY
from snapshots.ledger import Ledger

ROUTES = [
    web.post("/v1/snapshot", post_snapshot),
    web.post("/v1/tools/{name}", post_tool),
    web.post("/v1/events", post_events),
    web.post("/v1/usage", post_usage),
    web.post("/v1/inventory", post_inventory),
    web.get("/v1/health", get_health, allow_head=False),
    web.get("/v1/sessions/{session_id}", get_session, allow_head=False),
    web.delete("/v1/sessions/{session_id}", delete_session),
    web.get("/v1/sessions", get_sessions, allow_head=False),
    web.delete("/v1/sessions", delete_sessions),
    web.post("/v1/purge", post_purge),
    web.post("/v1/stop", post_stop),
]


def make_app(settings: Settings, *, instance: str, token: str | None = None) -> web.Application:
    """Build the application; touches no file and no socket until it is started.

    `instance` names this run; with a `token`, every request must carry it.
    """
    app = web.Application(client_max_size=MAX_BODY)
    app[INSTANCE] = Instance(name=instance, began=time.monotonic())
    app[STOPPING] = asyncio.Event()
    app[HANDING_OVER] = asyncio.Event()
    app[ACTIVITY] = Activity(last_at=time.monotonic())
    app[RECENT_WARNINGS] = RecentWarnings()
    app[SESSIONS] = Sessions(open_store(settings))
    app[LEDGER] = Ledger(settings.ledger_file)
    app[LOCK_FOLDER] = settings.lock_folder
    app[TRUST_FOLDER] = settings.trust_folder
    app[REFUSALS] = Refusals()
    app[CONNECTIONS] = Connections()
    guard = Guard(instance, token, app[CONNECTIONS], app[ACTIVITY])
    _add_routes(app.router, guard.guarded)
    app.cleanup_ctx.append(keep_recent_warnings)
    app.cleanup_ctx.append(keep_swept)
    return app


def _add_routes(router: web.UrlDispatcher, guarded: Callable[[Handler], Handler]) -> None:
    for path, routes in groupby(ROUTES, key=lambda route: route.path):
        resource = router.add_resource(path)
        for route in routes:
            resource.add_route(route.method, guarded(route.handler))
        resource.add_route("*", guarded(_refuse_method))
    router.add_route("*", "/{path:.*}", guarded(_refuse_path))


async def _refuse_method(request: web.Request) -> web.StreamResponse:
    raise web.HTTPMethodNotAllowed(request.method, ())


async def _refuse_path(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound
