"""One `opencode serve` on a free port, driven over its HTTP interface."""

from __future__ import annotations

import json
import re
import subprocess
import time
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from sidecar.verify.sandbox import MODEL, PROVIDER, VerifyError

if TYPE_CHECKING:
    from sidecar.verify.sandbox import Sandbox

START_SECONDS = 90.0
"""How long the host may take to listen; it takes three seconds, and more on a busy machine."""
TURN_SECONDS = 90.0
_POLL_SECONDS = 0.05


class OpenCode:
    """The host in a sandbox; `end` has to be called."""

    def __init__(self, sandbox: Sandbox, url: str) -> None:
        self._sandbox = sandbox
        self._log = sandbox.folder / "opencode.log"
        self._logged_before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sandbox.host.program, "serve", "--port", "0", "--print-logs"],
                env=sandbox.environment(url),
                cwd=sandbox.project,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            self._port = self._await_port()
        except BaseException:  # also when this process is told to end: nobody else knows of it yet
            self.end()
            raise

    def create_session(self) -> str:
        """Return its id."""
        return str(self._call("POST", "/session", {"title": "Verify"})["id"])

    def prompt(self, session: str, text: str) -> None:
        """Make one turn of the agent."""
        model = {"providerID": PROVIDER, "modelID": MODEL}
        body = {"parts": [{"type": "text", "text": text}], "model": model}
        self._call("POST", f"/session/{session}/message", body)

    def compact(self, session: str) -> None:
        """Have the history summarised."""
        body = {"providerID": PROVIDER, "modelID": MODEL}
        self._call("POST", f"/session/{session}/summarize", body)

    def fork(self, session: str) -> str:
        """Return the id of a copy."""
        return str(self._call("POST", f"/session/{session}/fork", {})["id"])

    def end(self) -> None:
        """Ask it to end, and insist after five seconds."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)

    def _await_port(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            said = self._log.read_bytes()[self._logged_before :].decode(errors="replace")
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", said):
                return int(found[1])
            time.sleep(_POLL_SECONDS)
        raise VerifyError(
            f"OpenCode does not start with a copy of your configuration: {self._why()}"
        )

    def _call(self, method: str, path: str, body: object) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TURN_SECONDS)
        headers = {
            "content-type": "application/json",
            "x-opencode-directory": str(self._sandbox.project),
        }
        try:
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as error:
            raise VerifyError(
                f"OpenCode did not answer {method} {path} ({error or 'it took too long'}): "
                f"{self._why()}"
            ) from error
        finally:
            connection.close()
        if response.status >= 300:
            raise VerifyError(
                f"OpenCode refused {method} {path} with {response.status}: {self._why()}"
            )
        return json.loads(answer) if answer else None

    def _why(self) -> str:
        """Return the last errors of its log."""
        lines = self._log.read_bytes()[self._logged_before :].decode(errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or "rror:" in line]
        return " / ".join((errors or lines)[-2:])[:600] or "it said nothing"
