"""The small modules of block/: lists of requests, limits, jiffies, priorities, cgroups, bios, and presets."""

from __future__ import annotations

import pytest
from block_world import NoteBio, World

from blktwin.block.bio import (
    BLK_STS_IOERR,
    BLK_STS_OK,
    REQ_FUA,
    REQ_META,
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_RAHEAD,
    REQ_SYNC,
    SplitBio,
    rwbs,
)
from blktwin.block.cgroup import CgroupTree
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_RT, class_of, effective, level_of, pack
from blktwin.block.jiffies import delay_of_jiffies_ns, jiffies, jiffies_to_msecs, msecs_to_jiffies
from blktwin.block.limits import QueueLimits, segments_of, segments_of_op
from blktwin.block.request import FifoList, Request, RequestList, SortList
from blktwin.block.rules import DEFAULT_RULES, PRESET_NAMES, preset


def requests(*sectors: int) -> list[Request]:
    """Make requests of 4 KiB."""
    world = World()
    out = []
    for at, sector in enumerate(sectors):
        rq = Request(world.q, world.q.hctxs[0], at)
        rq.sector, rq.nr_sectors = sector, 8
        out.append(rq)
    return out


def test_request_list() -> None:
    """Both ends, moving all, and counting."""
    a, b, c, d = requests(0, 1, 2, 3)
    one, two = RequestList(), RequestList()
    one.append(b)
    one.prepend(a)
    two.append(c)
    two.append(d)
    one.take_all(two)
    assert (one.count, two.count) == (4, 0)
    one.take_all(two)
    assert [one.pop(), one.pop(), one.pop(), one.pop(), one.pop()] == [a, b, c, d, None]
    assert (one.head, one.tail, one.count) == (None, None, 0)
    two.take_all(one)
    two.append(a)
    assert two.pop() is a


def fifo_order(fifo: FifoList) -> list[Request]:
    """List it."""
    seen: list[Request] = []
    rq = fifo.head
    while rq is not None:
        seen.append(rq)
        rq = rq.fifo_next
    return seen


def test_fifo_list() -> None:
    """Any request leaves, and one takes another's place."""
    a, b, c, d = requests(0, 1, 2, 3)
    fifo = FifoList()
    for rq in (a, b, c, d):
        fifo.append(rq)
    fifo.move_behind(d, a)
    fifo.move_behind(b, c)
    fifo.remove(a)
    assert not a.is_in_fifo
    assert fifo_order(fifo) == [d, c, b]
    assert fifo.tail is b
    assert fifo.count == 3
    for left in (c, d, b):
        fifo.remove(left)
    assert fifo_order(fifo) == []
    assert fifo.count == 0


def test_sort_list() -> None:
    """Equal sectors stand in order of insertion; a request is found although its sector moved down."""
    a, b, c, d = requests(50, 10, 50, 90)
    tree = SortList()
    for rq in (a, b, c, d):
        tree.add(rq)
    assert tree.requests == [b, a, c, d]
    assert tree.first_from(11) is a
    assert tree.first_from(91) is None
    assert tree.starting_at(50) is a
    assert tree.starting_at(51) is None
    assert tree.neighbour(c, -1) is a
    assert tree.neighbour(b, -1) is None
    assert tree.neighbour(d, 1) is None
    c.sector = 5
    assert tree.neighbour(c, -1) is a
    tree.remove(c)
    tree.add(c)
    assert tree.requests == [c, b, a, d]


@pytest.mark.parametrize(("nr_sectors", "segments"), [(0, 0), (1, 1), (8, 1), (9, 2), (2048, 256)])
def test_segments(nr_sectors: int, segments: int) -> None:
    """One per page begun."""
    assert segments_of(nr_sectors) == segments
    assert segments_of_op(REQ_OP_WRITE, nr_sectors) == segments
    assert segments_of_op(REQ_OP_DISCARD, nr_sectors) == 1
    assert segments_of_op(REQ_OP_WRITE_ZEROES, nr_sectors) == 0


@pytest.mark.parametrize(
    ("op", "sector", "nr_sectors", "prefix"),
    [
        (REQ_OP_READ, 0, 1024, 1024),
        (REQ_OP_READ, 0, 1025, 1024),
        (REQ_OP_DISCARD, 0, 5000, 5000),
        (REQ_OP_DISCARD, 0, 9000, 8192),
        (REQ_OP_DISCARD, 100, 9000, 8092),
        (REQ_OP_DISCARD, 4000, 9000, 4192),
        (REQ_OP_WRITE_ZEROES, 0, 9000, 4000),
    ],
)
def test_prefix(op: int, sector: int, nr_sectors: int, prefix: int) -> None:
    """Segments limit reads, their own limits the rest; a discard's next piece begins at a granule."""
    limits = QueueLimits()
    limits.max_discard_sectors = 8500
    limits.discard_granularity_bytes = 4096 * 512
    limits.max_write_zeroes_sectors = 4000
    assert limits.prefix_sectors(op, sector, nr_sectors) == prefix


