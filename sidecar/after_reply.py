"""Work that belongs to a request and that its caller need not wait for."""

import asyncio
from collections.abc import Callable


def after_reply(work: Callable[[], None]) -> None:
    """Do blocking work in a thread as soon as the reply that is being made has left.

    A thread that began at once would take turns with the one that makes the reply.
    """
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.run_in_executor, None, work)
