"""The one place where an exception becomes a reply."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from aiohttp import web

from snapshots.errors import ExhaustedError, InvalidSessionIdError, SnapshotError

_LOGGER = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_STATUSES: dict[type[SnapshotError], HTTPStatus] = {
    InvalidSessionIdError: HTTPStatus.BAD_REQUEST,
    ExhaustedError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class RequestError(Exception):
    """A request that can't be served, with its status, stable code and sentence."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def error_response(status: int, code: str, message: str) -> web.Response:
    """Return the body that every refusal has."""
    said = message.encode("utf-8", "replace").decode()  # it may quote what was not UTF-8
    body = msgspec.json.encode({"error": {"code": code, "message": said}})
    return web.Response(status=status, body=body, content_type="application/json")


def error_reply(request: web.Request, raised: Exception) -> web.Response:
    """Turn whatever was raised into `{"error": {"code", "message"}}`."""
    try:
        raise raised
    except RequestError as error:
        return error_response(error.status, error.code, str(error))
    except SnapshotError as error:
        status = _STATUSES.get(type(error), HTTPStatus.CONFLICT)
        return error_response(status, error.code, str(error))
    except msgspec.ValidationError as error:
        return error_response(HTTPStatus.BAD_REQUEST, "invalid_request", f"{error}.")
    except msgspec.DecodeError as error:
        message = f"The body is not JSON: {error}."
        return error_response(HTTPStatus.BAD_REQUEST, "malformed_json", message)
    except web.HTTPRequestEntityTooLarge:
        message = f"The body is larger than {request.client_max_size} bytes. Send ids, not content."
        return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
    except web.HTTPException as error:
        code = error.reason.lower().replace(" ", "_")
        message = f"{request.method} {request.path} is not one of this sidecar's routes."
        return error_response(error.status, code, message)
    except Exception:
        _LOGGER.exception("%s %s failed", request.method, request.path)
        message = "The sidecar failed in a way that it did not foresee; its log has the traceback."
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message)
