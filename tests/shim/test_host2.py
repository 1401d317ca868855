"""OpenCode 2, from its documents alone: `host2.mjs` stands in for it, the sidecar is the real one.

After every request one rule is checked: the messages extend those of an earlier request of the
session, unless the history's head has moved; then they begin with the memory of that moment.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from snapshots.ledger import read_steps
from snapshots.marker import MARKER

from ..process import Child, until, within
from .conftest import SHIM, Driver

HOST = Path(__file__).with_name("host2.mjs")
SERVE = [sys.executable, "-P", "-m", "sidecar", "serve"]
KINDS = ["context", "compaction", "generate"]


class World2:
    """The stand-in with the plugin in it, the sidecar, and what each session has to begin with."""

    def __init__(self, runtime, env, home):
        self.home = home
        self.env = {**env, "XDG_RUNTIME_DIR": str(home)}
        self.data = home / "data" / "opencode" / "agent-memory"
        self.closing = ExitStack()
        self.start_host = lambda: Driver(runtime, HOST, env, home / "work")
        self.host = self.start_host()
        self.closing.callback(self.host.end)
        self.sidecar = None
        self.sent: dict[str, list[list]] = {}
        self.heads: dict[str, str | None] = {}
        self.moved: set[str] = set()

    # Processes

    def start_sidecar(self):
        env = {name: value for name, value in self.env.items() if name != "BUN_BE_BUN"}
        self.sidecar = Child(SERVE, env, self.home, self.home / "sidecar.log")
        self.closing.callback(self.sidecar.end)
        endpoint = self.data / "endpoint.json"

        def published():
            return (
                endpoint.exists() and json.loads(endpoint.read_bytes())["pid"] == self.sidecar.pid
            )

        until(published, "the sidecar")

    def kill_sidecar(self):
        self.sidecar.kill()

    def load(self, location="work", query="", **given):
        directory = self.home / location
        directory.mkdir(exist_ok=True)
        url = SHIM.as_uri() + query
        return self.host.send(
            "setup", location=location, directory=str(directory), url=url, **given
        )

    # Memory

    def edit(self, value, scope="global", location="work"):
        config = self.home / "config" / "opencode"
        folder = config if scope == "global" else self.home / location / ".opencode"
        block = folder / "memory" / f"{scope}.md"
        block.parent.mkdir(parents=True, exist_ok=True)
        block.write_text(value)

    def choose(self, **settings):
        file = self.home / "config" / "opencode" / "agent-memory.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))

    # Sessions

    def create(self, location="work", **more):
        return self.host.send("create", location=location, **more)["session"]

    def prompt(self, session, text="Hello.", **more):
        return self._check(session, self.host.send("prompt", session=session, text=text, **more))

    def generate(self, session):
        """Its last message is not of the history."""
        (request,) = self.host.send("generate", session=session)["requests"]
        self._check(session, {"requests": [{**request, "messages": request["messages"][:-1]}]})

    def compact(self, session, **more):
        done = self.host.send("compact", session=session, **more)
        self._check(session, done)
        if not more.get("fails"):
            self.moved.add(session)
            self.sent[session] = []

    def overflow(self, session, failures=0):
        """A step is compacted and sent again."""
        done = self.host.send("overflow", session=session, text="Long.", failures=failures)
        self._check(session, done)
        self.moved.add(session)
        self.sent[session] = []
        return self._check(session, {"requests": done["again"]})

    def fork(self, session, **more):
        copy = self.host.send("fork", session=session, **more)["session"]
        self.sent[copy] = list(self.sent[session])
        self.heads[copy] = self.heads[session]
        return copy

    def revert(self, session, to):
        self.host.send("revert", session=session, to=to)

    def clear(self, session):
        self._command("clear", session)

    def expire(self, session):
        """The sidecar finds the snapshot unused for a month."""
        self.kill_sidecar()
        os.utime(self.snapshot(session), (0, 0))
        self.start_sidecar()
        self._command("purge")
        assert not self.snapshot(session).exists()

    def delete(self, session):
        """The host deletes it, and its snapshot goes."""
        self.host.send("remove", session=session)
        until(lambda: not self.snapshot(session).exists(), "the snapshot to go")

    def snapshot(self, session):
        return self.data / "snapshots" / f"{session}.xml"

    def _command(self, *arguments):
        env = {name: value for name, value in self.env.items() if name != "BUN_BE_BUN"}
        done = Child([*SERVE[:-1], *arguments], env, self.home, self.home / "command.log")
        until(lambda: not done.alive(), f"{arguments[0]} to end")
        assert done.returncode == 0, done.output()

    # What the host says of its requests

    def step(self, session, message, type="ended", **more):
        """A step of the agent ends, and what it cost is told."""
        said = {"sessionID": session, "assistantMessageID": message}
        model = {"providerID": "stub", "id": "big"}
        self.emit("session.step.started", **said, agent="build", model=model)
        self.emit(f"session.step.{type}", **said, finish="stop", cost=0.01, **more)

    def emit(self, type, **data):
        self.host.send("emit", type=type, data=data)

    def ledger(self, session, count):
        """Its rows, once there are so many."""

        def rows():
            return [
                step
                for step in read_steps(self.data / "usage.sqlite3")
                if step.session_id == session
            ]

        until(lambda: len(rows()) >= count, f"{count} steps in the ledger")
        return rows()

    def _check(self, session, done):
        for request in done["requests"]:
            # On the wire they have no ids, and a fork's are others.
            messages = [{**message, "id": ""} for message in request["messages"]]
            first = messages[0]["content"][0].get("text", "") if messages else ""
            head = first if first.startswith(MARKER) else None
            if session in self.heads and session not in self.moved:
                earlier = self.sent[session]
                assert any(messages[: len(base)] == base for base in earlier) or not earlier
                assert head == self.heads[session]
            self.heads[session] = head
            self.moved.discard(session)
            self.sent.setdefault(session, []).append(messages)
            assert json.dumps(messages).count(MARKER) == (head is not None)
            # A provider may refuse one that is empty.
            assert all(part.get("text") != "" for each in messages for part in each["content"])
        return head


@pytest.fixture
def empty_world(runtime, env, home):
    world = World2(runtime, env, home)
    yield world
    world.closing.close()


@pytest.fixture
def hurried_world(runtime, env, home):
    """The plugin's deadlines pass ten times as fast."""
    world = World2(runtime, {**env, "HURRY": "10"}, home)
    yield world
    world.closing.close()


