"""The text of one memory file: its front matter, its body, and how either is changed.

Knows no folder, no block and no limit: text in, text out. A change touches what it means to change;
every other character of the file stays as its author left it.

The YAML parser is imported where it is used: no sidecar needs it to start.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from snapshots.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from yaml import YAMLError

MAX_HEADER = 64 * 1024
"""Characters of front matter that are handed to the YAML parser."""

BOM = "\ufeff"

_OPENING = re.compile(r"---[ \t]*(\r?\n)")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_ALMOST_OPENING = re.compile(r"[\s\ufeff]*---[ \t]*(?:[\r\n]|\Z)")
_LINE_END = re.compile(r"\r?\n")
_KNOWN_LINE = re.compile(
    r"^(label|description|limit|read_only)([ \t]*:[ \t]*)([^\r\n]*)\r?\n(?:[ \t][^\n]*\n)*",
    re.MULTILINE,
)

Scalar = str | int | bool


class FrontMatterError(SnapshotError):
    """Front matter that can't be changed without disturbing the rest of it."""

    code = "front_matter_unsafe"


class _UnreadableError(Exception):
    """Front matter that isn't a plain YAML mapping; the message says why."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One top-level entry: the text of its value and where that stands in the header."""

    text: str | None  # None: a list, a mapping or an alias
    start: int
    end: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the front matter says."""

    fields: dict[str, Field]
    problem: str = ""
    flow: bool = False
    indent: int = 0
    end: int  # where a new entry goes


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file cut into its parts; joined again they are the file."""

    bom: str
    opening: str  # the fence's line; empty: no front matter
    header: str
    closing: str
    body: str
    newline: str
    problem: str = ""

    @property
    def text(self) -> str:
        """The whole file."""
        return self.bom + self.opening + self.header + self.closing + self.body

    @property
    def value(self) -> str:
        r"""The body with `\n` for the file's line ends, less one final line end."""
        return self._decoded().removesuffix("\n")

    def with_value(self, value: str) -> Document:
        """The document with another value, readable as exactly this value."""
        if value == self.value:
            return self
        ends_line = not self.body or self.body.endswith("\n") or value.endswith("\n")
        text = value + "\n" if ends_line else value
        closing = self.closing
        if self.opening and text and not closing.endswith("\n"):
            closing += self.newline
        return msgspec.structs.replace(self, closing=closing, body=self._encoded(text))

    def with_field(self, key: str, value: Scalar) -> Document:
        """The document with one entry of its front matter changed or added."""
        old = read_header(self.header)
        field = old.fields.get(key)
        scalar = dump_scalar(value, quoted=old.flow)
        if field is None:
            start = end = old.end
            if old.flow:
                new = f"{', ' if old.fields else ''}{key}: {scalar}"
            else:
                new = f"{' ' * old.indent}{key}: {scalar}{self.newline}"
        else:
            start, end = field.start, field.end
            before = "" if self.header[:start].endswith((" ", "\t")) else " "
            after = self.newline if self.header[start:end].endswith("\n") else ""
            new = f"{before}{scalar}{after}"
        header = self.header[:start] + new + self.header[end:]
        # An anchor (&name) that goes with the old value may be needed elsewhere.
        anchored = field is not None and re.match(r"(!\S* +)?&", self.header[field.start :])
        if anchored or not _changes_only(key, value, self.header, header):
            raise FrontMatterError(
                f"The front matter is written in a form in which {key} can't be changed without "
                f"disturbing the rest. Change {key} in the file by hand."
            )
        return msgspec.structs.replace(self, header=header)

    def with_header(self, fields: Mapping[str, Scalar]) -> Document:
        """The document with front matter made of these fields instead of what it has."""
        header = "".join(
            f"{key}: {dump_scalar(value)}{self.newline}" for key, value in fields.items()
        )
        problem = read_header(header).problem
        if problem:
            raise FrontMatterError(f"The front matter can't be written: {problem}. Shorten it.")
        fence = f"---{self.newline}"
        return msgspec.structs.replace(self, opening=fence, header=header, closing=fence)

    def _decoded(self) -> str:
        return self.body.replace("\r\n", "\n") if self.newline == "\r\n" else self.body

    def _encoded(self, text: str) -> str:
        r"""A body that decodes to `text`; lines that stay keep the line end that they have.

        A file with mixed line ends would otherwise be rewritten from top to bottom by a small edit.
        """
        if self.newline == "\n":
            return text
        raw, old, new = _lines(self.body), _lines(self._decoded()), _lines(text)
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        middle = new[head : len(new) - tail]
        replaced = raw[head : len(raw) - tail]
        for index, line in enumerate(middle):
            was = replaced[index] if index < len(replaced) else ""
            stays = was.endswith("\n") and not was.endswith("\r\n")
            if not stays or line.endswith("\r\n"):
                middle[index] = line.replace("\n", "\r\n")
        return "".join([*raw[:head], *middle, *raw[len(raw) - tail :]])


def read_document(text: str) -> Document:
    """Cut a file's text into its parts. Never fails: what is no front matter is body."""
    bom = BOM if text.startswith(BOM) else ""
    rest = text.removeprefix(BOM)
    opening = _OPENING.match(rest)
    closing = _CLOSING.search(rest, opening.end()) if opening else None
    if opening and closing:
        return Document(
            bom=bom,
            opening=opening[0],
            header=rest[opening.end() : closing.start()],
            closing=closing[0],
            body=rest[closing.end() :],
            newline=opening[1],
        )
    line_end = _LINE_END.search(rest)
    if opening:
        problem = "it has no closing --- line"
    elif _ALMOST_OPENING.match(rest):
        problem = "its first --- line isn't the first line of the file"
    else:
        problem = ""
    return Document(
        bom=bom,
        opening="",
        header="",
        closing="",
        body=rest,
        newline=line_end[0] if line_end else "\n",
        problem=problem,
    )


