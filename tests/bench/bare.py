"""The floor that the sidecar is held against: a plain aiohttp and msgspec application.

It answers every request with the content of one file, as the sidecar answers with a snapshot, and
does nothing else: `python -m tests.bench.bare SOCKET [FILE]`.
"""

import asyncio
import sys
from pathlib import Path

import msgspec
from aiohttp import web


class Asked(msgspec.Struct):
    session_id: str


decode = msgspec.json.Decoder(Asked).decode
ETAG = '"bare"'
PROTOCOL = {"Memory-Protocol": "1"}


async def main(socket: str, body: bytes) -> None:
    bytes(1024 * 1024)  # the floor is to be at its best, too: see sidecar/server.py

    async def echo(request: web.Request) -> web.Response:
        # The shim takes no reply that does not name the session.
        session = {"Memory-Session": decode(await request.read()).session_id}
        if request.headers.get("If-None-Match") == ETAG:
            return web.Response(status=304, headers={**PROTOCOL, **session, "ETag": ETAG})
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        return web.Response(body=body, headers={**PROTOCOL, **session, **kind, "ETag": ETAG})

    app = web.Application()
    app.add_routes([web.post("/v1/snapshot", echo)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, socket, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    _, socket, *files = sys.argv
    asyncio.run(main(socket, b"".join(Path(file).read_bytes() for file in files)))
