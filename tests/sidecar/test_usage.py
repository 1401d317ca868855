"""What became of the cache at each step, on sessions as a provider's numbers show them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from sidecar.usage import MISSES, SessionUsage, Verdict, add_up, begun_since, judge_sessions
from snapshots.ledger import Step

CACHE_SECONDS = 300
SIZE = 10_000
"""Tokens of a session's first prompt; each further one has as many as this more."""
MORE = 500


def judged_sessions(steps: Iterable[Step]) -> list[SessionUsage]:
    return judge_sessions(steps, CACHE_SECONDS)


def step(number: int = 0, *, read: int = 0, **fields: object) -> Step:
    """The step of that number: half a minute after the one before, with a longer prompt."""
    prompt = SIZE + MORE * number
    given: dict[str, object] = {
        "session_id": "ses_a",
        "message_id": f"msg_{number:04}",
        "parent_id": None,
        "started_at": 1_000_000.0 + 30 * number,
        "finished_at": 1_000_010.0 + 30 * number,
        "provider": "anthropic",
        "model": "m",
        "agent": "build",
        "outcome": "done",
        "compaction": False,
        "input": 10,
        "output": 100,
        "reasoning": 0,
        "cache_read": read,
        "cache_write": prompt - read - 10,
        "cost": 0.0,
    }
    return Step(**{**given, **fields})  # type: ignore[arg-type]


def hit(number: int, **fields: object) -> Step:
    return step(number, read=SIZE + MORE * (number - 1), **fields)


def miss(number: int, **fields: object) -> Step:
    return step(number, **fields)


def verdicts(*steps: Step) -> list[Verdict]:
    return [each.verdict for session in judged_sessions(steps) for each in session.judged]


def later(seconds: float, number: int) -> dict[str, object]:
    start = step(number - 1).started_at + seconds
    return {"started_at": start, "finished_at": start + 10}


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        (hit(2), "hit"),
        (miss(2), "prefix moved"),
        (step(2, read=3_000), "prefix moved"),  # the system prompt alone
        (miss(2, **later(CACHE_SECONDS - 1, 2)), "prefix moved"),
        (miss(2, **later(CACHE_SECONDS + 1, 2)), "expired"),
        (hit(2, **later(3_600, 2)), "hit"),
        (miss(2, model="other", cache_write=10_000), "switched"),
        (miss(2, provider="other", model="other", cache_write=10_000), "switched"),
        (miss(2, agent="plan"), "switched"),
        (hit(2, agent="plan"), "hit"),
        (miss(2, outcome="aborted", input=0, cache_write=0, output=0), "unfinished"),
        (miss(2, outcome="aborted"), "prefix moved"),
        (miss(2, provider="silent", input=9_000, cache_write=0), "no data"),
        (miss(2, agent="compaction", compaction=True), "summary"),
        (step(2, input=10, cache_write=490), "no data"),  # too short for a cache
    ],
)
def test_each_kind_of_miss_is_told_from_the_steps_around_it(last: Step, verdict: Verdict) -> None:
    assert verdicts(miss(0), hit(1), last) == ["first", "hit", verdict]


def test_a_forks_first_step_may_be_a_hit() -> None:
    assert verdicts(step(0, read=9_000)) == ["hit"]
    assert verdicts(step(0, read=3_000)) == ["first"]


def test_after_a_compaction_one_miss_is_the_compactions() -> None:
    summary = miss(2, compaction=True)
    steps = [miss(0), hit(1), summary, miss(3), miss(4)]
    assert verdicts(*steps) == ["first", "hit", "summary", "compacted", "prefix moved"]


def test_a_compaction_that_failed_explains_no_miss() -> None:
    summary = miss(2, compaction=True, outcome="failed")
    assert verdicts(miss(0), hit(1), summary, miss(3))[-1] == "prefix moved"


def test_what_was_unfinished_is_nobodys_step_before() -> None:
    aborted = miss(2, outcome="aborted", input=0, cache_write=0, output=0)
    assert verdicts(miss(0), hit(1), aborted, step(3, read=SIZE + MORE))[-1] == "hit"


def test_a_revert_makes_a_shorter_prompt_and_still_a_hit() -> None:
    assert verdicts(miss(0), hit(1), hit(2), step(3, read=9_500, cache_write=500))[-1] == "hit"


