"""A random walk over the steps of `script.py`, a part of which can be made a scenario."""

from __future__ import annotations

import itertools
import random
import string
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scenario import Session, World
    from .script import Script

STEPS = 120
MOST_SESSIONS = 6
PLACES = ("project", "elsewhere")
MODELS = ("stub", "stub/other", "stub-anthropic")


class Walk:
    """What may come next, by what has been: each step is one that a user could take there."""

    def __init__(self, seed: int, world: World, script: Script) -> None:
        self._random = random.Random(seed)
        self._world = world
        self._sessions = script.sessions
        self._names = itertools.cycle(string.ascii_lowercase)

    def steps(self) -> Iterator[str]:
        """The first 120, each made when it is asked for."""
        yield "edit"
        for _ in range(STEPS - 1):
            choices = dict(self._choices())
            (step,) = self._random.choices([*choices], weights=[*choices.values()])
            yield step

    def _choices(self) -> Iterator[tuple[str, int]]:
        """Steps, and how likely each is."""
        yield "edit", 10
        yield "restore", 2
        yield self._random.choice(["edit project", "edit elsewhere"]), 2
        if len(self._sessions) < MOST_SESSIONS:
            yield f"prompt {self._new_name()}", 3 if self._sessions else 100
        if self._sessions:
            name = self._random.choice(sorted(self._sessions))
            yield from self._of_session(name, self._sessions[name])
        if self._world.memory_answers:
            yield "kill sidecar", 4
            yield "kill sidecar; start sidecar", 2
        else:
            yield "start sidecar", 15
        yield "kill host; start host", 2

    def _of_session(self, name: str, session: Session) -> Iterator[tuple[str, int]]:
        yield f"prompt {name}", 25
        yield f"tools {name}", 5
        yield f"clear {name}", 2
        yield f"model {name} {self._random.choice(MODELS)}", 3
        yield f"agent {name} {self._random.choice(['build', 'plan'])}", 2
        yield f"go {name} {self._random.choice(PLACES)}", 3
        if self._world.memory_answers:
            yield f"hear {name}", 3
        messages = self._world.host.messages(session.id, session.directory)
        users = [n for n, each in enumerate(messages) if each["info"]["role"] == "user"]
        if not users:
            return
        message = self._random.choice(users)
        yield f"revert {name} {message}", 4
        if session.undone:
            yield f"unrevert {name}", 20
            return
        yield f"compact {name}", 6
        if not session.compacted:
            yield f"fill {name}", 3
            yield f"overflow {name}", 3
            yield f"fail {name}", 2
            if not session.summary:
                yield f"erase {name} {message}", 2
        if len(self._sessions) < MOST_SESSIONS:
            yield f"fork {name} {self._new_name()}", 6
            yield f"fork {name} {self._new_name()} {message}", 3
        if len(self._sessions) > 1:
            yield f"delete {name}", 1

    def _new_name(self) -> str:
        return next(name for name in self._names if name not in self._sessions)
