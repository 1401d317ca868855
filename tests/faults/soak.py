"""A long run: REQUESTS SESSIONS. Prints the sidecar's memory, and fails if it grows.

Sixty-four clients ask a real sidecar for what OpenCode asks for in a long day: mostly bytes that
the plugin has, some that it has not, tools, sessions that are deleted and come back, and nonsense.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

CLIENTS = 64
AT_ONCE = 256
SAMPLES = 20
GROWTH = 1.05
"""How much more memory than after a fifth of the run is no growth: the allocator breathes."""


class Run:
    """One sidecar in a home of its own, and what it was asked."""

    def __init__(self, home: Path, process: int, socket: str, sessions: int) -> None:
        self.process = process
        self.socket = socket
        self.asked = 0
        self._random = random.Random(1)
        self._sessions = [f"ses_soak{number:06}" for number in range(sessions)]
        self._etags: dict[str, bytes] = {}
        self._text = b""
        self._folders = {"directory": str(home / "project"), "config_directories": []}

    async def begin(self) -> None:
        """Make every session live, and learn the text, which is the same for all."""
        waiting = iter(self._sessions)
        await asyncio.gather(*(self._client(waiting) for _ in range(CLIENTS)))

    async def go_on(self, requests: int) -> None:
        """Ask so many times."""
        end = self.asked + requests
        waiting = iter(lambda: self._random.choice(self._sessions) if self.asked < end else "", "")
        await asyncio.gather(*(self._client(waiting) for _ in range(CLIENTS)))

    async def connect_at_once(self) -> None:
        """Have very many connections made in one moment; each is to be answered."""
        streams = await asyncio.gather(
            *(asyncio.open_unix_connection(self.socket) for _ in range(AT_ONCE))
        )
        replies = await asyncio.gather(*(_ask(*pair, b"GET", "/v1/health") for pair in streams))
        assert {status for status, _, _ in replies} == {200}
        for _, writer in streams:
            writer.close()

    def memory(self) -> float:
        """The sidecar's resident memory, in MiB."""
        command = ["ps", "-o", "rss=", "-p", str(self.process)]
        return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024

    async def _client(self, sessions: object) -> None:
        reader, writer = await asyncio.open_unix_connection(self.socket)
        for session_id in sessions:  # type: ignore[attr-defined]
            self.asked += 1
            kind = self._random.random()
            if session_id not in self._etags or kind < 0.96:
                await self._snapshot(reader, writer, session_id, known=kind > 0.05)
            elif kind < 0.97:
                await self._forget(reader, writer, session_id)
            elif kind < 0.99:
                call = {"session_id": session_id, "turn_id": str(kind), "arguments": {"label": "x"}}
                name = "memory_list" if kind < 0.98 else "memory_get"  # there is no block x
                await _ask(reader, writer, b"POST", f"/v1/tools/{name}", {**call, **self._folders})
            else:
                await _ask(reader, writer, b"POST", "/v1/snapshot", {"session_id": kind})
        writer.close()

    async def _snapshot(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        session_id: str,
        *,
        known: bool,
    ) -> None:
        body = {"session_id": session_id, "epoch": "initial", **self._folders}
        etag = self._etags.get(session_id) if known else None
        status, headers, text = await _ask(reader, writer, b"POST", "/v1/snapshot", body, etag)
        if status == 200:
            self._text = self._text or text
            assert text == self._text, "a session was given another text"
            self._etags[session_id] = headers[b"etag"]
        else:
            assert (status, etag is None) == (304, False), status

    async def _forget(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session_id: str
    ) -> None:
        events = {"events": [{"type": "deleted", "session_id": session_id}]}
        await _ask(reader, writer, b"POST", "/v1/events", events)


async def _ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: bytes,
    path: str,
    body: Mapping[str, object] | None = None,
    etag: bytes | None = None,
) -> tuple[int, dict[bytes, bytes], bytes]:
    content = b"" if body is None else json.dumps(body).encode()
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nMemory-Protocol: 1\r\n" % (method, path.encode())
    if etag is not None:
        head += b"If-None-Match: %s\r\n" % etag
    writer.write(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(content), content))
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    text = await reader.readexactly(int(headers.get(b"content-length", 0)))
    return int(first.split()[1]), headers, text


def has_grown(samples: list[float]) -> bool:
    """Whether the last fifth of the samples needs more memory than the second."""
    fifth = max(1, len(samples) // 5)
    early = min(samples[fifth : 2 * fifth])
    return min(samples[-fifth:]) > early * GROWTH


async def soak(run: Run, requests: int) -> list[float]:
    """Ask so many times, and return the memory in MiB after each part."""
    await run.begin()
    await run.connect_at_once()
    samples = []
    for part in range(SAMPLES):
        began = time.monotonic()
        await run.go_on(requests // SAMPLES)
        samples.append(run.memory())
        rate = requests / SAMPLES / (time.monotonic() - began)
        print(f"{part + 1:3}/{SAMPLES}  {samples[-1]:8.1f} MiB  {rate:8.0f}/s", flush=True)
    await run.connect_at_once()
    return samples


def main(requests: int, sessions: int) -> int:
    """Return 0 if the memory is flat."""
    with tempfile.TemporaryDirectory(prefix="ocm-") as name:
        home = Path(name)
        memory = home / "project" / ".opencode" / "memory"
        memory.mkdir(parents=True)
        (memory / "notes.md").write_text("a line of notes\n" * 300)
        folders = {"HOME": name, "XDG_RUNTIME_DIR": name, "XDG_DATA_HOME": f"{name}/data"}
        command = [sys.executable, "-P", "-m", "sidecar", "serve"]
        environment = {**os.environ, **folders}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                endpoint = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
                while not endpoint.exists():
                    assert process.poll() is None, "the sidecar did not start"
                    time.sleep(0.02)
                socket = json.loads(endpoint.read_bytes())["socket"]
                samples = asyncio.run(soak(Run(home, process.pid, socket, sessions), requests))
            finally:
                process.terminate()
    if has_grown(samples):
        print("The sidecar's memory grows.")
        return 1
    print(f"{requests} requests of {sessions} live sessions: its memory is flat.")
    return 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*(numbers + [1_000_000, 10_000][len(numbers) :])))
