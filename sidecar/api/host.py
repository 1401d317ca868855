"""What a request says of its host's folders, checked."""

import os
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from sidecar.errors import RequestError
from sidecar.wire import FoldersRequest

TRUST_FOLDER = web.AppKey("trust_folder", Path)
"""Where it is kept which of a project's blocks the user has seen."""


def host_folders(asked: FoldersRequest) -> tuple[tuple[Path, ...], Path]:
    """Return the configuration folders and the project's folder.

    Raises RequestError if one is not absolute: it would mean another folder here than there.
    """
    for path in (asked.directory, *asked.config_directories):
        if not os.path.isabs(path) or "\0" in path:  # noqa: PTH117 - no path yet, maybe none ever
            raise RequestError(
                HTTPStatus.BAD_REQUEST, "invalid_request", "Every directory must be absolute."
            )
    return tuple(map(Path, asked.config_directories)), Path(asked.directory)