@pytest.fixture
def world(empty_world):
    """The plugin is loaded, the sidecar runs, and there is one block."""
    empty_world.edit("Prefers short answers.")
    empty_world.start_sidecar()
    empty_world.load()
    return empty_world


def test_it_hooks_every_kind_of_request_but_the_title_and_brings_its_tools(empty_world):
    loaded = empty_world.load()

    assert loaded["id"] == "opencode-memory"
    assert loaded["hooks"] == KINDS
    assert "memory_set" in loaded["tools"]


def test_edits_move_nothing_and_reach_the_next_session(world):
    session = world.create()
    head = world.prompt(session, steps=3)
    assert "short answers" in head
    world.edit("Prefers long answers.")
    world.prompt(session)
    world.generate(session)
    world.compact(session, fails=True)
    world.prompt(session, steps=2)
    assert "long answers" in world.prompt(world.create())
    (title,) = world.host.send("title", session=session)["requests"]
    assert MARKER not in json.dumps(title)


def test_the_message_is_as_documented_and_no_part_of_the_history_is_touched(world):
    session = world.create()
    (request,) = world.host.send("prompt", session=session, text="Hello.")["requests"]
    ours, theirs = request["messages"]
    assert set(ours) == {"id", "role", "content"}
    assert [set(part) for part in ours["content"]] == [{"type", "text"}]
    assert theirs["content"] == [{"type": "text", "text": "Hello."}]


@pytest.mark.parametrize("events", [0, 1, 2], ids=["lost", "once", "doubled"])
@pytest.mark.parametrize("native", [False, True], ids=["checkpoint", "native"])
def test_a_compaction_brings_the_memory_of_then_once(world, events, native):
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    world.compact(session, events=events, native=native)
    assert "long answers" in world.prompt(session)
    world.edit("Prefers no answers.")
    world.host.send("compacted", session=session)  # late
    world.prompt(session)
    world.compact(session)
    world.compact(session)
    assert "no answers" in world.prompt(session)
    world.prompt(session)


