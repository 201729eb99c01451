"""Who answers NOWAIT how (spec/loop.md §4.7), and locks that are held while others look."""

from __future__ import annotations

import pytest
from file_world import FileWorld, NoteCall

from blktwin.drivers.backing import (
    EAGAIN,
    EIOCBQUEUED,
    EOPNOTSUPP,
    FILE_FSYNC,
    FILE_PUNCH,
    FILE_READ,
    FILE_WRITE,
    IOCB_DIRECT,
    IOCB_NOWAIT,
)
from blktwin.sim.costs import Costs
from blktwin.sim.files.params import FileParams

K4 = 4096
NOWAIT = IOCB_DIRECT | IOCB_NOWAIT
SIZE = 1 << 20
ALL = ("ext4", "xfs", "btrfs", "f2fs")


def world_of(kind: str, what: str, **more: object) -> FileWorld:
    """Build a file all of whose blocks are alike."""
    params = FileParams(kind, SIZE, keeps_bytes=True)
    if what == "hole":
        params.is_sparse = True
    elif what == "unwritten":
        params.p_unwritten = 1.0
    elif what == "shared":
        params.p_shared = 1.0
    params.is_nodatacow = True
    for name, value in more.items():
        setattr(params, name, value)
    return FileWorld(params)


def answer(world: FileWorld, op: int, pos: int, nbytes: int) -> int:
    """Return what a NOWAIT call ends in; it never sleeps (FileTask)."""
    return world.do(NoteCall(op, pos, nbytes, NOWAIT))


@pytest.mark.parametrize(
    ("kind", "what", "expected"),
    [
        *((kind, "mapped", K4) for kind in ALL),
        *((kind, "unwritten", K4) for kind in ALL),
        ("ext4", "hole", -EAGAIN),
        ("xfs", "hole", -EAGAIN),
        ("btrfs", "hole", -EAGAIN),
        ("f2fs", "hole", -EOPNOTSUPP),
        ("xfs", "shared", -EAGAIN),
        ("btrfs", "shared", -EAGAIN),
    ],
)
def test_write(kind: str, what: str, expected: int) -> None:
    """A NOWAIT write of a block: never where it would allocate or move."""
    world = world_of(kind, what)
    assert answer(world, FILE_WRITE, 2 * K4, K4) == expected
    assert (world.file.nr_eagain > 0) == (expected == -EAGAIN)


@pytest.mark.parametrize(("what", "expected"), [("mapped", -EAGAIN), ("unwritten", K4), ("hole", -EAGAIN)])
def test_btrfs_moves_everything(what: str, expected: int) -> None:
    """On btrfs only what was preallocated is written in place."""
    world = world_of("btrfs", what, is_nodatacow=False)
    assert answer(world, FILE_WRITE, 0, K4) == expected


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("what", ["mapped", "unwritten", "hole"])
def test_read(kind: str, what: str) -> None:
    """A NOWAIT read of one block goes through."""
    world = world_of(kind, what)
    assert answer(world, FILE_READ, K4, K4) == K4
    assert (len(world.trace.rows) > 0) == (what == "mapped")


def test_btrfs_reads_one_page() -> None:
    """A NOWAIT read of more than a page is refused."""
    assert answer(world_of("btrfs", "mapped"), FILE_READ, 0, 2 * K4) == -EAGAIN


@pytest.mark.parametrize(("kind", "expected"), [("ext4", 4 * K4), ("xfs", -EAGAIN), ("f2fs", 4 * K4)])
def test_several_extents(kind: str, expected: int) -> None:
    """On xfs a NOWAIT write lies in one extent; a read need not."""
    world = world_of(kind, "mapped", p_unwritten=0.5, extent_bytes=K4, seed=2)
    states = [world.file.extents.state(block) for block in range(4)]
    assert len(set(states)) > 1, "choose another seed"
    assert answer(world, FILE_READ, 0, 4 * K4) == 4 * K4
    assert answer(world, FILE_WRITE, 0, 4 * K4) == expected


@pytest.mark.parametrize("kind", ALL)
def test_extending_and_parts_of_unwritten_blocks(kind: str) -> None:
    """A NOWAIT write neither extends the file nor zeroes the rest of a block."""
    world = world_of(kind, "unwritten", grow_bytes=SIZE)
    assert answer(world, FILE_WRITE, SIZE - K4, 2 * K4) == -EAGAIN
    assert answer(world, FILE_WRITE, SIZE, K4) == -EAGAIN
    assert answer(world, FILE_WRITE, 512, 512) == -EAGAIN
    assert world.trace.rows == []


def test_cached_pages() -> None:
    """A NOWAIT write finds no cached page, clean or dirty, and a NOWAIT read no dirty one."""
    world = world_of("ext4", "mapped")
    world.read(0, K4, 0)
    assert world.file.cache.find(0) is not None
    assert answer(world, FILE_WRITE, 0, K4) == -EAGAIN
    assert answer(world, FILE_READ, 0, K4) == K4
    assert answer(world, FILE_WRITE, 64 * K4, K4) == K4
    dirty = [
        NoteCall(FILE_WRITE, 0, K4, 0),
        NoteCall(FILE_READ, 0, K4, NOWAIT),
        NoteCall(FILE_READ, 4 * K4, K4, NOWAIT),
    ]
    world.start(world.main, *dirty, at_ns=int(world.machine.events.now_ns))
    world.run()
    assert [call.final() for call in dirty] == [K4, -EAGAIN, K4]
    assert world.file.nr_eagain_cache == 2
    # A blocking one writes and drops the pages, and all is well again.
    assert world.write(0, bytes(K4)) == K4
    assert world.file.cache.find(0) is None
    assert answer(world, FILE_WRITE, 0, K4) == K4


