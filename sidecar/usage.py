"""What became of the prompt cache at each step of a session, and the sums: pure functions.

A step is a hit where the provider read at least most of the prompt before it from its cache. What a
miss was is derived from the steps around it; `prefix moved` is the one that nothing explains.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from snapshots.ledger import Step

Verdict = Literal[
    "hit",
    "first",
    "compacted",
    "switched",
    "expired",
    "prefix moved",
    "no data",
    "unfinished",
    "summary",
]
MISSES: tuple[Verdict, ...] = ("first", "compacted", "switched", "expired", "prefix moved")

SMALLEST_CACHED = 1_024
"""Tokens below which neither Anthropic nor OpenAI caches a prompt, by their own documents."""
_MOST = 0.8
"""How much of the prompt before has to be read for a hit: providers cache in blocks."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One step and what became of its cache."""

    step: Step
    verdict: Verdict


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of some steps.

    `requests` are those of the conversation; `hit_rate` is the part of their prompts that was read
    from the cache, None where no provider said. Summaries and cost are of all steps.
    """

    requests: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    hit_rate: float | None
    misses: dict[Verdict, int]
    no_data: int
    unfinished: int
    summaries: int
    cost: float


class SessionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One session, with its steps in the order of time and their sum."""

    session_id: str
    parent_id: str | None
    judged: tuple[Judged, ...]
    sum: Sum

    @property
    def began_at(self) -> float:
        """Seconds since 1970."""
        return self.judged[0].step.started_at


def judge_sessions(steps: Iterable[Step], cache_seconds: float) -> list[SessionUsage]:
    """Return the usage of each session, the one that began last first.

    The steps are all there are: any of them may say that a provider reports its cache at all. A
    prompt is kept for at least `cache_seconds` from its last use.
    """
    steps = list(steps)
    reporting = {
        (step.provider, step.model) for step in steps if step.cache_read or step.cache_write
    }
    by_session: dict[str, list[Step]] = defaultdict(list)
    for step in sorted(steps, key=lambda step: (step.started_at, step.message_id)):
        by_session[step.session_id].append(step)
    return _last_first(
        _session(session_id, _judge(own, reporting, cache_seconds))
        for session_id, own in by_session.items()
    )


def begun_since(usage: Iterable[SessionUsage], moment: float) -> list[SessionUsage]:
    """Return what began at that moment or later, in seconds since 1970.

    It is judged already, since what came before says what a miss was.
    """
    late = (
        (session, tuple(each for each in session.judged if each.step.started_at >= moment))
        for session in usage
    )
    return _last_first(_session(session.session_id, judged) for session, judged in late if judged)


def add_up(judged: Sequence[Judged]) -> Sum:
    """Return the sums of these steps; all are 0 of none."""
    asked = [each.step for each in judged if each.verdict not in ("summary", "unfinished")]
    told = [each.step for each in judged if each.verdict in ("hit", *MISSES)]
    verdicts = [each.verdict for each in judged]
    prompts = sum(step.prompt for step in told)
    return Sum(
        requests=len(asked),
        input=sum(step.input for step in asked),
        cache_read=sum(step.cache_read for step in asked),
        cache_write=sum(step.cache_write for step in asked),
        output=sum(step.output + step.reasoning for step in asked),
        hit_rate=sum(step.cache_read for step in told) / prompts if prompts else None,
        misses={miss: verdicts.count(miss) for miss in MISSES},
        no_data=verdicts.count("no data"),
        unfinished=verdicts.count("unfinished"),
        summaries=verdicts.count("summary"),
        cost=sum(each.step.cost for each in judged),
    )


def _session(session_id: str, judged: tuple[Judged, ...]) -> SessionUsage:
    parent_id = next((each.step.parent_id for each in judged if each.step.parent_id), None)
    return SessionUsage(
        session_id=session_id, parent_id=parent_id, judged=judged, sum=add_up(judged)
    )


def _last_first(sessions: Iterable[SessionUsage]) -> list[SessionUsage]:
    return sorted(sessions, key=lambda session: (-session.began_at, session.session_id))


def _judge(
    steps: Sequence[Step], reporting: set[tuple[str, str]], cache_seconds: float
) -> tuple[Judged, ...]:
    judged = []
    before: Step | None = None
    compacted = False
    for step in steps:
        if step.compaction:
            verdict: Verdict = "summary"
            compacted |= step.outcome == "done"
        elif step.prompt == 0:
            verdict = "unfinished"  # aborted or refused: the provider has counted nothing
        else:
            verdict = _verdict(step, before, reporting, cache_seconds, compacted=compacted)
            before, compacted = step, False
        judged.append(Judged(step=step, verdict=verdict))
    return tuple(judged)


def _verdict(
    step: Step,
    before: Step | None,
    reporting: set[tuple[str, str]],
    cache_seconds: float,
    *,
    compacted: bool,
) -> Verdict:
    if (step.provider, step.model) not in reporting:
        return "no data"
    if before is None:
        return "hit" if step.cache_read >= _MOST * step.prompt else "first"
    if step.cache_read and step.cache_read >= _MOST * min(before.prompt, step.prompt):
        return "hit"
    if compacted:
        return "compacted"
    if (step.provider, step.model, step.agent) != (before.provider, before.model, before.agent):
        return "switched"
    # From when the one before began: its tools may have run for long since its prompt was read.
    if step.started_at - before.started_at > cache_seconds:
        return "expired"
    if min(before.prompt, step.prompt) < SMALLEST_CACHED:
        return "no data"
    return "prefix moved"