def test_a_compaction_moves_no_byte_of_a_memory_that_did_not_change(world):
    session = world.create()
    head = world.prompt(session)
    world.compact(session)
    assert world.prompt(session) == head


def test_a_compaction_of_another_session_moves_nothing(world):
    session, other = world.create(), world.create()
    world.prompt(session)
    world.prompt(other)
    world.edit("Prefers long answers.")
    world.compact(other)
    world.prompt(session)
    assert "long answers" in world.prompt(other)


def test_a_compaction_while_the_sidecar_is_away_moves_the_head_once(world):
    session = world.create()
    head = world.prompt(session)
    world.edit("Prefers long answers.")
    world.kill_sidecar()
    world.compact(session)
    assert world.prompt(session) == head
    world.start_sidecar()
    assert world.prompt(session) == head
    world.prompt(session)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_step_that_is_compacted_and_sent_again_has_the_memory_of_then(world, failures):
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    assert "long answers" in world.overflow(session, failures)
    world.edit("Prefers no answers.")
    world.prompt(session)
    assert "no answers" in world.overflow(session, failures)
    assert "no answers" in world.overflow(session, failures)
    world.prompt(session)


def test_compactions_that_failed_move_nothing(world):
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    world.compact(session, fails=True)
    world.compact(session, fails=True)
    world.prompt(session)
    world.compact(session)
    assert "long answers" in world.prompt(session)


@pytest.mark.parametrize("announced", [True, False], ids=["by-event", "by-session"])
def test_forks_begin_with_their_parents_bytes(world, announced):
    parent = world.create()
    world.prompt(parent)
    world.prompt(parent)
    world.edit("Prefers long answers.")
    for fork in (
        world.fork(parent, announced=announced),
        world.fork(parent, through=2, announced=announced),
        world.fork(world.fork(parent, announced=announced), announced=announced),
    ):
        assert "short answers" in world.prompt(fork)
        world.prompt(fork)
    world.prompt(parent)
    assert "long answers" in world.prompt(world.create())


@pytest.mark.parametrize("native", [False, True], ids=["checkpoint", "native"])
def test_a_fork_after_a_compaction_begins_with_the_bytes_since_then(world, native):
    parent = world.create()
    world.prompt(parent)
    world.edit("Prefers long answers.")
    world.compact(parent, native=native)
    world.prompt(parent)
    world.edit("Prefers no answers.")
    assert "long answers" in world.prompt(world.fork(parent))


@pytest.mark.parametrize("way", ["clear", "expire", "delete"])
def test_a_fork_whose_parents_snapshot_is_gone_is_given_the_memory_of_now(world, way):
    parent = world.create()
    world.prompt(parent)
    world.edit("Prefers long answers.")
    fork = world.fork(parent)
    getattr(world, way)(parent)
    world.moved.add(fork)
    assert "long answers" in world.prompt(fork)
    world.prompt(fork)


def test_sessions_that_begin_with_the_same_words_are_no_forks(world):
    world.prompt(world.create())
    world.edit("Prefers long answers.")
    assert "long answers" in world.prompt(world.create())


@pytest.mark.parametrize("get", ["fails", "never", "no-fork"])
def test_a_host_that_says_nothing_of_a_session_costs_a_forks_bytes_and_no_more(empty_world, get):
    world = empty_world
    world.edit("Prefers short answers.")
    world.start_sidecar()
    world.load(get=get)
    parent = world.create()
    world.prompt(parent)
    world.edit("Prefers long answers.")
    fork = world.fork(parent, announced=False)
    world.moved.add(fork)
    assert "long answers" in world.prompt(fork)
    world.prompt(fork)
    assert "short answers" in world.prompt(world.fork(parent))


@pytest.mark.parametrize("announced", [True, False], ids=["by-event", "by-session"])
@pytest.mark.parametrize(
    ("policy", "given"),
    [("inject", {"short", "Python"}), ("project-only", {"Python"}), ("skip", set())],
)
def test_a_subagent_is_given_what_the_settings_say(world, policy, given, announced):
    world.choose(subagents=policy)
    world.edit("Written in Python.", scope="project")
    parent = world.create()
    world.prompt(parent)
    child = world.create(parent=parent, announced=announced)
    head = world.prompt(child) or ""
    assert {word for word in ("short", "Python") if word in head} == given
    world.choose(subagents="inject")
    world.prompt(child)
    world.prompt(parent)


