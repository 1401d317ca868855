import os
import subprocess
import sys
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots.frontmatter import (
    FrontMatterError,
    dump_scalar,
    new_document,
    read_document,
    read_header,
)

EXAMPLES = int(os.environ.get("MEMORY_EXAMPLES", "300"))

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
STRUCTURED = st.text(st.sampled_from(list("-ab:# \t\r\n\"'>|[{&*!%@`é🎉\ufeff\u2028\x85\x00")))
VALUES = st.one_of(TEXT, STRUCTURED)


@st.composite
def documents(draw):
    """Files of every shape: a fence or none, a header of lines or of noise, any body."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    line = st.sampled_from(
        [
            "label: a",
            "description: a: b",
            "description: >-\n  folded\n  text",
            "limit: 10 # ten",
            "tags: [a, {b: c}]",
            "# a comment",
            "",
            "other:   'kept'",
            '"unterminated',
            "read_only: no",
        ]
    )
    header = newline.join(draw(st.lists(line, max_size=6))) + newline
    header = draw(st.one_of(st.just(header), STRUCTURED.map(lambda text: text + newline)))
    fence = draw(st.sampled_from(["---", "---  ", "---\t"]))
    start = draw(st.sampled_from(["", "\ufeff"]))
    front = draw(st.sampled_from(["", f"---{newline}{header}{fence}{newline}", f"---{newline}"]))
    return start + front + draw(VALUES)


@pytest.fixture(params=["CBaseLoader", "BaseLoader"])
def both_loaders(request, monkeypatch):
    """PyYAML without its C part has to read the same."""
    if request.param == "BaseLoader":
        monkeypatch.delattr(yaml, "CBaseLoader")


def texts(header: str) -> dict[str, str | None]:
    return {key: field.text for key, field in read_header(header).fields.items()}


@given(documents())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_document_is_its_file(text):
    assert read_document(text).text == text


@given(documents(), VALUES)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_value_set_is_the_value_got_and_the_header_stays(text, value):
    before = read_document(text)
    after = before.with_value(value)
    assert after.value == value
    assert (after.bom, after.opening, after.header) == (before.bom, before.opening, before.header)
    if before.opening:
        assert read_document(after.text) == after


@given(documents())
@settings(max_examples=EXAMPLES, deadline=None)
def test_setting_the_value_that_is_there_changes_nothing(text):
    document = read_document(text)
    assert document.with_value(document.value).text == text


@given(documents(), VALUES, st.sampled_from(["label", "description", "limit", "new"]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_field_set_is_the_field_got_and_all_else_stays_or_it_is_refused(text, value, key):
    before = read_document(text)
    if not before.opening:
        return
    try:
        after = before.with_field(key, value)
    except FrontMatterError:
        return
    assert texts(after.header)[key] == value
    assert (after.body, after.opening, after.closing) == (
        before.body,
        before.opening,
        before.closing,
    )
    others = {name: text for name, text in texts(before.header).items() if name != key}
    found = {name: text for name, text in texts(after.header).items() if name != key}
    healed = read_header(before.header).problem != ""
    assert others.items() <= found.items() if healed else others == found
    assert read_document(after.text) == after


@given(VALUES, VALUES)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_new_document_is_read_by_a_strict_yaml_reader(description, value):
    document = new_document({"description": description, "limit": 7, "read_only": False}, value)
    assert read_document(document.text) == document
    assert document.value == value
    assert yaml.safe_load(document.header) == {
        "description": description,
        "limit": 7,
        "read_only": False,
    }


@pytest.mark.parametrize(
    "text",
    ["true", "123", "1e3", "0o17", "0x1F", "1_000", "~", "null", "No", "a: b", "a #b", "- a"],
)
def test_text_that_another_reader_could_take_for_something_else_is_quoted(text):
    assert dump_scalar(text)[0] in "'\""


def test_plain_text_stays_plain():
    assert dump_scalar("Who the user is") == "Who the user is"
    assert dump_scalar("x" * 500 + " y" * 500).count("\n") == 0


@pytest.mark.usefixtures("both_loaders")
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("label: 2024-01-01\nlimit: 0x10\n", {"label": "2024-01-01", "limit": "0x10"}),
        ("description: >-\n  a: b,\n  c\n", {"description": "a: b, c"}),
        ("description: |-\n  a # b\n  line2\n", {"description": "a # b\nline2"}),
        ("label: 'true'\n", {"label": "true"}),
        ("description: a # b\n", {"description": "a"}),
        ("description:\n", {"description": ""}),
        ("{label: a, tags: [x]}\n", {"label": "a", "tags": None}),
        ("# nothing\n", {}),
        ("label: !!str 12\n", {"label": "12"}),
        ("label: a\r\ndescription: |\r\n  b\r\n", {"label": "a", "description": "b\n"}),
    ],
)
def test_yaml_is_read_as_yaml_and_scalars_as_text(header, expected):
    assert texts(header) == expected
    assert read_header(header).problem == ""


@pytest.mark.usefixtures("both_loaders")
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            "description: Use when: foo\nlimit: 7 # c\n",
            {"description": "Use when: foo", "limit": "7"},
        ),
        ('label: a\ndescription: "unterminated\n', {"label": "a", "description": '"unterminated'}),
        ("label: a\n\tlimit: 5\n", {"label": "a\tlimit: 5"}),
        ("label: a\nread_only:true\n", {"label": "a", "read_only": "true"}),
        ("label: a\nlabel: b\n", {"label": "a"}),
        ("read_only: false\nread_only: true\n", {"read_only": None}),
        ("{a: 1\n", {}),
        ("- a\n", {}),
        ("label: a\n--- {limit: 7}\n", {"label": "a"}),
        ("words\n", {}),
        ("<<: {read_only: true}\nlabel: x\n", {"label": "x"}),
        ("[a]: b\nlabel: x\n", {"label": "x"}),
        ("? [a]\n: b\nlabel: x\n", {"label": "x"}),
        ("label: x\nbad: 'a\x01'\n", {"label": "x"}),
        (
            "description: a: b\nlabel: >-\n  two\n  lines\n",
            {"description": "a: b", "label": "two lines"},
        ),
    ],
)
def test_what_is_no_yaml_mapping_is_reported_and_repaired_by_its_simple_lines(header, expected):
    found = texts(header)
    if "\t" not in header:  # the two loaders disagree on tabs
        assert found == expected
    assert read_header(header).problem or "\t" in header


def test_aliases_are_reported_and_not_followed():
    bomb = "a: &a [x, x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(9)) + "label: *a\n"
    header = read_header(bomb)
    assert "aliases" in header.problem
    assert header.fields["label"].text is None


HOSTILE = {
    "nested lists": "a: " + "[" * 2000,
    "nested lists on lines": "[\n" * 30_000,
    "nested sequences": "- " * 32_000 + "x",
    "nested keys": "? " * 32_000,
    "nested mappings": "{a: \n" * 12_000,
    "long": "label: x\n" + "k: v\n" * 200_000,
    "many lines of one key": "read_only: true\n" * 60_000,
    "many keys": "".join(f"k{i}: 1\n" for i in range(6000)),
    "one long line": "label: " + "x" * 1_000_000,
    "blank continuation": "label: [\n" + " \n" * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_front_matter_costs_little_time(name):
    started = time.monotonic()
    read_header(HOSTILE[name] + "\n")
    assert time.monotonic() - started < 2


def test_deep_nesting_needs_no_stack():
    """In a process of its own: the C parser's way to fail would be to end the process."""
    code = (
        "import threading\n"
        "from snapshots.frontmatter import read_header\n"
        "threading.stack_size(256 * 1024)\n"
        "def run():\n"
        "    for text in ('- ' * 900 + 'x', 'a: ' + '[' * 900 + ']' * 900, '[\\n' * 30000):\n"
        "        read_header(text)\n"
        "    print('done')\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("text", "value", "header"),
    [
        ("---\nlabel: a\n---\nbody\n", "body", "label: a\n"),
        ("---\nlabel: a\n---  \nbody", "body", "label: a\n"),
        ("---\nlabel: a\n---", "", "label: a\n"),
        ("---\n---\nbody\n\n", "body\n", ""),
        ("--- \t\nlabel: a\n---\n---\nrule\n---\n", "---\nrule\n---", "label: a\n"),
        ("\ufeff---\nlabel: a\n---\nbody", "body", "label: a\n"),
        ("---\r\nlabel: a\r\n---\r\none\r\ntwo\r\n", "one\ntwo", "label: a\r\n"),
        ("---\nlabel: a\n---\none\r\ntwo\r\n", "one\r\ntwo\r", "label: a\n"),
        ("body\n", "body", ""),
        ("", "", ""),
        ("one\r\ntwo\r\n", "one\ntwo", ""),
        ("----\nbody", "----\nbody", ""),
    ],
)
def test_the_body_is_what_follows_the_closing_fence_less_one_line_end(text, value, header):
    document = read_document(text)
    assert (document.value, document.header, document.problem) == (value, header, "")


