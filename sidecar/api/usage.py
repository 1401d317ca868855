"""`POST /v1/usage`: what finished steps have cost; never on the way of a prompt."""

import asyncio
from http import HTTPStatus

import msgspec
from aiohttp import web

from sidecar.body import read_body
from sidecar.wire import decode_usage_request
from snapshots.ledger import Ledger, Step

LEDGER = web.AppKey("ledger", Ledger)


async def post_usage(request: web.Request) -> web.Response:
    """Write the steps into the ledger; they are there when this is answered."""
    asked = decode_usage_request(await read_body(request)).steps
    steps = [Step(**msgspec.structs.asdict(step)) for step in asked]
    await asyncio.to_thread(request.app[LEDGER].add, steps)
    return web.Response(status=HTTPStatus.NO_CONTENT)