def test_the_host_is_asked_of_a_session_once(world):
    session = world.create(announced=False)
    world.prompt(session, steps=2)
    assert world.host.send("asked", location="work") == {"asked": [session]}


def test_twelve_subagents_at_once_begin_with_the_same_bytes(world):
    parent = world.create()
    world.prompt(parent)
    children = [world.create(parent=parent) for _ in range(12)]
    turns = world.host.send("together", sessions=children)["turns"]
    assert len({json.dumps(turn[0]["messages"][0]) for turn in turns}) == 1


def test_fifty_sessions_at_once_keep_each_its_own(world):
    sessions = [world.create() for _ in range(50)]
    for value in ("Prefers long answers.", "Prefers no answers."):
        turns = world.host.send("together", sessions=sessions)["turns"]
        for session, requests in zip(sessions, turns, strict=True):
            world._check(session, {"requests": requests})
        world.edit(value)


def test_a_revert_moves_nothing_and_one_past_a_compaction_is_a_move_of_the_head(world):
    session = world.create()
    for _ in range(3):
        world.prompt(session)
    world.edit("Prefers long answers.")
    world.revert(session, 2)
    world.prompt(session)
    world.compact(session)
    world.prompt(session)
    world.revert(session, 0)
    world.moved.add(session)
    world.prompt(session)
    world.prompt(session)


def test_other_words_at_the_beginning_move_nothing(world):
    session = world.create()
    world.generate(session)
    world.edit("Prefers long answers.")
    head = world.prompt(session)
    world.revert(session, 0)
    world.sent[session] = []
    assert world.prompt(session, text="Something else.") == head
    assert "short answers" in head


def test_what_was_undone_and_is_done_again_and_a_deleted_message_move_no_head(world):
    session = world.create()
    for _ in range(3):
        world.prompt(session)
    world.edit("Prefers long answers.")
    world.revert(session, 2)
    world.host.send("unrevert", session=session)
    head = world.prompt(session)
    world.host.send("erase", session=session, row=2)
    world.sent[session] = []
    assert world.prompt(session) == head
    world.prompt(session)


def test_another_agent_and_model_move_nothing(world):
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    world.host.send("choose", session=session, agent="plan", model={"id": "other"})
    world.prompt(session)


def test_a_reload_and_restarts_move_nothing(world):
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    assert world.host.send("unload", location="work") == {"listeners": 0}
    world.load(query="?again")
    world.prompt(session)
    world.kill_sidecar()
    world.prompt(session)
    world.start_sidecar()
    world.prompt(session)


def test_a_subagent_keeps_its_policy_when_the_host_and_the_settings_have_changed(world):
    world.choose(subagents="skip")
    parent = world.create()
    world.prompt(parent)
    child = world.create(parent=parent, announced=False)
    assert world.prompt(child) is None
    world.choose(subagents="inject")
    world.host.send("unload", location="work")
    world.load(query="?again")
    world.kill_sidecar()
    world.start_sidecar()
    assert world.prompt(child) is None
    world.compact(child)
    assert world.prompt(child) is None


def test_a_sidecar_that_comes_and_goes_moves_nothing(world):
    session = world.create()
    world.prompt(session)
    for number in range(3):
        world.edit(f"Prefers {number} answers.")
        world.kill_sidecar()
        world.prompt(session)
        world.start_sidecar()
        world.prompt(session)


def test_two_processes_of_the_host_on_one_session_move_nothing(world):
    session = world.create()
    world.prompt(session)
    first, second = world.host, world.start_host()
    world.closing.callback(second.end)
    world.host = second
    world.load()
    for value in ("Prefers long answers.", "Prefers no answers."):
        world.edit(value)
        for host, other in ((second, first), (first, second)):
            host.send("adopt", **other.send("stored", session=session))
            world.host = host
            world.prompt(session)