def test_a_prefix_is_never_empty() -> None:
    """A limit below a block gives a block."""
    limits = QueueLimits()
    limits.max_sectors = 4
    limits.logical_block_bytes = 4096
    assert limits.prefix_sectors(REQ_OP_READ, 0, 16) == 8


@pytest.mark.parametrize(
    ("msecs", "hz", "count"),
    [(3, 100, 1), (3, 250, 1), (4, 250, 1), (5, 250, 2), (3, 1000, 3), (500, 300, 150), (0, 250, 0)],
)
def test_msecs_to_jiffies(msecs: int, hz: int, count: int) -> None:
    """Rounded up, so that nothing is early."""
    assert msecs_to_jiffies(msecs, hz) == count
    assert jiffies_to_msecs(count, hz) >= msecs


@pytest.mark.parametrize("hz", [100, 250, 300, 1000])
@pytest.mark.parametrize("now", [0, 1, 3_999_999, 4_000_000, 123_456_789])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_delays_end_at_a_tick_and_are_never_early(hz: int, now: int, count: int) -> None:
    """At least `count` whole jiffies, at most one more."""
    machine = World(hz=hz).machine
    machine.now = now
    start = jiffies(machine)
    delay = delay_of_jiffies_ns(machine, count)
    assert count * 1_000_000_000 // hz <= delay <= ((count + 1) * 1_000_000_000 + hz - 1) // hz
    machine.now += int(delay) - 1
    assert jiffies(machine) == start + count
    machine.now += 1
    assert jiffies(machine) == start + count + 1


def test_ioprio() -> None:
    """Packed as the kernel packs it; a task without one is best effort at its nice level."""
    assert pack(IOPRIO_CLASS_BE, 4) == 0x4004
    assert (class_of(0x2003), level_of(0x2003)) == (IOPRIO_CLASS_RT, 3)
    assert [effective(0, nice) for nice in (-20, -1, 0, 19)] == [pack(IOPRIO_CLASS_BE, n) for n in (0, 3, 4, 7)]
    assert effective(pack(IOPRIO_CLASS_RT, 1), 10) == pack(IOPRIO_CLASS_RT, 1)


def test_cgroups() -> None:
    """Made on demand with their parents; the same path is the same group."""
    tree = CgroupTree()
    inner = tree.get("/a/b")
    assert inner.path == "/a/b"
    assert inner.depth == 2
    assert inner.parent is tree.get("a")
    assert tree.get("/a/b/") is inner
    assert tree.get("/") is tree.root
    assert tree.root.parent is None
    assert [group.serial for group in tree.by_path.values()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("op", "flags", "letters"),
    [
        (REQ_OP_READ, 0, "R"),
        (REQ_OP_READ, REQ_RAHEAD, "RA"),
        (REQ_OP_WRITE, REQ_SYNC, "WS"),
        (REQ_OP_WRITE, REQ_SYNC | REQ_FUA | REQ_PREFLUSH, "FWFS"),
        (REQ_OP_WRITE, REQ_SYNC | REQ_META, "WSM"),
        (REQ_OP_DISCARD, 0, "D"),
        (REQ_OP_FLUSH, REQ_PREFLUSH, "FF"),
        (REQ_OP_WRITE_ZEROES, 0, "N"),
    ],
)
def test_rwbs(op: int, flags: int, letters: str) -> None:
    """blktrace's letters."""
    assert rwbs(op, flags) == letters


def test_a_chain_of_splits_ends_its_bio_once() -> None:
    """With the first error."""
    whole = NoteBio()
    parts = [SplitBio() for _ in range(2)]
    for part in parts:
        part.parent = whole
        whole.remaining += 1
    parts[1].endio(BLK_STS_IOERR)
    whole.endio(BLK_STS_OK)
    assert whole.ends == []
    parts[0].endio(BLK_STS_OK)
    assert whole.ends == [BLK_STS_IOERR]


def test_presets() -> None:
    """Each is made anew under its own name."""
    for name in PRESET_NAMES:
        rules = preset(name)
        assert rules is not None
        assert rules.name == name
        assert preset(name) is not rules
    assert preset("4.4") is None
    assert DEFAULT_RULES in PRESET_NAMES


def test_is_sync() -> None:
    """Reads, and writes that somebody waits for."""
    (rq,) = requests(0)
    for op, flags, want in (
        (REQ_OP_READ, 0, True),
        (REQ_OP_WRITE, 0, False),
        (REQ_OP_WRITE, REQ_SYNC, True),
        (REQ_OP_WRITE, REQ_FUA, True),
        (REQ_OP_WRITE, REQ_PREFLUSH, True),
    ):
        rq.op, rq.flags = op, flags
        assert rq.is_sync() is want
