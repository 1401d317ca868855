from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar.endpoint import Endpoint, publish, read_endpoint, withdraw

from ..process import STRANGER, needs_root


def test_what_is_published_is_read_and_private(tmp_path: Path) -> None:
    file = tmp_path / "endpoint.json"
    publish(
        file,
        Endpoint(version="1", protocol=1, instance="i", pid=2, host="127.0.0.1", port=3, token="t"),
    )
    read = read_endpoint(file)
    assert read is not None
    assert (read.instance, read.address, read.token) == ("i", "127.0.0.1:3", "t")
    assert "socket" not in json.loads(file.read_bytes())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"abc", b"[]", b'"x"', b"{}", b'{"pid": 1}', b"\xff"])
def test_a_file_that_makes_no_sense_is_no_endpoint(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "endpoint.json"
    assert read_endpoint(file) is None
    file.write_bytes(content)
    assert read_endpoint(file) is None


def test_an_instance_withdraws_its_own_endpoint_and_socket_and_no_others(tmp_path: Path) -> None:
    file, socket = tmp_path / "endpoint.json", tmp_path / "socket"
    socket.touch()
    publish(file, Endpoint(version="1", protocol=1, instance="b", pid=2, socket=str(socket)))
    withdraw(file, "a")
    assert file.exists()
    assert socket.exists()
    withdraw(file, "b")
    withdraw(file, "b")
    assert not file.exists()
    assert not socket.exists()


def test_who_reads_while_it_is_published_sees_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "endpoint.json"
    endpoint = Endpoint(version="1", protocol=1, instance="i", pid=2, socket="/s" * 2000)
    publish(file, endpoint)
    with ThreadPoolExecutor(1) as thread:
        again = thread.submit(lambda: [publish(file, endpoint) for _ in range(200)])
        while not again.done():
            assert read_endpoint(file) is not None
        again.result()


@needs_root
def test_another_users_endpoint_file_leads_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "endpoint.json"
    publish(file, Endpoint(version="1", protocol=1, instance="i", pid=2, socket="/s"))
    os.chown(file, STRANGER, STRANGER)
    assert read_endpoint(file) is None


def test_an_endpoint_file_that_others_may_have_written_leads_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "endpoint.json"
    publish(file, Endpoint(version="1", protocol=1, instance="i", pid=2, socket="/s"))
    file.chmod(0o666)
    assert read_endpoint(file) is None