def test_two_directories_in_one_process_have_each_its_project(world):
    world.edit("Written in Rust.", scope="project", location="elsewhere")
    world.load("elsewhere")
    here, there = world.create("work"), world.create("elsewhere")
    assert "Rust" not in world.prompt(here)
    assert "Rust" in world.prompt(there)
    world.prompt(here)


def test_a_session_that_goes_on_in_another_directory_keeps_its_bytes(world):
    world.edit("Written in Python.", scope="project")
    session = world.create()
    world.prompt(session)
    world.load("elsewhere")
    world.host.send("choose", session=session, location="elsewhere")
    world.prompt(session)


def test_a_sidecar_that_starts_late_costs_one_miss(empty_world):
    world = empty_world
    world.edit("Prefers short answers.")
    world.load()
    session = world.create()
    assert world.prompt(session) is None
    world.prompt(session)
    world.start_sidecar()
    world.moved.add(session)
    assert world.prompt(session)
    world.prompt(session)


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(
    "other", ["prepends", "appends", "prunes", "inserts", "replaces", "freezes"]
)
def test_other_plugins_move_nothing_in_either_order(empty_world, other, order):
    world = empty_world
    world.edit("Prefers short answers.")
    world.start_sidecar()
    world.load(**{order: [other]})
    session = world.create()
    sent = []
    for value in ("Prefers long answers.", "Prefers no answers."):
        sent += world.host.send("prompt", session=session, text="Hello.", steps=2)["requests"]
        world.edit(value)
    bodies = [request["messages"] for request in sent]
    for shorter, longer in itertools.pairwise(bodies):
        assert longer[: len(shorter)] == shorter
    assert all("short answers" in json.dumps(body) for body in bodies)


def test_a_second_copy_inserts_nothing_more(world):
    assert world.load(query="?copy", beside=True)["copies"] == 2
    session = world.create()
    for value in ("Prefers long answers.", "Prefers no answers."):
        world.prompt(session, steps=2)
        world.generate(session)
        world.edit(value)
    world.compact(session)
    assert "no answers" in world.prompt(session)
    world.prompt(session)


@pytest.mark.parametrize("placement", ["message", "part"])
def test_memory_that_the_user_pastes_into_a_prompt_moves_no_head(world, placement):
    world.choose(placement=placement)
    session = world.create()
    for text in ("Hello.", f"{MARKER}What is this?", "On."):
        done = world.host.send("prompt", session=session, text=text)
        first, *_ = done["requests"][0]["messages"][0]["content"]
        assert "short answers" in first["text"]


def test_a_second_copy_finds_our_part_in_the_user_s_message(world):
    world.choose(placement="part")
    world.load(query="?copy", beside=True)
    (request,) = world.host.send("prompt", session=world.create(), text="Hello.")["requests"]
    assert json.dumps(request).count(MARKER) == 1


def test_a_second_copy_finds_our_message_where_another_plugin_changed_it(empty_world):
    world = empty_world
    world.edit("Prefers short answers.")
    world.start_sidecar()
    world.load(after=["prepends"])
    world.load(query="?copy", beside=True)
    (request,) = world.host.send("prompt", session=world.create(), text="Hello.")["requests"]
    assert "Note. " in request["messages"][0]["content"][0]["text"]
    assert json.dumps(request).count(MARKER) == 1


def test_a_deleted_session_s_snapshot_goes(world):
    session = world.create()
    world.prompt(session)
    assert world.snapshot(session).exists()
    world.delete(session)


@pytest.mark.parametrize("events", ["throws", "none"])
def test_a_stream_of_events_that_ends_is_opened_again(empty_world, events):
    world = empty_world
    world.edit("Prefers short answers.")
    world.start_sidecar()
    world.load(events=events)
    until(
        lambda: world.host.send("listeners", location="work") == {"listeners": 1},
        "the plugin to listen again",
    )
    session = world.create()
    world.prompt(session)
    world.delete(session)


@pytest.mark.parametrize("events", ["throws", "none"])
def test_a_host_without_events_has_its_memory_all_the_same(empty_world, events):
    world = empty_world
    world.edit("Prefers short answers.")
    world.start_sidecar()
    world.load(events=events, later=events)
    session = world.create()
    world.prompt(session)
    world.edit("Prefers long answers.")
    world.compact(session)
    assert "long answers" in world.prompt(session)
    assert world.host.send("unload", location="work") == {"listeners": 0}


