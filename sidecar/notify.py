"""What the sidecar tells the service manager that started it: ready, alive, stopping.

The protocol is systemd's: one datagram per message, to the socket that the manager named. A sidecar
that no manager started has no such socket, and tells nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from contextlib import asynccontextmanager

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_LOGGER = logging.getLogger(__name__)


class Notifier:
    """One manager's socket, and how long it waits for a sign of life before it restarts us."""

    __slots__ = ("_address", "watchdog_seconds")

    def __init__(self, address: str | None, watchdog_seconds: float | None = None) -> None:
        if address and address.startswith("@"):  # Linux's abstract namespace, as systemd writes it
            address = "\0" + address[1:]
        self._address = address
        self.watchdog_seconds = watchdog_seconds if address else None

    def send(self, message: str) -> None:
        """Tell the manager, if there is one. One that can't hear is no reason to stop serving."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.setblocking(False)  # a manager that is busy must not hold up a request
            try:
                client.sendto(message.encode(), self._address)
            except OSError as error:
                _LOGGER.warning("The service manager did not take %r: %s", message, error)


def make_notifier(variables: Mapping[str, str], pid: int) -> Notifier:
    """Return the notifier for the manager that started the process `pid` with these variables."""
    seconds = None
    # A manager watches one process; a child of it inherits the variables and is not meant.
    if variables.get("WATCHDOG_PID", str(pid)) == str(pid):
        microseconds = variables.get("WATCHDOG_USEC", "")
        seconds = int(microseconds) / 1e6 if microseconds.isdecimal() else None
    return Notifier(variables.get("NOTIFY_SOCKET"), seconds)


@asynccontextmanager
async def notifying(notifier: Notifier) -> AsyncIterator[None]:
    """Be ready from the beginning of this block, alive while in it, and stopping at its end.

    Alive means that the event loop turns: that is what answers requests.
    """
    notifier.send("READY=1")
    watchdog = asyncio.create_task(_stay_alive(notifier))
    try:
        yield
    finally:
        watchdog.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watchdog
        notifier.send("STOPPING=1")


async def _stay_alive(notifier: Notifier) -> None:
    while notifier.watchdog_seconds:
        notifier.send("WATCHDOG=1")
        await asyncio.sleep(notifier.watchdog_seconds / 2)
