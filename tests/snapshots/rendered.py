"""A parser of our own format: recovers each block's exact fields from a rendered text, or fails.

Written from the format's description and not from the renderer, so that the two check each other.
"""

from __future__ import annotations

import re
import unicodedata

from snapshots.marker import MARKER

Fields = tuple[str, str, str, int, bool, str]
"""scope, label, description, limit, read_only, value."""

_BLOCK = re.compile(
    r'<memory_block scope="(global|project)"( from="repository")? label="([^"<>]*)"'
    r' description="([^"<>]*)" limit="(\d+)" read_only="(true|false)">\n(.*?)\n</memory_block>\n',
    re.DOTALL,
)
_NAMES = ("agent_memory", "memory_block")


def parse(text: str) -> list[Fields]:
    """Return the blocks' fields in their order."""
    head, foot = f"{MARKER}\n<agent_memory>\n", "</agent_memory>\n"
    assert text.startswith(head), "the text does not begin with the marker and one element"
    assert text.endswith(foot), "the text does not end with the element's end"
    body = text[len(head) : -len(foot)]
    position = body.find("<memory_block ")
    if position < 0:
        return []
    found = []
    while position < len(body):
        match = _BLOCK.match(body, position)
        assert match, f"no block at {body[position:][:80]!r}"
        scope, mark, label, description, limit, read_only, value = match.groups()
        assert (scope == "project") == bool(mark), "a project's block is not marked as one"
        assert all(_is_plain(character) for character in label + description)
        assert not list(_structure(value)), "a value opens or closes our structure"
        fields = (_attribute(label), _attribute(description), int(limit), read_only == "true")
        found.append((scope, *fields, _value(value)))
        position = match.end()
    return found


def _is_plain(character: str) -> bool:
    """Whether a character shows as itself: no control, format, line or paragraph separator."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _attribute(text: str) -> str:
    text = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), text)
    for name, character in (("quot", '"'), ("gt", ">"), ("lt", "<"), ("amp", "&")):
        text = text.replace(f"&{name};", character)
    return text


def _value(text: str) -> str:
    """Take away the backslash that each place with a meaning was given."""
    places = [position for position, depth in _structure(text, escaped=True) if depth]
    for position in reversed(places):
        text = text[: position + 1] + text[position + 2 :]
    return text


def _structure(text: str, *, escaped: bool = False) -> list[tuple[int, int]]:
    """Return where something reads as our structure, and behind how many backslashes.

    As a reader sees it: what is invisible, spaces and case do not count.
    """
    found = []
    for match in re.finditer("<", text):
        rest = text[match.end() :]
        depth = len(rest) - len(rest.lstrip("\\"))
        if depth and not escaped:
            continue
        seen = "".join(c for c in rest[depth:] if not _is_invisible(c)).lower()
        seen = seen.lstrip()
        name = seen.removeprefix("/").lstrip()
        is_tag = any(name.startswith(n) and not re.match(r"\w", name[len(n) :]) for n in _NAMES)
        is_marker = re.match(r"!--\s*opencode-agent-memory", seen)
        if is_tag or is_marker:
            found.append((match.start(), depth))
    return found


def _is_invisible(character: str) -> bool:
    """Whether a font shows nothing for it, and it is no space."""
    code = ord(character)
    return not character.isspace() and (
        unicodedata.category(character) in ("Cc", "Cf")
        or code in (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0)
        or 0x180B <= code <= 0x180F
        or 0xFE00 <= code <= 0xFE0F
        or 0xFFF0 <= code <= 0xFFF8
        or 0xE0000 <= code <= 0xE0FFF
    )
