"""The scenario runner: a case is a script of steps, and one rule is checked after every request.

A `World` is a home with OpenCode, the product and the recording provider in it. Its methods are the
steps. The world keeps a model of what each session's head must show, so a case states no
expectation: after every step that made the host ask the model, the world checks each request:

* its head is exactly what the memory was when the session's epoch began, and nothing else;
* it starts with every byte of the request before it, unless this is a place where a change is due:
  right after a compaction, or where the head is rendered anew from a memory that has changed. There
  the change has to come, once;
* title and summary requests carry no snapshot.

To add a case, write its steps.
"""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sidecar.verify.prefix import Difference, first_difference
from sidecar.verify.recorder import MARKER, Answer, Recorder, Refusal, Request

from ..process import until
from . import opencode, product

if TYPE_CHECKING:
    from collections.abc import Iterator

Memory = frozenset[tuple[str, str, str]]
"""Of each block its scope, its front matter and its value."""

OVER_THE_LIMIT = Answer("That was long.", tokens=opencode.CONTEXT_LIMIT)
"""After this answer the host compacts by itself and goes on."""


@dataclass(eq=False)
class Session:
    """One session of the host, and what the next request of it has to look like."""

    id: str
    directory: Path
    provider: str
    memory: Memory | None = None
    """What the head shows. None: there is no head."""
    sent: list[Request] = field(default_factory=list)
    """The main requests; a fork begins with its parent's."""
    bases: list[Request] = field(default_factory=list)
    """The next request has to extend one of these; empty where nothing of them can be left."""
    changes: list[Difference] = field(default_factory=list)
    """Each place where the prefix changed, as it had to."""
    compacted: bool = False
    renewed: bool = False
    looked_at: int = 0

    @property
    def head(self) -> bytes | None:
        """The injected bytes in the newest request."""
        return self.sent[-1].head


