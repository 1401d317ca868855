"""What a user installs: the wheel, with the shim in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_has_both_packages_and_the_shim_and_finds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", tmp_path, ROOT]
    subprocess.run(command, check=True, capture_output=True, timeout=55)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"sidecar", "snapshots"}
    shim = subprocess.check_output(
        [sys.executable, "-P", "-c", "from sidecar.shim import shim_path; print(shim_path())"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        text=True,
    )
    assert Path(shim.strip()) == tmp_path / "installed" / "sidecar" / "opencode-memory.js"
    packaged = Path(shim.strip()).read_bytes()
    assert packaged == (ROOT / "plugin-shim" / "opencode-memory.js").read_bytes()