@pytest.mark.parametrize(
    "text",
    [
        "---\nlabel: a\nno closing\n",
        "---",
        "---\rread_only: true\r---\rbody",
        "\n---\nread_only: true\n---\nbody\n",
        "\ufeff\ufeff---\nread_only: true\n---\nbody\n",
    ],
)
def test_a_fence_that_is_no_front_matter_is_reported_and_the_whole_text_is_the_value(text):
    document = read_document(text)
    assert document.problem
    assert document.value == text.removeprefix("\ufeff").removesuffix("\n")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        (
            "---\r\na: b\r\n---\r\none\r\ntwo\r\n",
            "one\nTWO",
            "---\r\na: b\r\n---\r\none\r\nTWO\r\n",
        ),
        ("---\r\n---\r\na\nb\r\nc\nd\r\n", "a\nb\nX\nd", "---\r\n---\r\na\nb\r\nX\nd\r\n"),
        ("---\r\n---\r\na\nb\n", "a\r\nb", "---\r\n---\r\na\r\r\nb\n"),
        ("---\n---\na\r\nb\n", "a\r\nc", "---\n---\na\r\nc\n"),
        ("---\na: b\n---", "new", "---\na: b\n---\nnew\n"),
        ("---\na: b\n---\nold", "new", "---\na: b\n---\nnew"),
        ("---\na: b\n---\nold", "new\n", "---\na: b\n---\nnew\n\n"),
        ("\ufeff---\na: b\n---\nold\n", "", "\ufeff---\na: b\n---\n\n"),
        ("no front matter", "new", "new"),
    ],
)
def test_lines_that_stay_keep_their_line_ends(text, value, expected):
    assert read_document(text).with_value(value).text == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("label: a\ndescription: old # why\nx: 1\n", "label: a\ndescription: 'a: b' # why\nx: 1\n"),
        ("description: >-\n  old\n  text\nx: 1\n", "description: 'a: b'\nx: 1\n"),
        ("description:\nx: 1\n", "description: 'a: b'\nx: 1\n"),
        ("description: 'old\n  text'\n", "description: 'a: b'\n"),
        ("x: [1,\n  2]\n# end\n", "x: [1,\n  2]\n# end\ndescription: 'a: b'\n"),
        ("  x: 1\n", "  x: 1\n  description: 'a: b'\n"),
        ("", "description: 'a: b'\n"),
        ("{label: a, description: old}\n", '{label: a, description: "a: b"}\n'),
        ("{label: a}\n", '{label: a, description: "a: b"}\n'),
        ("{}\n", '{description: "a: b"}\n'),
        ("x: 1\n...\n", "x: 1\ndescription: 'a: b'\n...\n"),
        ("description: Use when: foo\nx: 1\n", "description: 'a: b'\nx: 1\n"),
    ],
)
def test_setting_a_field_edits_its_lines_only(header, expected):
    document = read_document(f"---\n{header}---\nbody\n")
    assert document.with_field("description", "a: b").header == expected


def test_an_added_field_has_the_files_line_end():
    document = read_document("---\r\nlabel: a\r\n---\r\nbody\r\n")
    assert document.with_field("limit", 7).header == "label: a\r\nlimit: 7\r\n"


@pytest.mark.parametrize("header", ["description: &d old\nlabel: *d\n", "{label: a,}\n"])
def test_a_field_that_cannot_be_set_alone_is_refused(header):
    with pytest.raises(FrontMatterError, match="description"):
        read_document(f"---\n{header}---\n").with_field("description", "new")
