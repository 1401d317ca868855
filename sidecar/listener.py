"""The listening socket and the endpoint file that leads to it: made, mended, and taken away."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import tempfile
from errno import EPERM
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.endpoint import publish, read_endpoint, withdraw
from sidecar.settings import runtime_folder
from snapshots.ownership import is_own_socket, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.endpoint import Endpoint
    from sidecar.settings import Settings

_LOGGER = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections waiting to be accepted; a full unix backlog refuses at once, TCP tries again."""
AT_ONCE = 8
"""Connections that the loop accepts before it counts them."""
LONGEST_SOCKET_PATH = 100
"""Bytes; macOS allows 104 and Linux 108, with the closing zero."""


class DesertedError(Exception):
    """The data folder is gone, and the lock with it: another sidecar may own a new one."""


class Listener:
    """Listens on a unix socket, or on 127.0.0.1 if the endpoint has a token."""

    def __init__(
        self, settings: Settings, endpoint: Endpoint, accept: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._accept = accept
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Bind, listen, and publish where. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._endpoint.token is None:
            bound = await asyncio.to_thread(_bind_unix, self._settings)
            self._endpoint.socket = bound.getsockname()
            self._server = await loop.create_unix_server(self._accept, sock=bound, backlog=AT_ONCE)
        else:
            bound = socket.create_server(("127.0.0.1", 0))
            self._endpoint.host, self._endpoint.port = bound.getsockname()
            self._server = await loop.create_server(self._accept, sock=bound, backlog=AT_ONCE)
        bound.listen(BACKLOG)
        await asyncio.to_thread(publish, self._settings.endpoint_file, self._endpoint)
        said = self._endpoint
        _LOGGER.info("Sidecar %s %s listens on %s", said.version, said.instance, said.address)

    async def mend(self) -> None:
        """Bind and publish again what was removed behind our back.

        Raises DesertedError. A disk that refuses is told in the log, and tried again next time.
        """
        if not await asyncio.to_thread(self._is_broken):
            return
        _LOGGER.warning("The socket or the endpoint file was removed; they are made anew")
        try:
            self.close()
            await self.open()
        except OSError as error:
            _LOGGER.warning("They can't be made (%s)", error.strerror or type(error).__name__)

    def close(self) -> None:
        """Take no more connections; those that there are go on."""
        if self._server is not None:
            self._server.close()

    def withdraw(self) -> None:
        """Remove the endpoint file and the socket, if they are still ours."""
        withdraw(self._settings.endpoint_file, self._endpoint.instance)

    def _is_broken(self) -> bool:
        if not self._settings.lock_file.exists():
            raise DesertedError
        if self._endpoint.socket and not is_own_socket(Path(self._endpoint.socket)):
            return True
        published = read_endpoint(self._settings.endpoint_file)
        return published is None or published.instance != self._endpoint.instance


def _bind_unix(settings: Settings) -> socket.socket:
    path = _socket_path(settings)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - a path that only the holder of the lock uses
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101 - its folder has kept others out until now
    except OSError:
        bound.close()
        raise
    return bound


def _socket_path(settings: Settings) -> str:
    """Return a path that only the holder of this data folder's lock uses.

    Raises OSError if its folder belongs to somebody else.
    """
    name = hashlib.sha256(os.fsencode(settings.data_folder)).hexdigest()[:16] + ".sock"
    folder = runtime_folder()
    try:
        make_private_folder(folder)
        is_usable = len(os.fsencode(folder / name)) <= LONGEST_SOCKET_PATH
    except OSError:
        is_usable = False  # the session that it belonged to has ended
    if not is_usable:
        folder = Path(tempfile.gettempdir()) / f"opencode-memory-{os.geteuid()}"
        if folder.is_symlink():  # anybody can make one there
            raise PermissionError(EPERM, "it is a link; remove it", str(folder))
        make_private_folder(folder)
    return str(folder / name)
