"""Where two requests to a provider stop being the same prompt.

A provider caches a prompt by its exact prefix, in the order tools, system, messages, whatever the
order of the keys in the body. A request's body is cut here into the pieces of that order, each one
a slice of the raw bytes: nothing is serialised again, so a reordered key is a difference as well.

Two things in a body are no part of the prompt, and are taken out before the comparison:
* `cache_control` marks where the provider may cut its cache. The marks move along with the tail by
  design, and moving one does not change what was cached.
* Text content stands as a string or as a list with one text part. The host's SDK takes the second
  form where a part carries a mark, so a message changes its form when the mark moves on.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"
_EXCERPT = 60

AREAS = ("tools", "system", "message")
"""The provider's order."""


@dataclass(frozen=True)
class Piece:
    """One stretch of the prompt: a tool, a system text, or one part of a message."""

    place: str
    """Where it stands, in words that begin with one of AREAS: `message 2, part 1`."""
    role: str
    text: str


@dataclass(frozen=True)
class Difference:
    """The first place where a request leaves the prefix of an earlier one."""

    place: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"the prompt changed at {self.place}:\n  was {self.before!r}\n  is  {self.after!r}"


def first_difference(earlier: bytes, later: bytes) -> Difference | None:
    """None if `later` starts with all of `earlier`, byte for byte, and goes on."""
    before, after = pieces(earlier), pieces(later)
    for old, new in zip(before, after, strict=False):
        if old != new:
            return _difference(old, new)
    if len(after) > len(before):
        return None
    last = before[min(len(after), len(before) - 1)]
    return Difference(f"{last.place}: nothing follows", last.text[:_EXCERPT], "")


def _difference(old: Piece, new: Piece) -> Difference:
    was, now = f"{old.role}: {old.text}", f"{new.role}: {new.text}"
    same = next((n for n, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), 0)
    around = slice(max(0, same - _EXCERPT), same + _EXCERPT)
    # A system text or a tool that came or went meets a piece of the area behind its own.
    place = min(old.place, new.place, key=_area)
    return Difference(place, was[around], now[around])


def _area(place: str) -> int:
    return AREAS.index(re.split(r"\W", place)[0])


def pieces(body: bytes) -> list[Piece]:
    """The prompt in the provider's order. Reads OpenAI's chat completions and Anthropic's form."""
    text = body.decode()
    request = dict(_members(text))
    messages = [dict(_members(message)) for message in _items(request["messages"])]
    # OpenAI's form has the system prompt among the messages, Anthropic's beside them.
    system = [m for m in messages if m["role"] == '"system"']
    others = [m for m in messages if m["role"] != '"system"']
    found = [
        Piece(f"tools, item {n}", "", _unmarked(tool))
        for n, tool in enumerate(_items(request.get("tools", "[]")))
    ]
    if "system" in request:
        system = [{"role": '"system"', "content": request["system"]}, *system]
    for n, message in enumerate(system):
        found += _message(f"system, message {n}", message)
    for n, message in enumerate(others):
        found += _message(f"message {n}", message)
    return found


def _message(place: str, message: dict[str, str]) -> Iterator[Piece]:
    role = json.loads(message["role"])
    parts: list[str] = []
    for name, value in message.items():
        if name == "content":
            parts += map(_unmarked, _parts(value))
        elif name not in ("role", "cache_control"):
            parts.append(f'{{"{name}":{value}}}')
    for n, part in enumerate(parts):
        yield Piece(f"{place}, part {n}", role, part)


def _parts(content: str) -> list[str]:
    if content.startswith('"'):
        return [f'{{"type":"text","text":{content}}}']
    return _items(content) if content.startswith("[") else [f'{{"content":{content}}}']


def _unmarked(part: str) -> str:
    """The part without its own `cache_control`; what lies deeper is the user's and stays."""
    members = _members(part)
    if all(name != "cache_control" for name, _ in members):
        return part
    kept = (f'"{name}":{value}' for name, value in members if name != "cache_control")
    return "{" + ",".join(kept) + "}"


def _members(text: str) -> list[tuple[str, str]]:
    """The names and the raw values of a JSON object."""
    found, at = [], _skip(text, 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        found.append((name, text[start:at]))
        at = _next(text, at)
    return found


def _items(text: str) -> list[str]:
    """The raw values of a JSON array."""
    found, at = [], _skip(text, 1)
    while text[at] != "]":
        start = at
        _, at = _DECODER.raw_decode(text, start)
        found.append(text[start:at])
        at = _next(text, at)
    return found


def _next(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