def new_document(fields: Mapping[str, Scalar], value: str) -> Document:
    """The document of a file that doesn't exist yet."""
    return read_document("\n").with_header(fields).with_value(value)


@lru_cache(maxsize=256)  # the parser takes longer than all else that is done with a file
def read_header(header: str) -> Header:
    """Read the entries of the front matter; where it is no YAML mapping, those that can be told."""
    try:
        return _read_mapping(header)
    except _UnreadableError as error:
        return Header(fields=_repaired(header), problem=str(error), end=len(header))


def dump_scalar(value: Scalar, *, quoted: bool = False) -> str:
    """One line of YAML that every reader, of YAML 1.1 or 1.2, reads as this value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    import yaml

    # PyYAML knows YAML 1.1 only and would leave 1e3 or 0o17 bare, numbers to a reader of 1.2.
    style = None if re.match("[A-Za-z]", value) else "'"
    if quoted or re.search("[\r\n\x85\u2028\u2029]", value):
        style = '"'
    text = "tag:yaml.org,2002:str"
    entry = yaml.ScalarNode(text, "k"), yaml.ScalarNode(text, value, style=style)
    node = yaml.MappingNode("tag:yaml.org,2002:map", [entry], flow_style=False)
    line = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=sys.maxsize)
    return str(line).removeprefix("k: ").removesuffix("\n")


def _read_mapping(header: str) -> Header:
    import yaml

    if len(header) > MAX_HEADER:
        raise _UnreadableError(f"it is longer than {MAX_HEADER} characters")
    nodes: list[Field] = []  # keys and values in turn
    top: Any = None
    problem = ""
    depth = start = 0
    end = len(header)
    for event in _events(header):
        first, last = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.DocumentStartEvent) and top:
            raise _UnreadableError("it holds more than one YAML document")
        if isinstance(event, yaml.AliasEvent):
            problem = "it uses aliases (*name), which aren't followed"
        if isinstance(event, yaml.NodeEvent) and depth == 0:
            if not isinstance(event, yaml.MappingStartEvent):
                raise _UnreadableError("it isn't made of key: value lines")
            top = event
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            start = first if depth == 2 else start
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            if depth == 0:
                end = first
            elif depth == 1:
                nodes.append(Field(text=None, start=start, end=last))
        elif isinstance(event, yaml.NodeEvent) and depth == 1:
            text = event.value if isinstance(event, yaml.ScalarEvent) else None
            nodes.append(Field(text=text, start=first, end=last))
    return Header(
        fields=_paired(nodes),
        problem=problem,
        flow=bool(top and top.flow_style),
        indent=top.start_mark.column if top else 0,
        end=end,
    )


def _events(header: str) -> Iterator[Any]:
    # Only events are read, never built into objects: the text of each scalar stays as written (a
    # date stays a date's text), and neither deep nesting nor aliases can cost stack or memory.
    import yaml

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        yield from yaml.parse(header, Loader=loader)
    except yaml.YAMLError as error:
        raise _UnreadableError(_reason(error)) from None


def _reason(error: YAMLError) -> str:
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # Counted as an editor counts: from one, and the opening fence is a line too.
        return f"line {error.problem_mark.line + 2}: {error.problem}"
    return "it holds a character that YAML doesn't allow"


def _paired(nodes: list[Field]) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for key, value in zip(nodes[::2], nodes[1::2], strict=True):
        if key.text is None or key.text == "<<":
            raise _UnreadableError("it has a key that isn't a word")
        if key.text in fields:
            raise _UnreadableError(f"it has the key {key.text!r} twice")
        fields[key.text] = value
    return fields


def _repaired(header: str) -> dict[str, Field]:
    """The known keys at the start of a line; the first one counts.

    A `read_only` that is said twice and differently has no text, so that nobody takes a side.
    """
    fields: dict[str, Field] = {}
    read_only_lines = set()
    for match in _KNOWN_LINE.finditer(header):
        key = match[1]
        if key == "read_only":
            read_only_lines.add(match[0])
        if key in fields:
            continue
        text, start, end = match[3].strip(), match.start(3), match.end(3)
        try:
            field = _read_mapping(match[0]).fields[key]
        except (_UnreadableError, KeyError):
            fields[key] = Field(text=text, start=start, end=end)
        else:
            offset = match.start()
            fields[key] = Field(text=field.text, start=field.start + offset, end=field.end + offset)
    if len(read_only_lines) > 1:
        field = fields["read_only"]
        fields["read_only"] = Field(text=None, start=field.start, end=field.end)
    return fields


def _changes_only(key: str, value: Scalar, before: str, after: str) -> bool:
    """Whether `after` says of `key` what it should and of all else what `before` said.

    Where `before` had to be repaired, a healed `after` may say more.
    """
    old, new = read_header(before), read_header(after)

    def others(header: Header, text: str) -> dict[str, tuple[str | None, str]]:
        return {
            name: (field.text, text[field.start : field.end])
            for name, field in header.fields.items()
            if name != key
        }

    kept, found = others(old, before), others(new, after)
    if key not in new.fields or new.fields[key].text != dump_text(value):
        return False
    if old.problem:
        return kept.items() <= found.items()
    return kept == found and not new.problem


def dump_text(value: Scalar) -> str:
    """The text that reading back a dumped scalar gives."""
    return value if isinstance(value, str) else dump_scalar(value)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _common(first: list[str], second: list[str]) -> int:
    """How many lines are the same at the start of both."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
