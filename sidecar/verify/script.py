"""The script: what a session goes through, and each request that the provider got meanwhile."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sidecar.background import BackgroundError, make_way
from sidecar.client import HangsError, SidecarError
from sidecar.verify.opencode import OpenCode
from sidecar.verify.recorder import Answer, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sidecar.verify.recorder import Request
    from sidecar.verify.sandbox import Sandbox

_LABEL = "verify"


@dataclass(frozen=True)
class Sent:
    """One request of the conversation, the step that led to it, and whether a change was due."""

    step: str
    request: Request
    change_due: bool


def play(sandbox: Sandbox, *, short: bool = False, told: Callable[[str], None]) -> list[Sent]:
    """Make every step in the sandbox, and return the conversation's requests in their order.

    `short` is the first few steps only. `told` hears of each step as it begins. Raises VerifyError.
    """
    recorder = Recorder()
    player = _Player(sandbox, recorder, told)
    try:
        for step in player.short_steps() if short else player.steps():
            step()
    finally:
        player.close()
        recorder.close()
    return player.sent


class _Player:
    def __init__(self, sandbox: Sandbox, recorder: Recorder, told: Callable[[str], None]) -> None:
        self.sent: list[Sent] = []
        self._sandbox = sandbox
        self._recorder = recorder
        self._told = told
        self._host = OpenCode(sandbox, recorder.url)
        self._session = self._host.create_session()
        self._seen = 0
        self._change_due = False

    def short_steps(self) -> Iterator[Callable[[], None]]:
        for name in ("a prompt", "a second prompt", "a third prompt"):
            yield partial(self._prompt, name)
        yield self._edit_by_tool

    def steps(self) -> Iterator[Callable[[], None]]:
        yield from self.short_steps()
        yield self._edit_by_hand
        yield self._restart
        yield self._compact
        yield partial(self._prompt, "a prompt after that")
        yield self._fork

    def close(self) -> None:
        self._host.end()
        # Not by `background.stop`: the service that it would end is the user's own.
        with contextlib.suppress(HangsError, SidecarError, BackgroundError):
            make_way(self._sandbox.settings)

    def _prompt(self, step: str, *answers: Answer) -> None:
        self._told(step)
        self._recorder.script(self._session, *answers)
        self._host.prompt(self._session, f"Please go on ({step}).")
        requests = self._recorder.requests
        for request in requests[self._seen :]:
            if request.kind == "main":
                self.sent.append(Sent(step, request, self._change_due))
                self._change_due = False
        self._seen = len(requests)

    def _edit_by_tool(self) -> None:
        arguments = {"label": _LABEL, "value": "Edited by the agent.", "scope": "global"}
        call = Answer("I note that.", tool="memory_set", arguments=arguments)
        self._prompt("memory edited by the agent", call, Answer("Done."))
        self._prompt("the prompt after that")

    def _edit_by_hand(self) -> None:
        block = self._sandbox.config / "memory" / f"{_LABEL}.md"
        block.parent.mkdir(parents=True, exist_ok=True)
        block.write_text(f"---\nlabel: {_LABEL}\n---\nEdited by hand.\n")
        self._prompt("memory edited by hand")

    def _restart(self) -> None:
        self._told("a restart of OpenCode and of the sidecar")
        self.close()
        self._host = OpenCode(self._sandbox, self._recorder.url)
        self._prompt("after a restart of both")

    def _compact(self) -> None:
        self._told("a compaction")
        self._host.compact(self._session)
        self._seen = len(self._recorder.requests)
        self._change_due = True
        self._prompt("after a compaction")

    def _fork(self) -> None:
        self._session = self._host.fork(self._session)
        self._prompt("in a fork")
