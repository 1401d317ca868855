"""The plugin's reader of replies against a sidecar that answers anything at all."""

from __future__ import annotations

import os
import subprocess

from .conftest import ROOT, runtime_command

SCRIPT = ROOT / "tests" / "fuzz" / "shim.mjs"
CASES = int(os.environ.get("MEMORY_FUZZ_CASES", "600"))


def test_no_reply_makes_it_throw_hang_leak_or_give_a_session_what_is_anothers() -> None:
    done = subprocess.run(
        [*runtime_command("bun"), str(SCRIPT), "0", str(CASES), "1000"],
        env={"PATH": os.environ["PATH"], "BUN_BE_BUN": "1", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{CASES} cases, none at fault\n"
