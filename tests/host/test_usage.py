"""What the provider counted is in the ledger: each step once, and none lost."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from sidecar.verify.recorder import Answer, Recorder
from snapshots.ledger import read_steps

from ..process import until
from . import opencode, product

if TYPE_CHECKING:
    from snapshots.ledger import Step

    from .scenario import Session, World

LEDGER = "agent-memory/usage.sqlite3"
TOOL = {"tool": "bash", "arguments": {"command": "echo one", "description": "Look"}}


def steps_of(world: World, *sessions: Session, count: int) -> list[Step]:
    """The sessions' rows, once there are so many: the plugin tells them behind the host's back."""
    ids = {session.id for session in sessions}

    def steps() -> list[Step]:
        steps = read_steps(world.home.data / LEDGER)
        return [step for step in steps if step.session_id in ids]

    until(lambda: len(steps()) >= count, f"{count} steps in the ledger")
    return steps()


def counts(steps: list[Step]) -> list[tuple[int, int, int]]:
    return [(step.input, step.cache_read, step.cache_write) for step in steps]


def test_the_rows_of_a_session_are_what_the_provider_counted(world: World) -> None:
    session = world.session()
    world.prompt(
        session,
        Answer("I look.", tokens=5_000, **TOOL),
        Answer("I look again.", tokens=6_000, read=5_000, **TOOL),
        Answer("Done.", tokens=6_500, read=6_000),
    )
    world.recorder.script(session.id, Answer("A summary.", tokens=6_400), kind="compaction")
    world.compact(session)
    world.prompt(session, Answer("Go on.", tokens=2_000, read=1_500))
    steps = steps_of(world, session, count=5)
    assert counts(steps) == [
        (5_000, 0, 0),
        (1_000, 5_000, 0),
        (500, 6_000, 0),
        (6_400, 0, 0),
        (500, 1_500, 0),
    ]
    assert [step.compaction for step in steps] == [False, False, False, True, False]
    assert {(step.provider, step.model, step.outcome) for step in steps} == {
        ("stub", "stub", "done")
    }
    assert [step.agent for step in steps] == ["build", "build", "build", "compaction", "build"]
    assert all(step.output == 10 and step.started_at <= step.finished_at for step in steps)


def test_what_a_cache_was_given_is_counted_apart(world: World) -> None:
    session = world.session(provider="stub-anthropic")
    world.prompt(session, Answer(tokens=5_000, written=4_900))
    world.prompt(session, Answer(tokens=5_200, read=4_900, written=250))
    assert counts(steps_of(world, session, count=2)) == [(100, 0, 4_900), (50, 4_900, 250)]


def test_a_subagent_s_steps_name_the_session_that_started_it(world: World) -> None:
    session = world.session()
    children = world.delegate(session, 2)
    steps = steps_of(world, *children, count=2)
    assert [(step.parent_id, step.agent) for step in steps] == [(session.id, "general")] * 2
    assert [step.parent_id for step in steps_of(world, session, count=2)] == [None] * 2


def test_a_fork_does_not_count_again_what_it_is_a_copy_of(world: World) -> None:
    session = world.session()
    world.prompt(session, Answer(tokens=5_000))
    world.prompt(session, Answer(tokens=5_100, read=5_000))
    fork = world.fork(session)
    world.prompt(fork, Answer(tokens=5_200, read=5_000))
    assert counts(steps_of(world, fork, count=1)) == [(200, 5_000, 0)]
    assert len(steps_of(world, session, count=2)) == 2


def test_a_step_that_the_user_aborts_has_a_row_that_says_so(world: World) -> None:
    session = world.session()
    world.prompt(session, Answer(tokens=5_000))
    with world.unanswered(session):
        world.host.abort(session.id, session.directory)
    aborted = steps_of(world, session, count=2)[1]
    assert (aborted.outcome, aborted.prompt) == ("aborted", 0)


def test_two_copies_of_the_plugin_count_each_step_once(stopped_world: World) -> None:
    world = stopped_world
    plugins = world.home.plugins
    other = plugins.with_name("plugin")
    other.mkdir()
    (other / "opencode-memory.js").write_bytes((plugins / "opencode-memory.js").read_bytes())
    world.start_sidecar()
    world.start_host()
    session = world.session()
    for _ in range(3):
        world.prompt(session)
    world.host.dispose(world.project)
    assert len(steps_of(world, session, count=3)) == 3


@pytest.mark.parametrize("sidecar", ["running", "started by the plugin"])
def test_nothing_is_lost_when_opencode_run_ends(stopped_world: World, sidecar: str) -> None:
    world = stopped_world
    if sidecar == "running":
        world.start_sidecar()
    else:
        product.must(world.home, "install")
    opencode.run(world.home, world.project, "run", "Hello.")
    (request,) = (request for request in world.recorder.requests if request.kind == "main")
    (step,) = read_steps(world.home.data / LEDGER)
    assert (step.session_id, step.prompt) == (request.session, 1_000)


def test_a_sidecar_that_goes_during_the_last_request_is_started_for_its_row(
    stopped_world: World,
) -> None:
    world = stopped_world
    product.must(world.home, "install")
    recorder = Recorder(lambda: os.kill(product.endpoint(world.home)["pid"], signal.SIGKILL))
    try:
        config = world.home.config / "opencode.json"
        config.write_text(config.read_text().replace(world.recorder.url, recorder.url))
        opencode.run(world.home, world.project, "run", "Hello.")
        (request,) = (request for request in recorder.requests if request.kind == "main")
    finally:
        recorder.close()
    (step,) = read_steps(world.home.data / LEDGER)
    assert step.session_id == request.session


def test_what_a_sidecar_was_too_late_for_reaches_it_with_the_next_step(own_world: World) -> None:
    world = own_world
    session = world.session()
    world.prompt(session, Answer(tokens=5_000))
    world.kill_sidecar()
    world.prompt(session, Answer(tokens=5_100, read=5_000))
    world.prompt(session, Answer(tokens=5_200, read=5_100))
    world.start_sidecar()
    world.prompt(session, Answer(tokens=5_300, read=5_200))
    steps = steps_of(world, session, count=4)
    assert counts(steps) == [(5_000, 0, 0), (100, 5_000, 0), (100, 5_100, 0), (100, 5_200, 0)]
