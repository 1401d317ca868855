"""The steps that a scenario is written in: `prompt a; edit; fork a b; prompt b`.

A step is a word and its arguments, and a script is a line of steps. A session has a letter, and
begins where it is first named. A place is a directory by what it is: `project`, where sessions
begin, or `elsewhere`, `worktree` and `plain`, which are made where they are first named.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.verify.recorder import Answer, Refusal

from .scenario import OVER_THE_LIMIT

if TYPE_CHECKING:
    from .scenario import Session, World

LOOK = Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"})
DONE = Answer("Done.")


class Script:
    """Runs one script in a world. Its public methods are the steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sessions: dict[str, Session] = {}
        self._places = {"project": world.project}
        self._values = 0

    @property
    def sessions(self) -> dict[str, Session]:
        return self._sessions

    def run(self, script: str) -> None:
        for step in script.split(";"):
            self.take(step.strip())

    def take(self, step: str) -> None:
        word, *arguments = step.split()
        method = STEPS[word]
        try:
            method(self, *arguments)
        except AssertionError as error:
            error.add_note(f"at the step {step!r}")
            raise

    # The agent's turns

    def prompt(self, *names: str) -> None:
        """One turn in this session; of several, in all of them at once."""
        sessions = [self._session(name) for name in names]
        if len(sessions) == 1:
            self._world.prompt(sessions[0])
        else:
            self._world.prompt_all(sessions)

    def tools(self, name: str) -> None:
        """A turn in which the agent calls a tool twice."""
        self._world.prompt(self._session(name), LOOK, LOOK, DONE)

    def crowd(self, count: str) -> None:
        """So many new sessions, with two turns each, all at once."""
        sessions = [self._world.session(self._world.project) for _ in range(int(count))]
        for _ in range(2):
            self._world.prompt_all(sessions)

    def delegate(self, name: str, *children: str) -> None:
        """The agent starts a subagent for each of these letters, all at once."""
        session = self._session(name)
        started = self._world.delegate(session, len(children))
        self._sessions |= dict(zip(children, started, strict=True))

    def child(self, parent: str, name: str) -> None:
        """A subagent's session that has not been prompted yet."""
        session = self._session(parent)
        self._sessions[name] = self._world.session(session.directory, parent=session)

    # Memory

    def edit(self, place: str = "everywhere") -> None:
        """Give the global block, or that of this place, a value that it never had."""
        self._values += 1
        directory = None if place == "everywhere" else self._place(place)
        self._world.write_block("human", f"Prefers answer {self._values}.", directory)

    def restore(self) -> None:
        """Write what the global block already has."""
        self._world.write_block("human", f"Prefers answer {self._values}.")

    def add(self, label: str) -> None:
        self._values += 1
        self._world.write_block(label, f"Note {self._values}.")

    def remove(self, label: str) -> None:
        self._world.delete_block(label)

    def subagents(self, policy: str) -> None:
        self._world.choose(subagents=policy)

    def clear(self, name: str) -> None:
        self._world.clear(self._session(name))

    def expire(self, name: str) -> None:
        self._world.expire(self._session(name))

    # The history

    def fork(self, name: str, copy: str, before: str = "") -> None:
        """A copy, ahead of this message."""
        session = self._session(name)
        self._sessions[copy] = self._world.fork(session, int(before) if before else None)

    def compact(self, name: str) -> None:
        self._world.compact(self._session(name))

    def fill(self, name: str) -> None:
        """A turn that fills the context: the host compacts by itself, and goes on."""
        session = self._session(name)
        session.compacted = False
        self._world.prompt(session, OVER_THE_LIMIT, Answer("On I go."))

    def overflow(self, name: str) -> None:
        """The provider refuses the prompt: the host compacts, and sends it again."""
        self._world.prompt(self._session(name), Refusal(), Answer("Now it fits."))

    def fail(self, name: str) -> None:
        """A compaction fails; the host tries again with the next prompt, which that swallows."""
        self._world.compact_in_vain(self._session(name))

    def hear(self, name: str) -> None:
        """The sidecar is told that this session was compacted, whether or not it was."""
        self._world.tell_compacted(self._session(name))

    def revert(self, name: str, to: str) -> None:
        self._world.revert(self._session(name), int(to))

    def unrevert(self, name: str) -> None:
        self._world.unrevert(self._session(name))

    def erase(self, name: str, message: str) -> None:
        """Delete one message."""
        self._world.delete_message(self._session(name), int(message))

    def delete(self, name: str) -> None:
        self._world.delete(self._sessions.pop(name))

    # Where and how a session goes on

    def model(self, name: str, model: str) -> None:
        self._session(name).provider = model

    def agent(self, name: str, agent: str) -> None:
        self._session(name).agent = agent

    def go(self, name: str, place: str) -> None:
        """The session goes on in this place, or begins there."""
        if name in self._sessions:
            self._sessions[name].directory = self._place(place)
        else:
            self._sessions[name] = self._world.session(self._place(place))

    def move(self, place: str) -> None:
        """The project has another path, and its sessions go on there."""
        before = self._place(place)
        self._places[place] = after = self._world.move(before)
        for session in self._sessions.values():
            if session.directory == before:
                session.directory = after

    # Processes

    def kill(self, *victims: str) -> None:
        for victim in victims:
            getattr(self._world, f"kill_{victim}")()

    def start(self, *dead: str) -> None:
        for each in dead:
            getattr(self._world, f"start_{each}")()

    def interrupt(self, name: str) -> None:
        """The host is killed while it waits for the model's answer."""
        with self._world.unanswered(self._session(name)):
            self._world.kill_host()

    def pause(self) -> None:
        """The sidecar hangs."""
        self._world.pause_sidecar()

    def resume(self) -> None:
        self._world.resume_sidecar()

    def host(self, number: str) -> None:
        """What follows goes through this OpenCode process of two."""
        self._world.use_host(int(number))

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._world.session(self._world.project)
        return self._sessions[name]

    def _place(self, name: str) -> Path:
        if name not in self._places:
            make = {
                "elsewhere": self._world.new_project,
                "worktree": lambda: self._world.new_worktree(self._world.project),
                "plain": self._world.new_folder,
            }[name]
            self._places[name] = make()
        return self._places[name]


STEPS = {
    name: method
    for name, method in inspect.getmembers(Script, inspect.isfunction)
    if not name.startswith("_") and name not in ("run", "take")
}
"""The words of the scripts."""
