"""The model of an image can fail: each wrong read and each lost sector is found, and named (loop_history.py)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from loop_history import SECTOR, ZEROS, History, payload


def written(*spans: tuple[int, int]) -> History:
    """Return a history of one sector with an acknowledged write over each span of time, serials 1, 2, ..."""
    history = History(4)
    for serial, (start, end) in enumerate(spans, 1):
        effect = history.write(serial, 0, 1, start)
        if end >= 0:
            history.ended(effect, True, False, end)
    return history


def complaint(check: Callable[[], None]) -> str:
    """Return what a check says, "" when it is content."""
    try:
        check()
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("spans", "serial", "read", "said"),
    [
        ([(1, 2)], 1, (3, 4), ""),
        ([(1, 2)], 0, (3, 4), "I4: .* zeros"),
        ([(1, 5)], 0, (3, 4), ""),
        ([(1, -1)], 1, (3, 4), ""),
        ([(1, 2), (3, 4)], 1, (5, 6), "I4: .* write 1 "),
        ([(1, 2), (3, 9)], 1, (5, 6), ""),
        ([(1, 3), (2, 4)], 1, (5, 6), ""),
    ],
)
def test_reads(spans: list[tuple[int, int]], serial: int, read: tuple[int, int], said: str) -> None:
    """A read returns a write that may be the last."""
    history = written(*spans)
    data = payload(serial, 0, 1) if serial else bytearray(ZEROS)
    got = complaint(lambda: history.look(bytes(data), 0, *read))
    assert re.match(said, got) if said else not got


def test_bytes_that_are_nobodys() -> None:
    """Torn, misplaced and invented sectors."""
    history = written((1, 2))
    torn = payload(1, 0, 1)
    torn[100] ^= 1
    assert complaint(lambda: history.look(bytes(torn), 0, 3, 4)).endswith("torn")
    assert "I9" in complaint(lambda: history.look(bytes(payload(1, 0, 1)), 1, 3, 4))
    assert "nobody wrote" in complaint(lambda: history.look(bytes(payload(7, 0, 1)), 0, 3, 4))


def image(serial: int) -> bytes:
    """Return four sectors, the first of one write."""
    first = payload(serial, 0, 1) if serial else ZEROS
    return bytes(first) + ZEROS * 3


def test_power_cuts() -> None:
    """Before a flush anything goes; after it only what it covered, and what came later."""
    history = written((1, 2), (3, 4))
    for serial in (0, 1, 2):
        assert not complaint(lambda at=serial: history.check_crash(image(at), 5))  # type: ignore[misc]
    history.flushed(5, True, 6)
    assert re.match("I6", complaint(lambda: history.check_crash(image(0), 7)))
    assert re.match("I6", complaint(lambda: history.check_crash(image(1), 7)))
    assert not complaint(lambda: history.check_crash(image(2), 7))
    zeros = history.write(0, 0, 1, 8)
    assert not complaint(lambda: history.check_crash(image(0), 9))
    history.ended(zeros, True, False, 10)
    assert not complaint(lambda: history.check_crash(image(2), 11))
    history.flushed(11, True, 12)
    assert re.match("I6", complaint(lambda: history.check_crash(image(2), 13)))


def test_durable_writes_and_failed_flushes() -> None:
    """FUA alone makes durable; a flush that fails takes what it should have covered out of every later one."""
    history = written()
    effect = history.write(1, 0, 1, 1)
    history.ended(effect, True, True, 2)
    assert re.match("I6", complaint(lambda: history.check_crash(image(0), 3)))
    history = written((1, 2))
    history.flushed(3, False, 4)
    history.flushed(5, True, 6)
    assert not complaint(lambda: history.check_crash(image(0), 7))
    history = written((1, 4))
    history.flushed(3, True, 6)
    assert not complaint(lambda: history.check_crash(image(0), 7)), "a write in flight is not covered"


def test_one_order() -> None:
    """One, the other, and so again: each read is legal by itself, together they are not."""
    history = written((1, 20), (2, 21))
    for serial, start, end in ((1, 3, 4), (2, 5, 6), (1, 7, 8), (2, 9, 10)):
        history.look(bytes(payload(serial, 0, 1)), 0, start, end)
    assert re.match("I3: .* alternate", complaint(history.linear))
    history = written((1, 20), (2, 21))
    for serial, start, end in ((1, 3, 4), (2, 5, 6)):
        history.look(bytes(payload(serial, 0, 1)), 0, start, end)
    assert not complaint(history.linear)


def test_overwritten_between() -> None:
    """A write that began and ended between two looks at another one's value."""
    history = written((1, 20), (5, 6))
    for start, end in ((2, 3), (8, 9)):
        history.look(bytes(payload(1, 0, 1)), 0, start, end)
    assert re.match("I3: .* lies within", complaint(history.linear))


def test_payloads_are_sectors() -> None:
    """Each sector's bytes name it."""
    assert len(payload(3, 5, 2)) == 2 * SECTOR
    assert payload(3, 5, 2)[SECTOR:] == payload(3, 6, 1)
