"""A request's body: whole, in time, and not too large, or refused."""

import asyncio
from http import HTTPStatus

from aiohttp import web

from sidecar.errors import RequestError

BODY_SECONDS = 10.0
"""How long a body may take to arrive; on loopback it takes a millisecond."""


async def read_body(request: web.Request) -> bytes:
    """Return the body.

    Raises RequestError for one that is slow or broken off, and HTTPRequestEntityTooLarge.
    """
    try:
        if request.content.is_eof():  # it came with the head, as the shim's do: nothing to wait for
            return await request.read()
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise RequestError(
            HTTPStatus.REQUEST_TIMEOUT,
            "body_too_slow",
            f"The body did not arrive within {BODY_SECONDS:.0f} seconds.",
        ) from None
    except (ConnectionError, web.RequestPayloadError):
        raise RequestError(
            HTTPStatus.BAD_REQUEST, "body_broken_off", "The body is not all there, or not as said."
        ) from None
