"""Usage as one page of HTML: pictures without scripts, for light screens and dark ones."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape

from sidecar.usage import MISSES, Judged, SessionUsage, Sum, Verdict, add_up
from sidecar.usage_text import percent
from snapshots.ledger import Step

SIGN = "<!-- opencode-memory: usage report -->"
"""In the first line of every report; only a file that has it is written over."""

_CLASSES: dict[Verdict, str] = {
    "hit": "hit",
    "first": "first",
    "compacted": "compacted",
    "switched": "switched",
    "expired": "expired",
    "prefix moved": "moved",
    "no data": "none",
    "unfinished": "none",
    "summary": "none",
}
_MEANINGS: dict[Verdict, str] = {
    "hit": "most of the prompt before was read from the cache",
    "first": "a session's first request: there was nothing to read",
    "compacted": "the first request after a compaction",
    "switched": "another provider, model or agent than before",
    "expired": "longer after the request before than the provider keeps a prompt",
    "prefix moved": "soon after a request of the same kind, and yet most was not read",
    "no data": "the provider does not say, or the prompt was too short for a cache",
}
_PARTS = {"hit": "read from the cache", "write": "written to it", "input": "not cached"}
"""Of a prompt, with the class that paints it."""
_DAY = 86_400
_MOST_DAYS = 60
_STRIP_HEIGHT = 28
_DAYS_HEIGHT = 140

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --card: #f5f6f8; --text: #1c2128;
  --dim: #57606a; --line: #d5d9df; --hit: #1a7f37; --write: #9a6700; --input: #0969da;
  --first: #0969da;
  --compacted: #8250df; --switched: #bf3989; --expired: #9a6700; --moved: #cf222e;
  --none: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --card: #161b22; --text: #e6edf3;
  --dim: #9198a1; --line: #30363d; --hit: #3fb950; --write: #d29922; --input: #58a6ff;
  --first: #58a6ff; --compacted: #a371f7; --switched: #f778ba; --expired: #d29922;
  --moved: #f85149; --none: #6e7681; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem 1rem 4rem; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0 1rem; } .dim, figcaption { color: var(--dim); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .6rem .7rem; }
.tiles b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.alarm { border: 2px solid var(--moved); border-radius: .5rem; padding: .6rem .8rem; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: .5rem 0 1rem;
  list-style: none; font-size: .85rem; color: var(--dim); }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem;
  margin-right: .35rem; }
figure { margin: 0; } svg { display: block; width: 100%; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .85rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .5rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: middle; }
th { color: var(--dim); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.left { text-align: left; } td.strip { width: 34%; min-width: 10rem; }
.alert { color: var(--moved); } code { font: .75rem ui-monospace, monospace; }
.days text { fill: var(--dim); font: 10px system-ui, sans-serif; }
""" + "\n".join(
    f".{name} {{ fill: var(--{name}); background: var(--{name}); }}"
    for name in dict.fromkeys(["hit", "write", "input", *_CLASSES.values()])
)


