"""What the log may say of an error: which one and where, and not its message.

A message may quote a path of the user's, a memory block or a request; which of them, nobody can
tell beforehand.
"""

import asyncio
import errno
import logging
import traceback
from types import TracebackType
from typing import Any

_LOGGER = logging.getLogger(__name__)

_ErrorInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class Formatter(logging.Formatter):
    """Writes an exception, and what it came from, as their types and the places in the code."""

    def formatException(self, ei: _ErrorInfo) -> str:
        """Return the exception without its message."""
        lines: list[str] = []
        error: BaseException | None = ei[1]
        while error is not None:
            number = error.errno if isinstance(error, OSError) else None
            name = f" {errno.errorcode.get(number, number)}" if number else ""
            places = [
                f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
                for frame in traceback.extract_tb(error.__traceback__)
            ]
            lines = [*places, f"{type(error).__name__}{name}", *lines]
            error = error.__cause__ or error.__context__
        return "\n".join(lines)


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what the event loop has no caller to raise to; it would name sockets and tasks."""
    # Of a callback that failed, the loop's message has all that it was called with.
    message = "A callback failed" if "handle" in context else context["message"]
    _LOGGER.error("%s", message, exc_info=context.get("exception"))
