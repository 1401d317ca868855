from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.lock import AlreadyRunningError, has_owner, sole_owner

HOLDER = """
import sys, pathlib
from sidecar.lock import sole_owner
with sole_owner(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_it_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not has_owner(file)
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert has_owner(file)
        with pytest.raises(AlreadyRunningError), sole_owner(file):
            pytest.fail("two owners at once")
        holder.kill()
        holder.wait(10)
        assert not has_owner(file)
        with sole_owner(file):
            assert has_owner(file)
