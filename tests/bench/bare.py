"""The floor that the sidecar is held against: a plain aiohttp and msgspec application.

It answers every request with the content of one file, as the sidecar answers with a snapshot, and
does nothing else. With a folder, it first makes the content durable there, in the fewest steps that
can do it: `python -m tests.bench.bare SOCKET [FILE [FOLDER]]`.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
from aiohttp import web


class Asked(msgspec.Struct):
    session_id: str


decode = msgspec.json.Decoder(Asked).decode
ETAG = '"bare"'
PROTOCOL = {"Memory-Protocol": "1"}


async def main(socket: str, body: bytes, folder: str | None) -> None:
    bytes(1024 * 1024)  # the floor is to be at its best, too: see sidecar/server.py

    async def echo(request: web.Request) -> web.Response:
        # The shim takes no reply that does not name the session.
        session = {"Memory-Session": decode(await request.read()).session_id}
        if folder:
            file = f"{folder}/raw-{session['Memory-Session']}"
            await asyncio.to_thread(write_durably, file, body)
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


def write_durably(file: str, body: bytes) -> None:
    """The system calls alone; a thread's, since a loop that waits for the disk answers nobody."""
    new = os.open(f"{file}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(new, body)
    os.fsync(new)
    os.close(new)
    os.rename(f"{file}.new", file)  # noqa: PTH104
    folder = os.open(os.path.dirname(file), os.O_RDONLY)  # noqa: PTH120
    os.fsync(folder)
    os.close(folder)


if __name__ == "__main__":
    _, socket, *arguments = sys.argv
    file, folder = [*arguments, None, None][:2]
    asyncio.run(main(socket, Path(file).read_bytes() if file else b"", folder))
