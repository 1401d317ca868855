"""Nothing of the user's leaves the process but as an answer to the user."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.client import SidecarError, connect
from sidecar.endpoint import read_endpoint
from sidecar.log import Formatter, log_loop_error
from sidecar.settings import Settings

from ..process import Child

CANARY = "canary-4f1e"


def test_an_exception_is_told_without_its_message_and_with_its_cause() -> None:
    try:
        try:
            raise FileNotFoundError(2, "No such file", f"/home/{CANARY}")
        except OSError as error:
            raise ValueError(CANARY) from error
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    told = Formatter().format(
        logging.LogRecord("name", logging.ERROR, "path", 1, "said", None, info)
    )
    assert CANARY not in told
    assert told.splitlines()[0] == "said"
    assert told.splitlines()[-1] == "ValueError"
    assert "FileNotFoundError ENOENT" in told
    assert f'File "{__file__}", line ' in told


async def test_what_the_loop_could_raise_to_nobody_is_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_words: str) -> None:
        try:
            raise FileNotFoundError(2, CANARY)
        except OSError:
            raise ValueError(CANARY)  # noqa: B904 - as code does that fails twice

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    loop.call_soon(fail, CANARY)
    await asyncio.sleep(0)
    (record,) = caplog.records
    record.exc_text = None  # which the test's own handler has filled in
    told = Formatter().format(record)
    assert CANARY not in told
    assert "FileNotFoundError ENOENT" in told
    assert told.splitlines()[-1] == "ValueError"


def test_neither_log_nor_arguments_nor_strangers_learn_text_path_or_token(
    serve: Callable[..., Child], settings: Settings, tmp_path: Path
) -> None:
    project = tmp_path / CANARY
    memory = project / ".opencode" / "memory"
    memory.mkdir(parents=True)
    (memory / f"{CANARY}.md").write_text(f"---\ndescription: {CANARY}\n: - broken\n---\n{CANARY}\n")
    (memory / f"{CANARY}-2.md").symlink_to(f"/{CANARY}")
    child = serve("--transport", "tcp")
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    assert endpoint.token is not None
    asked = {
        "session_id": "ses_a",
        "epoch": "initial",
        "directory": str(project),
        "config_directories": [f"/{CANARY}"],
    }
    client = connect(settings)
    client.call("POST", "/v1/inventory", asked)
    client.call("POST", "/v1/snapshot", asked)
    tool = {**asked, "turn_id": CANARY, "arguments": {"label": CANARY, "value": CANARY}}
    for path, body in (
        ("/v1/tools/memory_replace", tool),
        (f"/v1/tools/{CANARY}", tool),
        ("/v1/snapshot", {**asked, "session_id": CANARY}),
        ("/v1/snapshot", {**asked, "session_id": "ses_b", "directory": f"{CANARY}\0"}),
        ("/v1/snapshot", {**asked, "epoch": CANARY * 100}),
        ("/v1/purge", {"older_than_days": CANARY}),
        (f"/{CANARY}", None),
    ):
        with pytest.raises(SidecarError):
            client.call("POST", path, body)

    # An error that nobody foresaw, with a path in its message.
    settings.snapshot_folder.rename(settings.snapshot_folder.with_name("aside"))
    settings.snapshot_folder.symlink_to(settings.snapshot_folder)
    with pytest.raises(SidecarError, match="did not foresee"):
        client.call("GET", "/v1/sessions")
    client.call("POST", "/v1/snapshot", {**asked, "session_id": "ses_b"})

    for request in strange_requests(endpoint.port, json.dumps(asked).encode()):
        with socket.create_connection(("127.0.0.1", endpoint.port), 10) as stranger:
            stranger.sendall(request)
            learnt = b""
            while chunk := stranger.recv(65536):
                learnt += chunk
        assert re.match(rb"HTTP/1.[01] 4\d\d ", learnt)
        for secret in (str(settings.data_folder), str(project), endpoint.token, endpoint.instance):
            assert secret.encode() not in learnt

    if (process := Path(f"/proc/{child.pid}")).exists():
        said = process.joinpath("cmdline").read_bytes()
        assert endpoint.token.encode() not in said
        assert CANARY.encode() not in said
        limits = process.joinpath("limits").read_text()
        assert limits.partition("Max core file size")[2].split()[:2] == ["0", "0"]
    child.end()
    assert "ELOOP" in child.output()
    assert "aiohttp" not in child.output().partition("ELOOP")[2]  # strangers fill no log
    assert str(settings.snapshot_folder) not in child.output()
    assert CANARY not in child.output()
    assert endpoint.token not in child.output()


def strange_requests(port: int | None, body: bytes) -> list[bytes]:
    """What a stranger may try: everything but the token."""
    host = b"HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (port or 0)
    heads = [
        b"POST /v1/snapshot " + host,
        b"GET /v1/sessions " + host + b"Authorization: Bearer x\r\n",
        b"GET /v1/health " + host + b"Authorization: \xff\xfe\r\n",
        b"GET /v1/health HTTP/1.1\r\nHost: evil.example\r\n",
        b"DELETE /v1/sessions " + host + b"Origin: null\r\n",
        b"GET /\xff\xed\xa0\x80 " + host,
        b"no HTTP at all\r\n",
        b"GET / HTTP/9.9\r\n" + b"X: y\r\n" * 10_000,
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n",
    ]
    return [
        b"%sConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (head, len(body), body)
        for head in heads
    ]
