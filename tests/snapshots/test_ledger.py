"""The ledger's file: whole, private, bounded, and never worth a failure."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import ledger
from snapshots.ledger import Ledger, NewerLedgerError, Step, read_steps

from ..process import within

DAY = 86_400.0
NOW = 100 * DAY


def step(number: int = 0, session_id: str = "ses_a", **fields: object) -> Step:
    given: dict[str, object] = {
        "session_id": session_id,
        "message_id": f"msg_{number}",
        "parent_id": None,
        "started_at": NOW + number,
        "finished_at": NOW + number + 0.5,
        "provider": "p",
        "model": "m",
        "agent": "build",
        "outcome": "done",
        "compaction": False,
        "input": 1,
        "output": 2,
        "reasoning": 3,
        "cache_read": 4,
        "cache_write": 5,
        "cost": 0.25,
    }
    return Step(**{**given, **fields})  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "usage.sqlite3"


@pytest.fixture
def book(file: Path) -> Iterator[Ledger]:
    book = Ledger(file)
    yield book
    book.close()


def test_what_is_written_is_read_in_the_order_of_time(book: Ledger, file: Path) -> None:
    steps = [step(2), step(0), step(1, "ses_b", parent_id="ses_a", compaction=True)]
    book.add(steps)
    assert read_steps(file) == [steps[1], steps[2], steps[0]]
    assert read_steps(file, session_id="ses_b") == [steps[2]]
    assert read_steps(file, since=NOW + 1) == [steps[2], steps[0]]
    assert read_steps(file.with_name("none.db")) == []
    assert not file.with_name("none.db").exists()


def test_a_step_that_comes_twice_counts_once_and_as_it_came_last(book: Ledger, file: Path) -> None:
    book.add([step(0, output=1), step(0, output=2)])
    book.add([step(0, output=3)])
    assert read_steps(file) == [step(0, output=3)]


def test_it_is_the_users_alone(book: Ledger, file: Path) -> None:
    previous = os.umask(0)
    try:
        book.add([step()])
    finally:
        os.umask(previous)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    for each in file.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


def test_sessions_go_with_their_last_step_and_not_before(book: Ledger, file: Path) -> None:
    old = step(0, started_at=NOW - 40 * DAY)
    book.add([old, step(1), step(0, "ses_over", started_at=NOW - 31 * DAY)])
    assert book.purge(NOW, 30 * DAY) == 1
    assert read_steps(file) == [old, step(1)]


def test_a_clock_that_jumps_ahead_removes_nothing(book: Ledger, file: Path) -> None:
    book.add([step(0), step(0, "ses_b", started_at=NOW - 20 * DAY)])
    assert book.purge(NOW + 365 * DAY, 30 * DAY) == 0
    assert len(read_steps(file)) == 2


def test_a_clock_that_has_jumped_ahead_and_back_removes_nothing(book: Ledger, file: Path) -> None:
    book.add([step(0), step(0, "ses_b", started_at=NOW + 365 * DAY)])
    assert book.purge(NOW, 30 * DAY) == 0
    assert len(read_steps(file)) == 2


def test_of_too_many_steps_the_oldest_go(
    book: Ledger, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MAX_STEPS", 10)
    book.add([step(number) for number in range(25)])
    book.purge(NOW, 30 * DAY)
    assert [each.message_id for each in read_steps(file)] == [f"msg_{n}" for n in range(15, 25)]


def test_a_purge_of_nothing_makes_no_file(book: Ledger, file: Path) -> None:
    assert book.purge(NOW, 30 * DAY) == 0
    assert not file.exists()
    book.add([])
    assert book.purge(NOW, 30 * DAY) == 0
    book.close()
    book.add([step()])
    assert read_steps(file) == [step()]


def test_a_file_that_is_just_being_made_has_no_steps(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    assert read_steps(file) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
def test_a_link_in_its_place_is_not_followed(book: Ledger, file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        book.add([step()])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4000]
)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    content: bytes, book: Ledger, file: Path
) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    book.add([step()])
    assert read_steps(file) == [step()]
    (aside,) = file.parent.glob("usage.sqlite3.corrupt.*")
    assert aside.read_bytes() == content


def test_a_page_that_is_torn_under_way_is_found_and_the_file_set_aside(
    book: Ledger, file: Path
) -> None:
    book.add([step(0)])
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM steps")  # what the ledger has in its memory is stale now
    connection.execute("PRAGMA wal_checkpoint")
    with file.open("r+b") as torn:
        torn.seek(4096)
        torn.write(b"\xff" * 8192)
    connection.close()
    book.add([step(1)])
    assert read_steps(file) == [step(1)]
    assert len(list(file.parent.glob("usage.sqlite3.corrupt.*"))) == 1


def test_a_file_that_another_program_holds_is_not_taken_for_a_damaged_one(
    book: Ledger, file: Path
) -> None:
    book.add([step(0)])
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with within(10), pytest.raises(sqlite3.OperationalError, match="locked"):
        book.add([step(1)])
    other.execute("COMMIT")
    book.add([step(1)])
    assert read_steps(file) == [step(0), step(1)]
    # Who reads holds up nobody.
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM steps").fetchone() == (2,)
    book.add([step(2)])
    other.close()
    assert len(read_steps(file)) == 3


def test_a_newer_versions_file_is_left_alone(book: Ledger, file: Path) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(NewerLedgerError, match="newer version"):
        book.add([step()])
    with pytest.raises(NewerLedgerError):
        read_steps(file)
    assert file.read_bytes() == before


def test_steps_are_read_while_they_are_written(book: Ledger, file: Path) -> None:
    book.add([step(0)])
    problems: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1, 100):
                book.add([step(number)])
        except BaseException as error:
            problems.append(error)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    counts = [len(read_steps(file)) for _ in range(20)]
    for writer in writers:
        writer.join()
    assert problems == []
    assert counts == sorted(counts)
    assert len(read_steps(file)) == 100


def test_what_was_answered_for_survives_a_kill(file: Path) -> None:
    script = (
        "import sys, os, signal; from pathlib import Path\n"
        "from snapshots.ledger import Ledger; from tests.snapshots.test_ledger import step\n"
        "Ledger(Path(sys.argv[1])).add([step(n) for n in range(5)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], check=False, timeout=30)
    assert done.returncode == -9
    assert len(read_steps(file)) == 5


def test_the_start_of_a_sidecar_does_not_load_sqlite() -> None:
    script = "import sys, sidecar.app; print('sqlite3' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"
