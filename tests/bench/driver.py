"""A script in the host's own runtime that is told what to time: JSON lines to it and from it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..host import opencode

SHIM = opencode.ROOT / "plugin-shim/opencode-memory.js"
_AS_BUN = {"BUN_BE_BUN": "1"}


class Driver:
    """One such process. Ends with `close`."""

    def __init__(self, script: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [opencode.binary(), "run", Path(__file__).with_name(script)],
            env={**env, **_AS_BUN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, command: str, **arguments: Any) -> Any:
        """The command's answer."""
        self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"failed": "it ended"}')
        if isinstance(answer, dict) and "failed" in answer:
            raise RuntimeError(f"{command}: {answer['failed']}")
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()


def bun_version() -> str:
    """Of the runtime in the host that is installed here."""
    command = [opencode.binary(), "--version"]
    env = {**os.environ, **_AS_BUN}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()