@pytest.mark.parametrize(("kind", "expected"), [("ext4", K4), ("xfs", -EAGAIN), ("btrfs", -EAGAIN), ("f2fs", K4)])
def test_reads_while_another_allocates(kind: str, expected: int) -> None:
    """An allocation holds the extents' lock: on xfs and btrfs a NOWAIT read of other blocks is refused meanwhile."""
    world = world_of(kind, "hole", alloc_ns=50_000)
    writer, reader = world.task(), world.task()
    write = NoteCall(FILE_WRITE, 0, K4, IOCB_DIRECT)
    read = NoteCall(FILE_READ, 64 * K4, K4, NOWAIT)
    world.start(writer, write, cpu=0)
    world.start(reader, read, cpu=1, at_ns=20_000)
    world.run()
    assert read.final() == expected
    assert read.done_at_ns == 20_000
    assert write.final() == K4
    assert write.done_at_ns >= 50_000


def test_blocking_reads_wait_for_an_allocation() -> None:
    """Without NOWAIT the read on xfs comes later, not never."""
    world = world_of("xfs", "hole", alloc_hold_ns=70_000, alloc_ns=10_000)
    read = NoteCall(FILE_READ, 64 * K4, K4, IOCB_DIRECT)
    world.start(world.task(), NoteCall(FILE_WRITE, 0, K4, IOCB_DIRECT), cpu=0)
    world.start(world.task(), read, cpu=1, at_ns=20_000)
    world.run()
    assert read.final() == K4
    assert read.done_at_ns == 80_000


@pytest.mark.parametrize(("kind", "expected"), [("ext4", K4), ("f2fs", -EAGAIN)])
def test_writes_while_another_submits(kind: str, expected: int) -> None:
    """On f2fs a write has the inode to itself while it is submitted; elsewhere overwrites share it."""
    params = FileParams(kind, SIZE)
    world = FileWorld(params, disk="/dev/nullb0,size=256m,latency=10us,depth=1")
    first = [NoteCall(FILE_WRITE, at * K4, K4, IOCB_DIRECT) for at in range(2)]
    late = NoteCall(FILE_WRITE, 8 * K4, K4, NOWAIT)
    world.start(world.task(), *first)
    # The second waits for the only tag, with the lock; at 10 us it gets it, and at 20 us that is free again.
    world.start(world.task(), late, cpu=1, at_ns=5000)
    world.run()
    assert [call.final() for call in first] == [K4, K4]
    assert late.final() == -EAGAIN
    assert (world.file.nr_eagain_lock == 1) == (expected == -EAGAIN)
    assert (world.file.nr_eagain_lower == 1) == (expected == K4)


def test_fallocate_is_a_barrier() -> None:
    """A punch waits for the direct I/O in flight, and what comes meanwhile waits for it."""
    world = FileWorld(disk="/dev/nullb0,size=256m,latency=100us")
    write = NoteCall(FILE_WRITE, 0, K4, IOCB_DIRECT)
    punch = NoteCall(FILE_PUNCH, 64 * K4, K4)
    read = NoteCall(FILE_READ, 128 * K4, K4, IOCB_DIRECT)
    refused = NoteCall(FILE_READ, 128 * K4, K4, NOWAIT)
    world.start(world.task(), write)
    world.start(world.task(), punch, at_ns=10_000)
    world.start(world.task(), refused, read, cpu=1, at_ns=20_000)
    world.run()
    assert write.done_at_ns == 100_000
    assert punch.done_at_ns == 100_000 + world.params.falloc_ns
    assert refused.final() == -EAGAIN
    assert refused.done_at_ns == 20_000
    assert read.done_at_ns == punch.done_at_ns + 100_000


def test_costs_are_charged() -> None:
    """The operation, its end and the copy of pages have their costs."""
    costs = Costs()
    costs.update({"file_op": 1000, "file_done": 300, "file_copy": 50})
    world = FileWorld(FileParams("ext4", SIZE), costs=costs)
    call = NoteCall(FILE_READ, 0, K4, IOCB_DIRECT)
    world.do(call)
    assert call.returned == -EIOCBQUEUED
    assert call.done_at_ns == 1000 + 10_000 + 300
    start = int(world.machine.events.now_ns)
    world.do(NoteCall(FILE_WRITE, 0, 3 * K4, 0))
    call = NoteCall(FILE_READ, 0, 3 * K4, 0)
    start = int(world.machine.events.now_ns)
    world.do(call)
    assert call.done_at_ns == start + 1000 + 3 * 50


def test_nowait_fsync_and_punch() -> None:
    """What always sleeps is refused."""
    world = FileWorld()
    assert world.do(NoteCall(FILE_PUNCH, 0, K4, IOCB_NOWAIT)) == -EAGAIN
    assert world.do(NoteCall(FILE_FSYNC, 0, 0, IOCB_NOWAIT)) == -EAGAIN
