"""fsync: journal, flush, and what it waits for."""

from __future__ import annotations

from file_world import DISK, FileWorld, NoteCall

from blktwin.drivers.backing import FILE_FSYNC
from blktwin.sim.files.params import FileParams


def ops(world: FileWorld) -> list[tuple[str, int]]:
    """Return (rwbs, sectors) of all that was issued."""
    return [(row.rwbs, row.length) for row in world.trace.rows if row.act == "D"]


def test_only_a_flush_when_nothing_has_changed() -> None:
    """Without a change of the inode the device's cache is flushed, and no more."""
    world = FileWorld()
    assert world.fsync() == 0
    assert ops(world) == [("FF", 0)]


def test_commit_after_a_write() -> None:
    """A write has changed the inode's times: the journal's blocks, then a record with a flush on both sides."""
    world = FileWorld()
    world.write(0, b"x" * 4096)
    world.trace.rows.clear()
    call = NoteCall(FILE_FSYNC)
    assert world.do(call) == 0
    assert call.lower == ["queued", "ended"]
    assert [op for op in ops(world) if op[1]] == [("WSM", 16), ("WSM", 8)]
    assert [op[0] for op in ops(world)].count("FF") == 2
    assert not world.image.cached
    world.trace.rows.clear()
    assert world.fsync() == 0
    assert ops(world) == [("FF", 0)]


def test_no_cache_no_flush() -> None:
    """A device without a write cache sees the commit, and no flush."""
    world = FileWorld(disk=DISK.replace("write_cache=1", "write_cache=0"))
    world.write(0, b"x" * 4096)
    world.trace.rows.clear()
    assert world.fsync() == 0
    assert [op[1] for op in ops(world)] == [16, 8]


def test_no_journal() -> None:
    """A file system without a journal only flushes."""
    params = FileParams("ext4", 1 << 20, keeps_bytes=True)
    params.journal_bytes = 0
    world = FileWorld(params)
    world.write(0, b"x" * 4096)
    world.trace.rows.clear()
    assert world.fsync() == 0
    assert ops(world) == [("FF", 0)]
    assert not world.image.cached
