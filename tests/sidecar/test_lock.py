from __future__ import annotations

import os
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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), sole_owner(tmp_path / "lock"):
        pytest.fail("an owner of another's lock")
    assert not (tmp_path / "elsewhere").exists()


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
