"""A sandboxed home with memory blocks in it, and the processes that are compared there."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.settings import Settings, load_settings

from ..host import opencode
from ..process import Child, until
from ..shim.stub import publish
from .driver import SHIM, Driver

SIDECAR = [sys.executable, "-P", "-m", "sidecar"]
COUNTED = [sys.executable, "-m", "tests.bench.counted"]
BARE = [sys.executable, "-m", "tests.bench.bare"]
BLOCK = 4_000
"""Characters of a block's value; ten times as many in a large memory."""


class Place:
    """Everything that is made in it goes when it is left."""

    def __enter__(self) -> Place:
        self._closing = ExitStack()
        # Short, since a socket's path has room for about a hundred bytes.
        temporary = tempfile.TemporaryDirectory(prefix="ocm-")
        self.path = Path(self._closing.enter_context(temporary))
        self.data = self.path / "data"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(opencode.ROOT),
            "HOME": str(self.path),
            "XDG_DATA_HOME": str(self.data),
            "XDG_RUNTIME_DIR": str(self.path / "run"),
        }
        (self.path / "run").mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def settings(self) -> Settings:
        return load_settings(self.env)

    def project(self, size: int) -> Path:
        """A project whose snapshots have about so many bytes; with 0, no memory at all."""
        directory = self.path / f"project-{size}"
        blocks = directory / ".opencode/memory"
        blocks.mkdir(parents=True)
        largest = BLOCK if size < 200_000 else 10 * BLOCK
        for number, begin in enumerate(range(0, size, largest)):
            value = ("Prefers small commits. " * largest)[: min(largest, size - begin)]
            front = f"label: block-{number:03}\nlimit: {largest}"
            (blocks / f"block-{number:03}.md").write_text(f"---\n{front}\n---\n{value}\n")
        return directory

    def start(self, command: list[str]) -> Child:
        """A process that ends with this place."""
        child = Child(command, self.env, self.path, self.path / "output.log")
        self._closing.callback(child.end)
        return child

    def sidecar(self) -> Child:
        """The real one, ready for requests."""
        return self._published([*SIDECAR, "serve"])

    def counted_sidecar(self) -> CountedSidecar:
        """The real one, with its calls counted from now on."""
        file = self.path / "counts.json"
        counted = CountedSidecar(self._published([*COUNTED, str(file), "serve"]), file)
        counted.counts()
        return counted

    def _published(self, command: list[str]) -> Child:
        child = self.start(command)

        def published() -> bool:
            assert child.alive(), f"the sidecar ended: {child.output()}"
            return self.settings.endpoint_file.exists()

        until(published, "the sidecar to publish its endpoint")
        return child

    @property
    def published(self) -> dict[str, Any]:
        """What the sidecar has said last of how to reach it."""
        return json.loads(self.settings.endpoint_file.read_bytes())

    def bare(self, name: str, text: str, folder: Path | None = None) -> Bare:
        """The bare application, answering with this text, durable in the folder if there is one."""
        home = self.path / name
        address, file = self.path / f"{name}.sock", self.path / f"{name}.txt"
        file.write_text(text)
        child = self.start([*BARE, str(address), str(file), *([str(folder)] if folder else [])])
        until(lambda: listens(address), "the bare application to listen")
        publish(home, socket=str(address))
        return Bare(child, str(address), home / "data")

    def driver(self, script: str) -> Driver:
        driver = Driver(script, self.env)
        self._closing.callback(driver.close)
        return driver

    def load_shim(
        self, driver: Driver, name: str, directory: Path, data: Path | None = None
    ) -> None:
        """A copy of the shim for this project, and for the sidecar here or one with other data."""
        where = {"data": str(data or self.data), "directory": str(directory)}
        driver.send("load", name=name, shim=str(SHIM), **where)


class Bare(NamedTuple):
    """The floor, and where a client and a shim find it."""

    child: Child
    address: str
    data: Path


class CountedSidecar:
    """See `counted.py`."""

    def __init__(self, child: Child, file: Path) -> None:
        self.child = child
        self._file = file

    def counts(self) -> dict[str, int]:
        """What was counted since the last time."""
        self._file.unlink(missing_ok=True)
        os.kill(self.child.pid, signal.SIGUSR1)
        until(self._file.exists, "the sidecar's counts")
        return json.loads(self._file.read_bytes())


def listens(address: Path) -> bool:
    """Whether somebody accepts connections at this socket."""
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(address))
        return True
    return False


def sessions(count: int, prefix: str = "") -> list[str]:
    """As many ids as the host might give."""
    return [f"ses_{prefix}{number:06}" for number in range(count)]
