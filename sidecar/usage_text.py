"""Usage as text: the sums of each session, and a chart with one column for each request."""

import time
from collections.abc import Sequence

from sidecar.usage import Judged, SessionUsage, Sum, Verdict

SHOWN = 20
"""How many sessions are listed; the total is of all."""

_LEVELS = "▁▂▃▄▅▆▇█"
_LETTERS: dict[Verdict, str] = {
    "first": "f",
    "compacted": "c",
    "switched": "s",
    "expired": "e",
    "prefix moved": "M",
    "no data": "?",
    "unfinished": "-",
    "summary": "+",
}
_GREEN, _YELLOW, _RED, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"
_SMALLEST_WIDTH = 40


def describe_usage(
    usage: Sequence[SessionUsage], total: Sum, *, width: int, colour: bool, unicode: bool
) -> str:
    """Return the sessions, the total and, if the prefix has moved, the alarm."""
    if not usage:
        return "No request is in the ledger yet. It fills as OpenCode works."
    lines: list[str] = []
    for session in usage[:SHOWN]:
        lines += [_heading(session), *_sums(session.sum)]
        lines += _chart(session.judged, width, colour=colour, unicode=unicode)
        lines.append("")
    if len(usage) > SHOWN:
        lines += [f"and {len(usage) - SHOWN} sessions more", ""]
    lines += [f"total of {len(usage)} sessions: {total.requests:,} requests", *_sums(total), ""]
    lines.append(_legend(unicode=unicode))
    if moved := total.misses["prefix moved"]:
        alarm = (
            f"PREFIX MOVED at {moved:,} of {total.requests:,} requests: most of the prompt before "
            "was not read, soon after a request of the same kind. Find out who does it: "
            "opencode-memory verify"
        )
        lines.append(_coloured(alarm, _RED if colour else ""))
    return "\n".join(lines)


def percent(rate: float | None) -> str:
    """Return a hit rate for people; where nothing is known it is not 0 %."""
    return "no data" if rate is None else f"{rate * 100:.1f} %"


def _heading(session: SessionUsage) -> str:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.began_at))
    parent = f", a subagent of {session.parent_id}" if session.parent_id else ""
    return f"{session.session_id}  {began}, {session.sum.requests:,} requests{parent}"


def _sums(sums: Sum) -> list[str]:
    misses = [f"{miss} {count}" for miss, count in sums.misses.items() if count]
    rest = {
        "no data": sums.no_data,
        "unfinished": sums.unfinished,
        "summaries": sums.summaries,
    }
    also = [f"{name} {count}" for name, count in rest.items() if count]
    cost = f"   cost ${sums.cost:.4f}" if sums.cost else ""
    return [
        f"  input {sums.input:,}   cache read {sums.cache_read:,}   "
        f"cache write {sums.cache_write:,}   output {sums.output:,}{cost}",
        f"  hit rate {percent(sums.hit_rate)}   misses: {', '.join(misses) or 'none'}"
        + (f"   also: {', '.join(also)}" if also else ""),
    ]


def _chart(judged: Sequence[Judged], width: int, *, colour: bool, unicode: bool) -> list[str]:
    columns = max(width, _SMALLEST_WIDTH) - 2
    return [
        "  "
        + "".join(
            _column(each, colour=colour, unicode=unicode)
            for each in judged[start : start + columns]
        )
        for start in range(0, len(judged), columns)
    ]


def _column(each: Judged, *, colour: bool, unicode: bool) -> str:
    if each.verdict == "hit":
        share = each.step.cache_read / each.step.prompt
        level = _LEVELS[min(int(share * len(_LEVELS)), len(_LEVELS) - 1)]
        return _coloured(level if unicode else "#", _GREEN if colour else "")
    paint = {"prefix moved": _RED, "no data": "", "unfinished": "", "summary": ""}
    return _coloured(_LETTERS[each.verdict], paint.get(each.verdict, _YELLOW) if colour else "")


def _legend(*, unicode: bool) -> str:
    full = "█ hit, as high as the part that was read" if unicode else "# hit"
    return f"{full}   " + "   ".join(f"{letter} {name}" for name, letter in _LETTERS.items())


def _coloured(text: str, paint: str) -> str:
    return f"{paint}{text}{_PLAIN}" if paint else text