def render_page(usage: Sequence[SessionUsage], now: float) -> str:
    """Return the page; `now` is in seconds since 1970."""
    total = add_up([each for session in usage for each in session.judged])
    steps = [each.step for session in usage for each in session.judged]
    body = [
        "<h1>Prompt cache and usage</h1>",
        f'<p class="dim">{_span(steps)}Written {_minute(now)} by opencode-memory.</p>',
        _tiles(total, len(usage)),
    ]
    if total.misses["prefix moved"]:
        body.append(_alarm(total))
    if usage:
        body += ["<h2>Tokens of the prompts, by day</h2>", _days(steps)]
        body += ["<h2>Sessions</h2>", _legend(), _table(usage)]
    else:
        body.append("<p>No request is in the ledger yet. It fills as OpenCode works.</p>")
    return (
        f'<!doctype html>{SIGN}\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Prompt cache and usage</title>\n<style>{_STYLE}</style>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _span(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    first, last = min(s.started_at for s in steps), max(s.started_at for s in steps)
    return f"Requests from {_minute(first)} to {_minute(last)}. "


def _tiles(total: Sum, sessions: int) -> str:
    tiles = {
        "hit rate": percent(total.hit_rate),
        "requests": f"{total.requests:,}",
        "sessions": f"{sessions:,}",
        "read": _short(total.cache_read),
        "written": _short(total.cache_write),
        "not cached": _short(total.input),
        "output": _short(total.output),
    }
    if total.cost:
        tiles["cost"] = f"${total.cost:,.2f}"
    items = "".join(f"<li>{escape(name)}<b>{value}</b></li>" for name, value in tiles.items())
    return f'<ul class="tiles">{items}</ul>'


def _alarm(total: Sum) -> str:
    return (
        f'<p class="alarm"><b>The prefix has moved at {total.misses["prefix moved"]:,} '
        f"of {total.requests:,} requests.</b> Most of the prompt before was not read, soon after a "
        "request of the same kind. <code>opencode-memory verify</code> finds out who does it.</p>"
    )


def _days(steps: Iterable[Step]) -> str:
    """A bar for each day: what was read, written, and neither."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for step in steps:
        there = sums[_day(step.started_at)]
        for place, tokens in enumerate((step.cache_read, step.cache_write, step.input)):
            there[place] += tokens
    last = max(sums)
    days = range(max(min(sums), last - _MOST_DAYS + 1), last + 1)
    highest = max(sum(tokens) for tokens in sums.values()) or 1
    width = max(len(days), 7) * 16
    bars = []
    for column, day in enumerate(days):
        base = float(_DAYS_HEIGHT)
        parts = zip(_PARTS.values(), sums[day], strict=True)
        told = ", ".join(f"{_short(tokens)} {part}" for part, tokens in parts)
        bars.append(f"<g><title>{_date(day)}: {told}</title>")
        for name, tokens in zip(_PARTS, sums[day], strict=True):
            height = tokens / highest * (_DAYS_HEIGHT - 14)
            base -= height
            if height:
                bars.append(
                    f'<rect class="{name}" x="{column * 16 + 2}" y="{base:.1f}" width="12" '
                    f'height="{height:.1f}"/>'
                )
        bars.append("</g>")
    label = f"{_short(highest)} tokens on the fullest of {len(days)} days"
    legend = "".join(f'<li><i class="{name}"></i>{part}</li>' for name, part in _PARTS.items())
    return (
        f'<figure class="days"><svg role="img" aria-label="{label}" viewBox="0 0 {width} '
        f'{_DAYS_HEIGHT + 14}" preserveAspectRatio="xMinYMax meet" style="max-height:14rem">'
        f'<text x="0" y="9">{_short(highest)}</text>{"".join(bars)}'
        f'<text x="0" y="{_DAYS_HEIGHT + 12}">{_date(days[0])}</text>'
        + (
            f'<text x="{len(days) * 16}" y="{_DAYS_HEIGHT + 12}" text-anchor="end">'
            f"{_date(days[-1])}</text>"
            if len(days) > 8
            else ""
        )
        + f'</svg><figcaption><ul class="legend">{legend}</ul></figcaption></figure>'
    )


def _legend() -> str:
    items = (
        f'<li><i class="{_CLASSES[verdict]}"></i><b>{verdict}</b>: {meaning}</li>'
        for verdict, meaning in _MEANINGS.items()
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _table(usage: Sequence[SessionUsage]) -> str:
    heads = ["session", "a bar for each request", "requests", "hit rate", "misses"]
    heads += ["read", "written", "not cached", "cost"]
    rows = "\n".join(_row(session) for session in usage)
    words, left = ("a bar for each request", "misses"), ' class="left"'
    cells = "".join(f'<th scope="col"{left if head in words else ""}>{head}</th>' for head in heads)
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _row(session: SessionUsage) -> str:
    sums = session.sum
    told = [f"{miss} {sums.misses[miss]}" for miss in MISSES[:-1] if sums.misses[miss]]
    if moved := sums.misses["prefix moved"]:
        told.insert(0, f'<b class="alert">prefix moved {moved}</b>')
    began = _minute(session.began_at)
    if session.parent_id:
        began += f"<br>a subagent of <code>{escape(session.parent_id)}</code>"
    name = f'<code>{escape(session.session_id)}</code><br><span class="dim">{began}</span>'
    cells = [
        f"<td>{name}</td>",
        f'<td class="strip">{_strip(session.judged)}</td>',
        f"<td>{sums.requests:,}</td>",
        f"<td>{percent(sums.hit_rate)}</td>",
        f'<td class="left">{"<br>".join(told) or "none"}</td>',
        *(f"<td>{_short(n)}</td>" for n in (sums.cache_read, sums.cache_write, sums.input)),
        f"<td>{f'${sums.cost:,.2f}' if sums.cost else 'none'}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _strip(judged: Sequence[Judged]) -> str:
    """A bar for each request: of a hit as high as what was read, of all else the whole height."""
    paths: dict[str, list[str]] = defaultdict(list)
    for place, each in enumerate(judged):
        is_hit = each.verdict == "hit"
        share = each.step.cache_read / each.step.prompt if is_hit else 1.0
        top = _STRIP_HEIGHT * (1 - max(share, 0.05))
        bar = f"M{place * 4} {top:.0f}h3V{_STRIP_HEIGHT}h-3z"
        paths[_CLASSES[each.verdict]].append(bar)
    drawn = "".join(f'<path class="{name}" d="{"".join(bars)}"/>' for name, bars in paths.items())
    verdicts = [each.verdict for each in judged]
    label = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in dict.fromkeys(verdicts))
    width = max(len(judged), 40) * 4
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {_STRIP_HEIGHT}" '
        f'preserveAspectRatio="none" height="{_STRIP_HEIGHT}">{drawn}</svg>'
    )


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _day(seconds: float) -> int:
    local = time.localtime(seconds)
    return int((seconds + (local.tm_gmtoff or 0)) // _DAY)


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * _DAY))