def test_a_host_whose_events_do_not_end_holds_up_no_unloading(hurried_world):
    world = hurried_world
    world.load(events="deaf")
    assert world.host.send("unload", location="work") == {"listeners": 1}


def test_the_unloading_does_not_wait_to_listen_again(runtime, env, home):
    host = Driver(runtime, HOST, {**env, "HURRY": "0.1"}, home / "work")
    try:
        host.send("setup", location="work", directory=str(home), url=SHIM.as_uri())
        with within(8):  # of the ten seconds that its one second takes here
            host.send("unload", location="work")
    finally:
        host.end()


def test_a_request_that_was_answered_does_not_keep_the_process_alive(world):
    world.prompt(world.create())
    world.host.send("unload", location="work")
    with within(8):  # of the ten seconds that its hook might have taken
        world.host.process.stdin.close()
        world.host.process.wait(20)


def test_what_is_unloaded_keeps_no_connection(empty_world, sidecar):
    empty_world.load()
    empty_world.host.send("prompt", session=empty_world.create(), text="Hello.")
    assert sidecar.connections == 1
    empty_world.host.send("unload", location="work")
    sidecar.wait_for_close()


def test_a_session_that_the_host_calls_a_copy_of_itself_has_its_memory(world):
    session = world.create(announced=False)
    stored = world.host.send("stored", session=session)["session"]
    world.host.send("adopt", session={**stored, "fork": {"sessionID": session}})
    assert world.prompt(session)


def test_a_host_of_before_the_separate_hooks_is_hooked_where_it_can_be(empty_world):
    loaded = empty_world.load(without=["compaction", "generate"])
    assert loaded["hooks"] == ["context"]


def test_a_host_that_never_answers_a_registration_is_not_held_up(empty_world):
    loaded = empty_world.load(silent=True)
    assert (loaded["hooks"], loaded["tools"]) == ([], [])
    empty_world.host.send("unload", location="work")
    empty_world.host.end()
    said = empty_world.host.errors
    assert "no hook for context requests: it does not answer" in said
    assert "The memory tools could not be registered: it does not answer" in said


MALFORMED = [
    "undefined",
    None,
    {},
    {"sessionID": 7, "messages": []},
    {"sessionID": "ses_1"},
    {"sessionID": "ses_1", "messages": {}},
    {"sessionID": "ses_1", "messages": [None, 1, {"role": "user"}]},
    {"sessionID": "ses_1", "messages": [{"role": "user", "content": "text"}]},
    {"sessionID": "ses_1", "messages": [{"role": "user", "content": [None]}]},
    {"sessionID": "../../etc/passwd", "messages": []},
]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("event", MALFORMED, ids=str)
def test_whatever_reaches_a_hook_it_does_not_throw(world, event, frozen):
    world.host.send("call", location="work", event=event, frozen=frozen)


@pytest.mark.parametrize("placement", ["message", "part"])
def test_among_messages_of_odd_shapes_memory_is_given_and_the_host_s_own_are_left_alone(
    world, placement
):
    world.choose(placement=placement)
    theirs = {"role": "user", "content": [{"type": "text", "text": "Hello."}]}
    odd = [
        None,
        {"role": "user"},
        {"role": "user", "content": "text"},
        {"role": "user", "content": 5},
    ]
    messages = [*odd, theirs]
    said = {"role": "assistant", "content": [{"type": "text", "text": MARKER}]}
    event = {"sessionID": world.create(), "messages": [said]}
    called = world.host.send("call", location="work", event=event)
    assert json.dumps(called["event"]["messages"]).count(MARKER) == 2
    event = {"sessionID": world.create(), "messages": messages}
    called = world.host.send("call", location="work", event=event)
    assert json.dumps(called["event"]["messages"]).count(MARKER) == 1
    assert called["own"] == messages


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("session.created", None),
        ("session.deleted", {}),
        ("session.compaction.ended", {"sessionID": 7}),
        ("session.forked", {"sessionID": "ses_1"}),
        (None, {"sessionID": "ses_1"}),
    ],
)
def test_whatever_an_event_says_the_next_one_is_heard(world, kind, data):
    session = world.create()
    world.prompt(session)
    world.host.send("emit", type=kind, data=data)
    world.delete(session)


