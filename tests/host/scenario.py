"""A world with the real host in it, and the one rule that is checked after every request.

A `World` is a home with OpenCode, the product and the recording provider in it. Its methods are the
steps of the scenarios. It keeps a model of what each session's head must show, so a case states no
expectation: after every step that made the host ask the model, the world checks each request:

* its head is exactly what the memory was when the session's epoch began, and nothing else;
* it extends an earlier request of this session, or of the one it was forked from, byte for byte,
  unless a change was due exactly here: the history begins at another place than before, as after a
  compaction, or the head is rendered anew from a memory that has changed;
* title and summary requests carry no snapshot.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


Variant = tuple[Path, str, str]
"""What the host writes ahead of a history, and in which form, depends on these of a session."""


@dataclass(frozen=True)
class Given:
    """What a session was given while its history began with this summary, or with none."""

    summary: str
    memory: Memory | None


@dataclass(eq=False)
class Session:
    """One session of the host, and what the next request of it has to look like."""

    id: str
    directory: Path
    """Where it is continued from."""
    provider: str
    made_in: Path
    """Its project, and the host's word for it, wherever it is continued from."""
    agent: str = "build"
    policy: str = "inject"
    """What the settings said of subagents when it began, if it is one."""
    memory: Memory | None = None
    """What the newest head shows. None: there is no head."""
    summary: str = ""
    """What the newest history begins with."""
    trail: list[tuple[Variant, Request]] = field(default_factory=list)
    """The main requests; a fork begins with its parent's."""
    bases: list[tuple[Variant, Request]] = field(default_factory=list)
    """The next request has to extend one of its variant; where there is none, nothing is left."""
    changes: list[Difference] = field(default_factory=list)
    """Each place where the prefix changed, as it had to."""
    compacted: bool = False
    """Whether the next request has to begin with another summary."""
    is_cut: bool = False
    """Whether the history has ended before what a request was sent for, and has not gone on yet."""
    gone: tuple[str, ...] = ()
    """What the user said in messages that went out of the history."""
    undone: dict[str, Any] = field(default_factory=dict)
    """What is to be as it was if a revert is taken back."""
    frozen: Given | None = None
    """What the sidecar has."""
    held: dict[int | str, Given] = field(default_factory=dict)
    """What each host has, by its process."""
    known: set[str] = field(default_factory=set)
    """The beginnings for which the sidecar had something once."""
    family: list[Session] = field(default_factory=list)
    """It and its forks, their forks, and what it is a fork of: their histories begin alike."""
    looked_at: int = 0

    def __post_init__(self) -> None:
        self.family.append(self)

    @property
    def sent(self) -> list[Request]:
        """The main requests alone."""
        return [request for _, request in self.trail]

    @property
    def head(self) -> bytes | None:
        """The injected bytes in the newest request."""
        return self.sent[-1].head

    @property
    def variant(self) -> Variant:
        return self.made_in, self.provider, self.agent

    def forget(self) -> None:
        """The sidecar has nothing for it any more."""
        self.frozen = None

    def cut(self, message: int, gone: list[dict[str, Any]]) -> None:
        """These messages are gone from the history, of which this is the first."""
        self.bases = list(self.trail) if message else []
        self.is_cut = True
        parts = [part for each in gone if each["info"]["role"] == "user" for part in each["parts"]]
        self.gone += tuple(part["text"] for part in parts if part.get("text"))
        if message == 0:
            self.family, self.known = [self], set()


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
        self.places: list[Path] = []
        self._place_numbers = itertools.count()
        self.project = self.new_project()
        self.memory_answers = False
        """Whether a session that has no head can get one."""
        self.has_hung = False
        self.heads: dict[Memory, bytes] = {}
        self._run: str | None = None
        self._count = itertools.count(1)
        self._settings: dict[str, object] = {}

    def close(self) -> None:
        self._closing.close()

    # The host

    def start_host(self) -> None:
        self.host = opencode.OpenCode(self.home, self.project)
        self._closing.callback(self.host.end)
        self.hosts = [self.host]

    def use_host(self, number: int) -> None:
        """Go on with this one of several in the same home."""
        if number > len(self.hosts):
            first = self.hosts
            self.start_host()
            self.hosts = [*first, self.host]
        self.host = self.hosts[number - 1]

    def tidy(self) -> None:
        """As at first: sidecar and one host run, and there are no blocks and no settings."""
        for host in self.hosts[1:]:
            host.end()
        self.host = self.hosts[0]
        if self.has_hung:
            # The plugin asks none for some seconds after one that did not answer in time.
            self.kill_host()
            self.has_hung = False
        if self.host.alive:
            self.hosts = [self.host]
        else:
            self.start_host()
        if not self.memory_answers:
            self.start_sidecar()
        for place in (None, *self.places):
            for block in self._blocks_folder(place).glob("*.md"):
                block.unlink()
        self.choose()

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
        self.has_hung = True
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
            for project in self.places
        }

    def _blocks_folder(self, directory: Path | None) -> Path:
        return directory / ".opencode/memory" if directory else self.home.config / "memory"

    # Sessions

    def new_project(self) -> Path:
        directory = self._new_place()
        self.home.make_project(directory)
        return directory

    def new_worktree(self, project: Path) -> Path:
        directory = self._new_place()
        self.home.make_worktree(project, directory)
        return directory

    def new_folder(self) -> Path:
        """A directory that is no repository."""
        directory = self._new_place()
        self.home.make_folder(directory)
        return directory

    def move(self, directory: Path) -> Path:
        """Give a place another path, which is returned."""
        moved = self._new_place()
        directory.rename(moved)
        return moved

    def _new_place(self) -> Path:
        self.places.append(self.path / f"project-{next(self._place_numbers)}")
        return self.places[-1]

    def session(
        self,
        directory: Path | None = None,
        provider: str = "stub",
        title: str = "T",
        parent: Session | None = None,
    ) -> Session:
        directory = directory or self.project
        made = self.host.create_session(directory, title, parent.id if parent else "")
        return Session(made, directory, provider, directory, policy=self._policy(parent))

    def prompt(self, session: Session, *answers: Answer | Refusal, text: str = "") -> None:
        """One turn of the agent: the model gives these answers, one to each request."""
        self.recorder.script(session.id, *answers)
        self._ask(session, text)
        if self._is_swallowed(session):
            assert self._look(session) == 0, "a prompt that only had a summary tried again was sent"
            self.recorder.unscript(session.id)
        else:
            self.check(session)

    def prompt_all(self, sessions: list[Session]) -> None:
        """One turn in each of these sessions, all at once."""
        with ThreadPoolExecutor(len(sessions)) as pool:
            list(pool.map(self._ask, sessions))
        for session in sessions:
            self.check(session)

    def _is_swallowed(self, session: Session) -> bool:
        """Whether the host has answered the newest prompt with a summary that had failed before."""
        *_, asked, answer = self._messages(session)
        is_prompt = all(part["type"] != "compaction" for part in asked["parts"])
        return bool(answer["info"].get("summary")) and is_prompt

    def _ask(self, session: Session, text: str = "") -> None:
        self.host.prompt(
            session.id, session.directory, text or self._text(), session.provider, session.agent
        )

    def delegate(self, session: Session, children: int = 1) -> list[Session]:
        """The agent starts so many subagents at once; returns their sessions."""
        known = {request.session for request in self.recorder.requests}
        task = Answer(
            "I ask a subagent.",
            tool="task",
            arguments={"description": "Look", "prompt": "Look.", "subagent_type": "general"},
            calls=children,
        )
        self.prompt(session, task, Answer("Done."))
        started = {request.session for request in self.recorder.requests} - known - {session.id}
        assert len(started) == children, f"the host started {len(started)} subagents"
        policy = self._policy(session)
        found = [
            Session(
                name, session.made_in, session.provider, session.made_in, "general", policy=policy
            )
            for name in sorted(started)
        ]
        for child in found:
            self.check(child)
        return found

    def choose(self, **settings: object) -> None:
        (self.home.config / "agent-memory.json").write_text(json.dumps(settings))
        self._settings = settings

    def _policy(self, parent: Session | None) -> str:
        return str(self._settings.get("subagents", "inject")) if parent else "inject"

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
        session = session or Session(newest, self.project, "stub", self.project)
        assert newest == session.id, "--continue went on with another session"
        self._run = f"run {newest} {len(session.sent)}"
        self.check(session)
        self._run = None
        return session

    def compact(self, session: Session) -> None:
        self.host.summarize(session.id, session.directory, session.provider)
        assert self._look(session) == 0, "a manual compaction made a main request"
        session.compacted = True

    def compact_in_vain(self, session: Session) -> None:
        """The model refuses to summarise; the host will try again with the next prompt."""
        refusal = Refusal(code="invalid_request_error", message="The model can't do this.")
        self.recorder.script(session.id, refusal, kind="compaction")
        self.host.summarize(session.id, session.directory, session.provider)
        assert self._look(session) == 0, "a manual compaction made a main request"
        assert not self.recorder.unused(session.id), "the host did not ask for a summary"

    def tell_compacted(self, session: Session) -> None:
        """The sidecar hears that this session was compacted, whether or not it was."""
        product.tell(self.home, "compacted", session.id)

    def fork(self, session: Session, before: int | None = None) -> Session:
        """A copy of the session, ahead of the message at this index."""
        gone = [] if before is None else self._messages(session)[before:]
        made = self.host.fork(session.id, session.directory, gone[0]["info"]["id"] if gone else "")
        copy = replace(
            session,
            id=made,
            trail=list(session.trail),
            bases=list(session.bases),
            changes=[],
            compacted=session.compacted and before is None,
            undone={},
            frozen=None,
            held={},
            known=set(),
            looked_at=0,
            # Without a first message in common, nothing says that they belong together.
            family=session.family if session.bases and before != 0 else [],
        )
        if before:
            copy.cut(before, gone)
        elif before == 0:
            copy.bases = []
        return copy

    def revert(self, session: Session, to: int) -> None:
        """Undo the message at this index and all behind it."""
        gone = self._messages(session)[to:]
        self.host.revert(session.id, session.directory, gone[0]["info"]["id"])
        names = ("bases", "is_cut", "gone", "compacted", "family", "known")
        session.undone = session.undone or {name: getattr(session, name) for name in names}
        session.cut(to, gone)
        session.compacted = False

    def unrevert(self, session: Session) -> None:
        self.host.unrevert(session.id, session.directory)
        for name, value in session.undone.items():
            setattr(session, name, value)
        session.undone = {}

    def delete_message(self, session: Session, index: int) -> None:
        message = self._messages(session)[index]
        self.host.delete_message(session.id, session.directory, message["info"]["id"])
        session.cut(index, [message])

    def delete(self, session: Session) -> None:
        self.host.delete(session.id, session.directory)
        if self.memory_answers:
            until(lambda: not self._snapshot(session).exists(), "the snapshot to go")
            session.forget()

    def clear(self, session: Session) -> None:
        product.must(self.home, "clear", session.id)
        session.forget()

    def expire(self, session: Session) -> None:
        """The sidecar finds the snapshot unused for a month."""
        self.kill_sidecar()
        os.utime(self._snapshot(session), (0, 0))
        self.start_sidecar()
        product.must(self.home, "purge")
        assert not self._snapshot(session).exists()
        session.forget()

    def _snapshot(self, session: Session) -> Path:
        return self.home.data / f"agent-memory/snapshots/{session.id}.xml"

    def _messages(self, session: Session) -> list[dict[str, Any]]:
        return self.host.messages(session.id, session.directory)

    def show(self, session: Session) -> bytes:
        return product.must(self.home, "show", session.id)

    def _text(self) -> str:
        return f"Prompt number {next(self._count)}."

    # The rule

    @property
    def _asking(self) -> int | str:
        """The process that asks: the host that serves, or one `opencode run` with no memory yet."""
        return self._run or self.host.pid

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
        return [request.kind for request in arrived].count("main")

    def _check_main(self, session: Session, request: Request) -> None:
        shown = self._check_head(session, request)
        moved = request.summary != session.summary
        assert moved or not session.compacted, "no change where one was due"
        bases = [base for variant, base in session.bases if variant == session.variant]
        if session.is_cut:  # of all that was ever sent, what had this beginning
            begins = request.summary, request.head
            bases = [base for base in bases if (base.summary, base.head) == begins]
        differences = [first_difference(base.body, request.body) for base in bases]
        if bases and (moved or shown != session.memory):
            if difference := differences[-1]:
                session.changes.append(difference)
                assert difference.place.startswith("message"), str(difference)
        else:
            for difference in filter(None, differences):
                is_end = session.is_cut and is_newest(difference, request)
                was_due = is_end or is_of(difference, session.gone) or is_reminder(difference)
                assert was_due, str(difference)
        self._note(session, request, shown)
        others = [] if moved else [base for base in session.bases if base[0] != session.variant]
        session.bases = [*others, session.trail[-1]]

    def _note(self, session: Session, request: Request, shown: Memory | None) -> None:
        session.trail.append((session.variant, request))
        session.memory, session.summary = shown, request.summary
        session.compacted = session.is_cut = False
        session.undone = {}
        session.held[self._asking] = Given(request.summary, shown)
        if self.memory_answers:
            session.frozen = session.held[self._asking]
            session.known.add(request.summary)

    def _check_head(self, session: Session, request: Request) -> Memory | None:
        """See that it shows what it has to show, and return that."""
        due = self._due(session, request)
        memory = next((m for m in due if m and request.head == self.heads.get(m)), due[-1])
        if memory is None:
            assert request.head is None, f"a snapshot from nowhere: {request.head!r}"
            return None
        assert request.head, f"no snapshot leads {request.json['messages'][:3]}; {self.home.path}"
        assert request.body.count(MARKER.encode()) == 1, "more than one snapshot"
        for scope, front_matter, value in memory:
            assert value.encode() in request.head, f"the head lacks a {scope} block: {front_matter}"
        # Equal memories give equal bytes in every session, epoch and directory; others never do.
        known = self.heads.setdefault(memory, request.head)
        assert request.head == known, f"other bytes for the same memory: {known!r} {request.head!r}"
        assert list(self.heads.values()).count(known) == 1, "two memories give the same bytes"
        return memory

    def _due(self, session: Session, request: Request) -> list[Memory | None]:
        """What the head may show."""
        frozen, held = session.frozen, session.held.get(self._asking)
        if not self.memory_answers:
            return [held.memory if held else None]
        if frozen and frozen.summary == request.summary:
            return [frozen.memory]
        # The host went on with the bytes that it had while the sidecar was away.
        if frozen and held and held.memory and held == Given(request.summary, frozen.memory):
            return [held.memory]
        if request.summary not in session.known:
            given = [relative.frozen for relative in session.family if relative.frozen]
            theirs = [each.memory for each in given if each.summary == request.summary]
            if theirs:
                return theirs
        return [_as_given(request.observed[session.made_in], session.policy)]


def is_newest(difference: Difference, request: Request) -> bool:
    """Whether it is in this request's newest message."""
    newest = request.pieces[-1].place.partition(",")[0]
    return difference.place.partition(",")[0] == newest


def is_of(difference: Difference, texts: tuple[str, ...]) -> bool:
    """Whether what stood there was one of these."""
    return any(text in difference.before for text in texts)


def is_reminder(difference: Difference) -> bool:
    """What the host itself says of the agent's mode, in the newest of the user's messages only."""
    return '"text":"<system-reminder>' in difference.before


def _as_given(memory: Memory, policy: str) -> Memory | None:
    if policy == "skip":
        return None
    return frozenset(block for block in memory if policy == "inject" or block[0] == "project")


def _fields(file: Path) -> tuple[str, str]:
    _, front_matter, value = file.read_text().split("---\n", 2)
    return str(sorted(yaml.safe_load(front_matter).items())), value.strip()