def test_a_provider_is_known_to_report_from_any_session() -> None:
    asked = step(0, provider="p", model="q", input=10_000, cache_write=0)
    assert judged_sessions([asked])[0].judged[0].verdict == "no data"
    other = step(0, provider="p", model="q", read=9_000, session_id="ses_b")
    assert {s.session_id: s.judged[0].verdict for s in judged_sessions([asked, other])} == {
        "ses_a": "first",
        "ses_b": "hit",
    }


def test_a_tool_that_ran_for_long_explains_the_miss_behind_it() -> None:
    slow = hit(1, finished_at=step(1).finished_at + 600)
    assert verdicts(miss(0), slow, miss(2, **later(640, 2)))[-1] == "expired"


def test_what_came_before_a_moment_still_explains_what_came_after() -> None:
    steps = [miss(0), hit(1), miss(2), hit(3, session_id="ses_b", parent_id="ses_a")]
    usage = judged_sessions(steps)
    child, session = begun_since(usage, step(1).started_at)
    assert [each.verdict for each in session.judged] == ["hit", "prefix moved"]
    assert (session.sum.requests, session.sum.misses["first"]) == (2, 0)
    assert (child.session_id, child.parent_id) == ("ses_b", "ses_a")
    assert begun_since(usage, step(4).started_at) == []


def test_the_order_of_arrival_does_not_matter() -> None:
    steps = [miss(0), hit(1), miss(2), hit(3)]
    for order in itertools.permutations(steps):
        assert verdicts(*order) == ["first", "hit", "prefix moved", "hit"]


def test_an_eighty_step_session_is_counted_right() -> None:
    """Two subagents, a gap of six minutes, another model and back, a compaction, an abort."""
    steps = [miss(0)]
    for number in range(1, 80):
        start = step(number).started_at + (360 if number >= 20 else 0)
        times = {"started_at": start, "finished_at": start + 10}
        fields: dict[str, object] = {"cost": 0.01, **times}
        if number == 20:
            steps.append(miss(number, **fields))
        elif number == 40:
            steps.append(miss(number, model="n", cache_write=20_000, **fields))
        elif number in (41, 42, 43):
            steps.append(hit(number, model="n", **fields))
        elif number == 44:
            steps.append(miss(number, **fields))
        elif number == 60:
            steps.append(miss(number, compaction=True, agent="compaction", **fields))
        elif number == 61:
            steps.append(miss(number, **fields))
        elif number == 70:
            nothing = {"input": 0, "cache_write": 0, "output": 0, "outcome": "aborted"}
            steps.append(miss(number, **nothing, **times))
        else:
            steps.append(hit(number, **fields))
    children = [
        step(number, session_id=child, parent_id="ses_a", provider="silent", cache_write=0)
        for child in ("ses_c", "ses_d")
        for number in range(2)
    ]
    parent, *others = sorted(judged_sessions([*steps, *children]), key=lambda s: s.session_id)
    assert parent.sum.requests == 78
    assert parent.sum.misses == {
        "first": 1,
        "compacted": 1,
        "switched": 2,
        "expired": 1,
        "prefix moved": 0,
    }
    assert (parent.sum.unfinished, parent.sum.summaries, parent.sum.no_data) == (1, 1, 0)
    assert parent.sum.cost == pytest.approx(0.78)
    read = sum(each.cache_read for each in steps)
    asked = sum(each.prompt for each in steps if not each.compaction)
    assert parent.sum.hit_rate == pytest.approx(read / asked)
    for child in others:
        assert child.parent_id == "ses_a"
        assert (child.sum.requests, child.sum.no_data, child.sum.hit_rate) == (2, 2, None)
    total = add_up([each for session in (parent, *others) for each in session.judged])
    assert total.requests == 82
    assert total.hit_rate == parent.sum.hit_rate


def test_of_nothing_everything_is_nothing_and_the_rate_unknown() -> None:
    assert judged_sessions([]) == []
    total = add_up([])
    assert (total.requests, total.input, total.hit_rate, total.cost) == (0, 0, None, 0)
    assert total.misses == dict.fromkeys(MISSES, 0)