def test_events_of_another_directory_are_for_its_own_instance(world):
    session = world.create()
    world.prompt(session)
    world.host.send(
        "emit", type="session.deleted", data={"sessionID": session}, location="/elsewhere"
    )
    assert world.snapshot(session).exists()


def test_tools_answer_and_a_refusal_is_an_answer_too(world):
    session = world.create()
    ask = {"location": "work", "session": session}
    done = world.host.send("tool", name="memory_get", args={"label": "global"}, **ask)
    assert "Prefers short answers." in done["answer"]["content"]
    assert done["options"] == {"codemode": False}
    assert done["input"]["type"] == "object"
    refused = world.host.send("tool", name="memory_get", args={"label": "none"}, **ask)
    assert "none" in refused["answer"]["content"]
    bare = world.host.send("tool", name="memory_list", args=None, **ask)
    assert "global:global" in bare["answer"]["content"]
    world.choose(ask=True)
    unasked = {"label": "global", "value": "Changed."}
    unasked = world.host.send("tool", name="memory_set", args=unasked, **ask)
    assert "has to be asked" in unasked["answer"]["content"]
    world.kill_sidecar()
    away = world.host.send("tool", name="memory_get", args={"label": "global"}, **ask)
    assert "cannot be reached" in away["answer"]["content"]


def test_as_a_part_memory_leads_the_user_s_first_message(world):
    world.choose(placement="part")
    session = world.create()
    for _ in range(2):
        (request,) = world.host.send("prompt", session=session, text="Hello.")["requests"]
        ours, theirs = request["messages"][0]["content"]
        assert ours["text"].startswith(MARKER)
        assert theirs["text"] == "Hello."
    world.compact(session)
    world.moved.discard(session)
    (request,) = world.host.send("prompt", session=session, text="On.")["requests"]
    checkpoint = request["messages"][0]["content"]
    assert [part["text"].startswith(MARKER) for part in checkpoint] == [True, False]


def test_what_the_provider_counted_is_in_the_ledger_each_step_once(world):
    parent = world.create()
    session = world.create(parent=parent)
    tokens = {"input": 500, "output": 7, "reasoning": 2, "cache": {"read": 4_000, "write": 60}}
    world.step(session, "msg_1", tokens=tokens)
    world.step(session, "msg_1", tokens=tokens)  # said once more
    world.step(session, "msg_2", type="failed")
    world.emit("session.compaction.ended", sessionID=session, tokens={"input": 900}, cost=0.5)
    world.emit("session.compaction.failed", sessionID=session, reason="auto", error="no")
    world.step(session, "msg_3", tokens={"input": 10})
    rows = world.ledger(session, 4)
    found = [(row.input, row.cache_read, row.cache_write, row.outcome) for row in rows]
    assert sorted(found) == [
        (0, 0, 0, "failed"),
        (10, 0, 0, "done"),
        (500, 4_000, 60, "done"),
        (900, 0, 0, "done"),
    ]
    assert [row.input for row in rows if row.compaction] == [900]
    by_input = {row.input: row for row in rows}
    step = by_input[500]
    assert (step.provider, step.model, step.agent) == ("stub", "big", "build")
    assert (step.output, step.reasoning, step.cost) == (7, 2, 0.01)
    assert {row.parent_id for row in rows} == {parent}


def test_a_step_whose_time_the_host_does_not_say_is_in_the_ledger(world):
    session = world.create()
    world.emit(
        "session.step.ended", sessionID=session, assistantMessageID="msg_1", created="soon", cost=1
    )
    (row,) = world.ledger(session, 1)
    assert row.cost == 1


def test_no_step_is_lost_when_the_host_ends_while_the_sidecar_is_away(world):
    session = world.create()
    world.prompt(session)
    world.kill_sidecar()
    world.step(session, "msg_1", tokens={"input": 500})
    world.start_sidecar()
    world.host.send("unload", location="work")
    assert [row.input for row in world.ledger(session, 1)] == [500]
