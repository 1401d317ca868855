"""`opencode-memory stats` and `report`, and the route that fills the ledger."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from sidecar.settings import Settings
from sidecar.usage import add_up
from sidecar.usage_page import render_page
from sidecar.usage_text import SHOWN, describe_usage
from snapshots.ledger import Ledger, Step, read_steps

from .test_cli import run, run_json, run_on_terminal
from .test_usage import hit, judged_sessions, miss, step

NOW = 1_000_000.0


def write(settings: Settings, *steps: Step) -> None:
    book = Ledger(settings.ledger_file)
    book.add(steps)
    book.close()


def text_of(*steps: Step, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    usage = judged_sessions(steps)
    total = add_up([each for session in usage for each in session.judged])
    return describe_usage(usage, total, width=width, colour=colour, unicode=unicode)


# The command


def test_an_empty_ledger_is_said_and_is_no_failure() -> None:
    assert run("stats").stdout.startswith("No request is in the ledger yet.")
    assert run_json("stats")["data"]["total"]["hit_rate"] is None
    assert run("stats", "ses_none").returncode == 1


def test_a_session_is_shown_with_its_misses_and_the_alarm(settings: Settings) -> None:
    write(settings, miss(0), hit(1), miss(2), step(0, session_id="ses_b", read=9_900))
    said = run("stats", "ses_a").stdout
    assert "ses_a" in said
    assert "ses_b" not in said
    assert "misses: first 1, prefix moved 1" in said
    assert "PREFIX MOVED at 1 of 3 requests" in said
    assert "opencode-memory verify" in said
    data = run_json("stats")["data"]
    assert {session["session_id"] for session in data["sessions"]} == {"ses_a", "ses_b"}
    assert data["total"]["requests"] == 4
    (session,) = run_json("stats", "ses_a")["data"]["sessions"]
    assert [each["verdict"] for each in session["steps"]] == ["first", "hit", "prefix moved"]


def test_since_leaves_out_what_was_before(settings: Settings) -> None:
    now = time.time()
    recent = {"started_at": now - 3_000, "finished_at": now - 2_990}
    write(settings, miss(0), miss(1, **recent))
    for since, requests in (("1h", 1), ("2w", 1), ("1970-01-01", 2), ("10m", 0)):
        assert run_json("stats", "--since", since)["data"]["total"]["requests"] == requests
    misses = run_json("stats", "--since", "1h")["data"]["total"]["misses"]
    assert (misses["first"], misses["expired"]) == (0, 1)  # though what was before is not shown
    for nonsense in ("yesterday", "7", "-1d", "9999999999d"):
        assert run("stats", "--since", nonsense).returncode == 2


def test_a_ledger_that_cant_be_read_is_a_sentence(settings: Settings) -> None:
    settings.data_folder.mkdir(parents=True)
    settings.ledger_file.write_bytes(b"not a database" * 100)
    done = run("stats")
    assert done.returncode == 1
    assert "can't be read" in done.stderr
    assert settings.ledger_file.read_bytes() == b"not a database" * 100


def test_the_setting_says_how_long_a_provider_keeps_a_prompt(settings: Settings) -> None:
    write(settings, miss(0), hit(1), miss(2, started_at=step(1).started_at + 400))
    (folder,) = settings.config_folders
    folder.mkdir(parents=True)
    for minutes, miss_is in ((5, "expired"), (60, "prefix moved")):
        (folder / "agent-memory.json").write_text(json.dumps({"cache_minutes": minutes}))
        assert run_json("stats")["data"]["total"]["misses"][miss_is] == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
@pytest.mark.parametrize("no_colour", ["", "1"])
def test_a_terminal_is_told_colours_unless_its_user_wants_none_and_nothing_else(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, no_colour: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_colour)
    write(settings, miss(0), hit(1), miss(2), miss(0, session_id="ses_\x1b]0;owned\a\x1b[2J"))
    shown = run_on_terminal("stats")
    assert rb"ses_\x1b]0;owned\x07\x1b[2J" in shown
    assert b"\x1b[2J" not in shown
    assert b"\x1b]" not in shown
    assert (b"\x1b[1;31mM\x1b[0m" in shown) == (no_colour == "")


# The text


def test_the_chart_has_a_column_for_each_request_and_fits_the_width() -> None:
    steps = [miss(0), *(hit(number) for number in range(1, 100)), miss(100)]
    lines = text_of(*steps, width=60).splitlines()
    chart = [line.strip() for line in lines if re.fullmatch(r"  [▁-█fM]+", line)]
    assert "".join(chart)[0] == "f"
    assert "".join(chart)[-1] == "M"
    assert len("".join(chart)) == 101
    assert all(len(line) <= 60 for line in lines if line.startswith("  f"))


def test_without_unicode_and_without_colour_it_is_plain() -> None:
    said = text_of(miss(0), hit(1), miss(2), unicode=False)
    assert said.isascii()
    assert "f#M" in said
    assert "\x1b" not in said
    assert "\x1b[1;31mM" in text_of(miss(0), hit(1), miss(2), colour=True)


def test_where_no_provider_tells_it_is_no_data_and_not_zero() -> None:
    said = text_of(step(0, input=10_000, cache_write=0))
    assert "hit rate no data" in said
    assert "0.0 %" not in said


def test_of_many_sessions_the_last_are_listed_and_all_are_counted() -> None:
    steps = [step(n, session_id=f"ses_{n}", read=9_000) for n in range(SHOWN + 5)]
    said = text_of(*steps)
    assert "and 5 sessions more" in said
    assert f"total of {SHOWN + 5} sessions: {SHOWN + 5} requests" in said


# The page


class Page(HTMLParser):
    """What a browser would see, if the page is well-formed."""

    VOID = ("meta", "rect", "path", "br", "i")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attributes]
        assert not {"src", "href", "onload", "onclick"} & set(names)
        if tag == "svg":
            assert "aria-label" in names
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data


@pytest.mark.parametrize("count", [0, 1, 500])
def test_the_page_is_whole_and_needs_nothing_beside_it(count: int) -> None:
    steps = [
        each
        for n in range(count)
        for each in (miss(0, session_id=f"ses_{n}"), hit(1, session_id=f"ses_{n}", cost=0.5))
    ]
    page = Page(render_page(judged_sessions(steps), NOW))
    assert page.tags.count("tr") == (count + 1 if count else 0)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert ("No request is in the ledger yet." in page.words) == (count == 0)


def test_the_page_has_the_sums_the_alarm_and_the_subagents() -> None:
    steps = [miss(0), hit(1), miss(2), miss(0, session_id="ses_child", parent_id="ses_a")]
    page = Page(render_page(judged_sessions(steps), NOW))
    assert "The prefix has moved at 1 of 4 requests." in page.words
    assert "a subagent of ses_a" in page.words
    calm = Page(render_page(judged_sessions(steps[:2]), NOW))
    assert "has moved" not in calm.words


def test_nothing_that_a_host_says_becomes_markup() -> None:
    bad = '"><script>alert(1)</script>'
    page = Page(render_page(judged_sessions([step(0, session_id=bad, parent_id=bad)]), NOW))
    assert "script" not in page.tags
    assert bad in page.words


def test_a_report_replaces_a_report_and_no_other_file(settings: Settings, tmp_path: Path) -> None:
    write(settings, miss(0), hit(1))
    file = tmp_path / "usage.html"
    assert run("report", "--html", "usage.html", cwd=tmp_path).returncode == 0
    first = file.read_text(encoding="utf-8")
    assert "ses_a" in first
    assert run("report", "--html", str(file), "--since", "1d").stdout.endswith(" 0 sessions.\n")
    assert "ses_a" not in file.read_text(encoding="utf-8")
    mine = tmp_path / "mine.html"
    mine.write_text("<!doctype html>\nmine")
    for place in (mine, tmp_path, tmp_path / "none" / "usage.html"):
        assert run("report", "--html", str(place)).returncode == 1
    assert mine.read_text() == "<!doctype html>\nmine"
    assert run("report", "--html", str(mine), "--force").returncode == 0
    assert "ses_a" in mine.read_text(encoding="utf-8")
    assert run("report", "--html", str(tmp_path), "--force").returncode == 1
    assert run("report").returncode == 2


# The route


def as_sent(each: Step) -> dict[str, Any]:
    return {name: getattr(each, name) for name in Step.__struct_fields__}


async def test_what_is_sent_is_in_the_ledger_when_it_is_answered(
    client: TestClient[Any, Any], settings: Settings
) -> None:
    body = {"steps": [as_sent(miss(0)), {**as_sent(hit(1)), "of_a_newer_shim": 1}]}
    for _ in range(2):
        reply = await client.post("/v1/usage", json=body)
        assert reply.status == 204
    kept = await asyncio.to_thread(read_steps, settings.ledger_file)
    assert kept == [miss(0), hit(1)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": -1},
        {"input": 1.5},
        {"input": 2**63},
        {"started_at": -1},
        {"started_at": 1e12},
        {"outcome": "odd"},
        {"agent": "a" * 201},
        {"cost": None},
        {"cost": -1},
        {"cost": 1e10},
    ],
)
async def test_what_is_no_step_is_refused_and_leaves_nothing(
    wrong: dict[str, object], client: TestClient[Any, Any], settings: Settings
) -> None:
    reply = await client.post("/v1/usage", json={"steps": [{**as_sent(miss(0)), **wrong}]})
    assert reply.status == 400
    assert await asyncio.to_thread(read_steps, settings.ledger_file) == []


@pytest.mark.parametrize(("count", "status"), [(100, 204), (101, 400)])
async def test_a_hundred_steps_are_taken_at_once_and_no_more(
    count: int, status: int, client: TestClient[Any, Any]
) -> None:
    steps = [as_sent(miss(number)) for number in range(count)]
    assert (await client.post("/v1/usage", json={"steps": steps})).status == status


async def test_a_newer_versions_ledger_is_refused_in_a_sentence(
    client: TestClient[Any, Any], settings: Settings
) -> None:
    import sqlite3

    settings.data_folder.mkdir(parents=True)
    connection = sqlite3.connect(settings.ledger_file)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    reply = await client.post("/v1/usage", json={"steps": [as_sent(miss(0))]})
    assert reply.status == 409
    assert "newer version" in json.loads(await reply.text())["error"]["message"]
