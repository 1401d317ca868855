"""The command line's calls, against whatever may listen there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.client import Client, HangsError, NotRunningError, SidecarError, connect
from sidecar.endpoint import Endpoint, publish
from sidecar.lock import sole_owner
from sidecar.settings import Settings

Listen = Callable[[bytes], Client]


def endpoint(**where: object) -> Endpoint:
    return Endpoint(version="1", protocol=1, instance="i", pid=1, **where)  # type: ignore[arg-type]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """Something on TCP that reads one request, answers with these bytes and closes."""
    listeners = []
    threads = []

    def answer(listener: socket.socket, reply: bytes) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(reply)

    def start(reply: bytes) -> Client:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threads.append(threading.Thread(target=answer, args=(listener, reply)))
        threads[-1].start()
        port = listener.getsockname()[1]
        there = endpoint(host="127.0.0.1", port=port, token="secret")
        return Client(there, tmp_path / "lock", timeout=5)

    yield start
    for thread in threads:
        thread.join(10)
    for listener in listeners:
        listener.close()


def test_a_reply_is_its_json_object_and_an_empty_one_is_empty(listen: Listen) -> None:
    assert listen(b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}').call("GET", "/") == {"a": 1}
    assert listen(b"HTTP/1.1 204 No Content\r\n\r\n").call("GET", "/") == {}


def test_a_refusal_comes_in_the_sidecars_own_words(listen: Listen) -> None:
    body = b'{"error": {"code": "some_code", "message": "Some sentence."}}'
    with pytest.raises(SidecarError, match=r"^Some sentence\.$") as caught:
        listen(b"HTTP/1.1 409 Conflict\r\n\r\n" + body).call("GET", "/")
    assert caught.value.code == "some_code"


@pytest.mark.parametrize(
    "reply", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 500 No\r\n\r\n<html>", b"\xff\xfe" * 100]
)
def test_what_makes_no_sense_is_told_as_that(listen: Listen, reply: bytes) -> None:
    with pytest.raises(SidecarError, match="makes no sense"):
        listen(reply).call("GET", "/")


def test_where_nothing_listens_the_sidecar_is_not_running(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="opencode-memory start"):
        Client(endpoint(socket=str(tmp_path / "none")), tmp_path / "lock").call("GET", "/")


def test_one_that_refuses_does_not_hang_although_it_holds_the_lock(settings: Settings) -> None:
    """As while it is starting or ending."""
    settings.data_folder.mkdir(parents=True)
    path = str(settings.data_folder / "s")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(path)
    client = Client(endpoint(socket=path), settings.lock_file, timeout=5)
    with sole_owner(settings.lock_file), pytest.raises(NotRunningError, match="refused"):
        client.call("GET", "/")


def test_a_socket_that_others_may_have_put_there_is_not_asked(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        Path(path).chmod(0o777)
        with pytest.raises(NotRunningError, match="no socket of this user's"):
            Client(endpoint(socket=path), tmp_path / "lock", timeout=5).call("GET", "/")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_without_an_endpoint_the_sidecar_is_not_running(settings: Settings) -> None:
    with pytest.raises(NotRunningError, match="opencode-memory start"):
        connect(settings)
    settings.data_folder.mkdir(parents=True)
    publish(settings.endpoint_file, endpoint(socket="/nowhere"))
    assert connect(settings).endpoint.socket == "/nowhere"


def test_what_never_answers_hangs_if_it_holds_the_lock_and_else_is_a_stranger(
    settings: Settings,
) -> None:
    settings.data_folder.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        publish(settings.endpoint_file, endpoint(host="127.0.0.1", port=port))
        client = connect(settings, timeout=0.1)
        with pytest.raises(NotRunningError, match="opencode-memory start"):
            client.call("GET", "/")
        with (
            sole_owner(settings.lock_file),
            pytest.raises(HangsError, match=r"does not answer.*kill -9"),
        ):
            client.call("GET", "/")