class World:
    """Host, sidecar, provider and a project, all in one directory."""

    def __init__(self, path: Path) -> None:
        # What was made last ends first, and all of it ends, whatever goes wrong on the way.
        self._closing = ExitStack()
        # A socket's path has room for about a hundred bytes, and pytest's directories are deep.
        runtime = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="ocm-"))
        self.path = path
        self.recorder = Recorder(self._memories)
        self._closing.callback(self.recorder.close)
        self.home = opencode.Home(path / "home", Path(runtime), self.recorder)
        self._closing.callback(product.end_strays, self.home)
        self.project = self.new_project()
        self.memory_answers = False
        """Whether a session that has no head can get one."""
        self.heads: dict[Memory, bytes] = {}
        self._count = itertools.count(1)

    def close(self) -> None:
        self._closing.close()

    # The host

    def start_host(self) -> None:
        self.host = opencode.OpenCode(self.home, self.project)
        self._closing.callback(self.host.end)

    def kill_host(self) -> None:
        self.host.kill()

    # The sidecar

    def start_sidecar(self) -> None:
        self.sidecar = product.serve(self.home)
        self._closing.callback(self.sidecar.end)
        self.memory_answers = True

    def kill_sidecar(self) -> None:
        self.sidecar.kill()
        self.memory_answers = False

    def pause_sidecar(self) -> None:
        self.sidecar.pause()
        self.memory_answers = False

    def resume_sidecar(self) -> None:
        self.sidecar.resume()
        self.memory_answers = True

    def replace_sidecar(self, reply: bytes) -> None:
        """From now on whoever asks for memory gets these raw bytes."""
        self.kill_sidecar()
        impostor = product.Impostor(self.home, reply)
        self._closing.callback(impostor.close)

    # Memory blocks

    def write_block(self, label: str, value: str, directory: Path | None = None) -> None:
        """Write a project block of this directory; without one, a global block."""
        folder = self._blocks_folder(directory)
        folder.mkdir(parents=True, exist_ok=True)
        front = f"label: {label}\ndescription: About {label}.\nlimit: 5000\nread_only: false"
        (folder / f"{label}.md").write_text(f"---\n{front}\n---\n{value}\n")

    def delete_block(self, label: str, directory: Path | None = None) -> None:
        (self._blocks_folder(directory) / f"{label}.md").unlink()

    def _memories(self) -> dict[Path, Memory]:
        """What memory is right now, for a session in each of the projects."""
        return {
            project: frozenset(
                (scope, *_fields(file))
                for scope, place in (("global", None), ("project", project))
                for file in self._blocks_folder(place).glob("*.md")
            )
            for project in self._projects()
        }

    def _blocks_folder(self, directory: Path | None) -> Path:
        return directory / ".opencode/memory" if directory else self.home.config / "memory"

    # Sessions

    def new_project(self) -> Path:
        directory = self.path / f"project-{len(self._projects())}"
        self.home.make_project(directory)
        return directory

    def _projects(self) -> list[Path]:
        return list(self.path.glob("project-*"))

    def session(
        self, directory: Path | None = None, provider: str = "stub", title: str = "T"
    ) -> Session:
        directory = directory or self.project
        return Session(self.host.create_session(directory, title), directory, provider)

    def prompt(self, session: Session, *answers: Answer | Refusal, text: str = "") -> None:
        """One turn of the agent: the model gives these answers, one to each request."""
        self.recorder.script(session.id, *answers)
        self.host.prompt(session.id, session.directory, text or self._text(), session.provider)
        self.check(session)

    @contextmanager
    def unanswered(self, session: Session) -> Iterator[None]:
        """While inside, the host waits for the model's answer to a prompt."""
        before = len(self.recorder.of(session.id))
        self.recorder.script(session.id, Answer(held=True))
        self.host.prompt_async(session.id, session.directory, self._text(), session.provider)
        until(lambda: len(self.recorder.of(session.id)) > before, "the prompt to reach the model")
        self.check(session)
        yield
        self.recorder.release()

    def run(self, session: Session | None = None) -> Session:
        """`opencode run --continue`: the newest session of the project, which may be the first."""
        opencode.run(self.home, self.project, "run", "--continue", self._text())
        newest = next(r for r in reversed(self.recorder.requests) if r.kind == "main").session
        session = session or Session(newest, self.project, "stub")
        assert newest == session.id, "--continue went on with another session"
        self.check(session)
        return session

    def compact(self, session: Session) -> None:
        self.host.summarize(session.id, session.directory, session.provider)
        assert self._look(session) == 0, "a manual compaction made a main request"
        assert session.compacted, "the host did not ask for a summary"

    def fork(self, session: Session, before: int | None = None) -> Session:
        """A copy of the session, ahead of the message at this index."""
        messages = self.host.messages(session.id, session.directory)
        cut = "" if before is None else messages[before]["info"]["id"]
        copy = self.host.fork(session.id, session.directory, cut)
        bases = [] if before == 0 else list(session.sent)
        return Session(
            copy, session.directory, session.provider, session.memory, list(session.sent), bases
        )

    def revert(self, session: Session, to: int) -> None:
        """Undo the message at this index and all behind it."""
        messages = self.host.messages(session.id, session.directory)
        self.host.revert(session.id, session.directory, messages[to]["info"]["id"])
        session.bases = list(session.sent) if to else []

    def unrevert(self, session: Session) -> None:
        self.host.unrevert(session.id, session.directory)
        session.bases = session.sent[-1:]

    def clear(self, session: Session) -> None:
        product.must(self.home, "clear", session.id)
        session.renewed = True

    def show(self, session: Session) -> bytes:
        return product.must(self.home, "show", session.id)

    def _text(self) -> str:
        return f"Prompt number {next(self._count)}."

    # The rule

    def check(self, session: Session) -> None:
        """Check what has arrived since the last check; something must have."""
        assert self._look(session), f"no request reached the model; logs: {self.home.path}"
        left = self.recorder.unused(session.id)
        assert not left, f"the host did not ask for these answers: {left}"

    def _look(self, session: Session) -> int:
        arrived = self.recorder.of(session.id)[session.looked_at :]
        session.looked_at += len(arrived)
        for request in arrived:
            if request.kind == "main":
                self._check_main(session, request)
            else:
                assert MARKER.encode() not in request.body, (
                    f"a snapshot in a {request.kind} request"
                )
                session.compacted |= request.kind == "compaction"
        return [request.kind for request in arrived].count("main")

    def _check_main(self, session: Session, request: Request) -> None:
        shown = session.memory
        self._check_head(session, request)
        due = session.compacted or session.memory != shown
        differences = [first_difference(base.body, request.body) for base in session.bases]
        if session.bases and due:
            assert None not in differences, "no change where one was due"
            session.changes.append(differences[-1])
            assert differences[-1].place.startswith("message"), str(differences[-1])
        elif session.bases:
            assert None in differences, str(differences[-1])
        session.sent.append(request)
        session.bases = [request]
        session.compacted = session.renewed = False

    def _check_head(self, session: Session, request: Request) -> None:
        """Settle which memory the head has to show, and see that it shows that."""
        now = request.observed[session.directory]
        if not session.sent or session.compacted or session.renewed:
            session.memory = now if self.memory_answers else None
        elif session.memory is None and request.head and self.memory_answers:
            session.memory = now  # it joins a session that began without
        if session.memory is None:
            assert request.head is None, f"a snapshot from nowhere: {request.head!r}"
            return
        assert request.head, f"no snapshot leads {request.json['messages'][:3]}; {self.home.path}"
        assert request.body.count(MARKER.encode()) == 1, "more than one snapshot"
        for scope, front_matter, value in session.memory:
            assert value.encode() in request.head, f"the head lacks a {scope} block: {front_matter}"
        # Equal memories give equal bytes in every session, epoch and directory; others never do.
        known = self.heads.setdefault(session.memory, request.head)
        assert request.head == known, f"other bytes for the same memory: {known!r} {request.head!r}"
        assert list(self.heads.values()).count(known) == 1, "two memories give the same bytes"


def _fields(file: Path) -> tuple[str, str]:
    _, front_matter, value = file.read_text().split("---\n", 2)
    return str(sorted(yaml.safe_load(front_matter).items())), value.strip()
