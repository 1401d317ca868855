"""`POST /v1/inventory`: which blocks there are and what is wrong; for `status`."""

import asyncio

import msgspec
from aiohttp import web

from sidecar.api.host import TRUST_FOLDER, host_folders
from sidecar.body import read_body
from sidecar.inventory import take_inventory
from sidecar.wire import decode_folders_request


async def post_inventory(request: web.Request) -> web.Response:
    """Answer with the inventory of one project and its user."""
    asked = decode_folders_request(await read_body(request))
    inventory = await asyncio.to_thread(
        take_inventory, *host_folders(asked), request.app[TRUST_FOLDER]
    )
    return web.Response(body=msgspec.json.encode(inventory), content_type="application/json")
