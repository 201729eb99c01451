"""The page cache: readahead, hits, writeback, throttling, a full file system, NOWAIT."""

from __future__ import annotations

import pytest
from file_world import FileWorld, NoteCall

from blktwin.drivers.backing import (
    EAGAIN,
    EIO,
    ENOSPC,
    EOPNOTSUPP,
    FILE_FSYNC,
    FILE_READ,
    FILE_WRITE,
    IOCB_NOWAIT,
)
from blktwin.sim.files.params import FileParams

K4 = 4096
MIB = 1 << 20


def queued(world: FileWorld) -> list[tuple[int, int, str]]:
    """Return (page, pages, rwbs) of the bios so far, and forget them."""
    base = world.base_bytes >> 9
    rows = [((row.sector - base) // 8, row.length // 8, row.rwbs) for row in world.trace.rows if row.act == "Q"]
    world.trace.rows.clear()
    return rows


def big(kind: str = "ext4", **more: object) -> FileWorld:
    """Build a file of 16 MiB."""
    params = FileParams(kind, 16 * MIB)
    for name, value in more.items():
        setattr(params, name, value)
    return FileWorld(params)


def test_sequential_readahead() -> None:
    """Windows of 4, 8, 16 and then 32 pages; each is asked for when the one before is reached."""
    world = big()
    for page in range(60):
        world.read(page * K4, K4, 0)
    assert queued(world) == [
        (0, 4, "RA"),
        (4, 8, "RA"),
        (12, 16, "RA"),
        (28, 32, "RA"),
        (60, 32, "RA"),
    ]
    assert world.file.cache.nr_misses == 1
    assert world.file.cache.nr_hits == 60


def test_random_reads_read_what_they_want() -> None:
    """A read that follows nothing brings its own pages only."""
    world = big()
    world.read(100 * K4, 2 * K4, 0)
    world.read(900 * K4, K4, 0)
    assert queued(world) == [(100, 2, "RA"), (900, 1, "RA")]
    world.read(100 * K4, 2 * K4, 0)
    assert queued(world) == []


def test_a_large_read_comes_in_windows() -> None:
    """512 KiB at once is read 128 KiB at a time, the next window while the last is awaited."""
    world = big()
    world.read(0, 128 * K4, 0)
    assert queued(world) == [(at, 32, "RA") for at in range(0, 160, 32)]


def test_readahead_ends_with_the_file() -> None:
    """Nothing behind the end is read."""
    world = FileWorld(FileParams("ext4", 10 * K4))
    for page in range(10):
        world.read(page * K4, K4, 0)
    assert sum(pages for _, pages, _ in queued(world)) == 10


def test_holes_are_not_read() -> None:
    """Pages of holes are filled without the device."""
    world = big(is_sparse=True)
    world.read(0, 64 * K4, 0)
    assert queued(world) == []


def test_writes_wait_for_nothing_and_come_down_by_themselves() -> None:
    """Dirty pages leave after 30 s, in order, without REQ_SYNC; fsync sends them at once with it."""
    world = big()
    call = NoteCall(FILE_WRITE, 10 * K4, 4 * K4, 0)
    world.start(world.main, NoteCall(FILE_WRITE, 15 * K4, K4, 0), call)
    world.run(20_000_000_000)
    assert call.final() == 4 * K4
    assert call.done_at_ns == 0
    assert queued(world) == []
    world.run()
    assert queued(world) == [(10, 4, "W"), (15, 1, "W")]
    assert world.machine.events.now_ns > 30_000_000_000
    calls = [NoteCall(FILE_WRITE, 20 * K4, 2 * K4, 0), NoteCall(FILE_FSYNC)]
    world.start(world.main, *calls, at_ns=int(world.machine.events.now_ns))
    world.run()
    assert queued(world)[0] == (20, 2, "WS")
    assert calls[1].lower == ["queued", "ended"]


def test_part_of_a_page_is_read_first() -> None:
    """A write of some bytes needs the rest of their page."""
    world = big()
    assert world.write(K4 + 100, b"x" * 200, 0) == 200
    assert queued(world)[0] == (1, 1, "R")
    world = big(is_sparse=True)
    assert world.write(K4 + 100, b"x" * 200, 0) == 200
    assert [row[2] for row in queued(world)] == ["W"]


def test_throttling() -> None:
    """A writer sleeps while more is dirty than the limit allows; the flusher has begun before."""
    world = big(dirty_background_bytes=16 * K4, dirty_limit_bytes=64 * K4)
    calls = [NoteCall(FILE_WRITE, at * 32 * K4, 32 * K4, 0) for at in range(8)]
    world.start(world.main, *calls)
    while world.machine.events.size and not all(call.returned is not None for call in calls):
        world.machine.run(1 << 62, 1)
        assert world.file.cache.nr_unwritten() <= (64 + 32)
    assert world.file.cache.nr_throttles > 0
    assert [call.final() for call in calls] == [32 * K4] * 8
    world.run()
    assert sum(pages for _, pages, _ in queued(world)) == 256


def test_background_writeback_stops_at_its_limit() -> None:
    """What is below the background limit stays until it is old."""
    world = big(dirty_background_bytes=300 * K4, dirty_limit_bytes=3000 * K4)
    world.start(world.main, NoteCall(FILE_WRITE, 0, 1000 * K4, 0))
    world.run(20_000_000_000)
    assert 0 < len(world.file.cache.dirty) <= 300
    world.run()
    assert not world.file.cache.dirty


def test_the_cache_has_a_limit() -> None:
    """Old clean pages go; a page that is used again is read again."""
    world = big(cache_bytes=MIB)
    for at in range(8):
        world.read(at * MIB, MIB, 0)
    assert world.file.cache.nr_pages <= 256 + 64
    queued(world)
    world.read(0, K4, 0)
    assert len(queued(world)) == 1


def test_what_is_being_read_is_read_whatever_the_cache_holds() -> None:
    """A window that the cache cannot hold, or dirty pages that fill it: each page is still read once it is there."""
    window = big(is_sparse=True, cache_bytes=MIB, read_ahead_bytes=16 * MIB)
    window.read(0, MIB, 0)
    assert window.file.cache.nr_hits == 256
    full = big(is_sparse=True, cache_bytes=MIB)
    full.write(8 * MIB, bytes(MIB), 0)
    full.read(0, MIB, 0)
    assert full.file.cache.nr_hits == 256


@pytest.mark.parametrize(("kind", "expected"), [("ext4", ENOSPC), ("tmpfs", ENOSPC)])
def test_a_full_file_system_takes_a_part(kind: str, expected: int) -> None:
    """A buffered write is short when room runs out, and then refused; a punch makes room."""
    params = FileParams(kind, MIB, is_sparse=True, keeps_bytes=True)
    params.free_bytes = 5 * K4
    world = FileWorld(params)
    assert world.write(0, b"a" * 4 * K4, 0) == 4 * K4
    assert world.write(0, b"b" * 2 * K4, 0) == 2 * K4
    assert world.write(8 * K4, b"c" * 4 * K4, 0) == K4
    assert world.write(16 * K4, b"d" * K4, 0) == -expected
    assert world.fsync() == 0
    assert world.punch(0, 2 * K4) == 0
    assert world.file.free_bytes == 2 * K4
    assert world.write(16 * K4, b"d" * 2 * K4, 0) == 2 * K4
    assert world.read(7 * K4, 3 * K4, 0) == bytes(K4) + b"c" * K4 + bytes(K4)


def test_full_direct() -> None:
    """Direct I/O has its room or does nothing."""
    params = FileParams("ext4", MIB, is_sparse=True, keeps_bytes=True)
    params.free_bytes = 2 * K4
    world = FileWorld(params)
    assert world.write(0, b"a" * 4 * K4) == -ENOSPC
    assert world.read(0, 4 * K4) == bytes(4 * K4)
    assert world.write(K4, b"a" * 2 * K4) == 2 * K4
    assert world.file.free_bytes == 0
    assert world.write(K4, b"b" * 2 * K4) == 2 * K4


def test_nowait_reads_need_the_cache() -> None:
    """A NOWAIT buffered read returns what is cached from its begin on."""
    world = big()
    assert world.do(NoteCall(FILE_READ, 0, K4, IOCB_NOWAIT)) == -EAGAIN
    world.read(100 * K4, 2 * K4, 0)
    assert world.do(NoteCall(FILE_READ, 100 * K4, 2 * K4, IOCB_NOWAIT)) == 2 * K4
    assert world.do(NoteCall(FILE_READ, 101 * K4, 2 * K4, IOCB_NOWAIT)) == K4


@pytest.mark.parametrize(("kind", "expected"), [("ext4", -EOPNOTSUPP), ("xfs", K4), ("btrfs", K4)])
def test_nowait_writes(kind: str, expected: int) -> None:
    """Not every file system has NOWAIT buffered writes."""
    assert world_answer(big(kind), expected)


def world_answer(world: FileWorld, expected: int) -> bool:
    """Say whether a NOWAIT buffered write ends as expected."""
    return world.do(NoteCall(FILE_WRITE, 0, K4, IOCB_NOWAIT)) == expected


def test_read_errors() -> None:
    """A page that cannot be read is not in the cache, and its reader is told."""
    params = FileParams("ext4", MIB)
    world = FileWorld(params, faults={"io_error_ppm": 1_000_000})
    assert world.do(NoteCall(FILE_READ, 0, K4, 0)) == -EIO
    assert world.file.cache.nr_pages == 0


def test_write_errors_are_told_once() -> None:
    """fsync tells of a failed writeback, and the next one does not know of it any more."""
    params = FileParams("ext4", MIB)
    world = FileWorld(params, faults={"io_error_ppm": 1_000_000})
    assert world.write(0, bytes(K4), 0) == K4
    world.machine.faults.io_error_ppm = 0
    assert world.fsync() == -EIO
    assert world.fsync() == 0
