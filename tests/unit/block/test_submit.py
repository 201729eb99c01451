"""The way in: checks, splits, what a bio inherits, direct issue against insertion, and nested submissions."""

from __future__ import annotations

import pytest
from block_world import World

from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_IOERR,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    REQ_FUA,
    REQ_NOMERGE,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_SYNC,
)
from blktwin.block.deadline import Deadline
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, pack
from blktwin.block.limits import QueueLimits


def limits_of(**values: int) -> QueueLimits:
    """Build limits."""
    limits = QueueLimits()
    for name, value in values.items():
        setattr(limits, name, value)
    return limits


def ranges(world: World) -> list[tuple[int, int]]:
    """List what the device holds."""
    return [(int(rq.sector), int(rq.nr_sectors)) for rq in world.device.held]


def test_a_bio_beyond_the_end_fails() -> None:
    """The last sector is fine, one more is EIO, and nothing is traced."""
    world = World()
    task = world.task()
    end = int(world.q.capacity_sectors)
    assert world.submit(task, end - 8).ends == []
    assert world.submit(task, end - 7).ends == [BLK_STS_IOERR]
    assert world.submit(task, -1).ends == [BLK_STS_IOERR]
    assert world.trace.letters() == "QGD"


def test_a_misaligned_bio_fails() -> None:
    """Neither its place nor its length may cut a logical block."""
    world = World(limits=limits_of(logical_block_bytes=4096))
    task = world.task()
    assert world.submit(task, 8, 8).ends == []
    assert world.submit(task, 4, 8).ends == [BLK_STS_IOERR]
    assert world.submit(task, 8, 4).ends == [BLK_STS_IOERR]


@pytest.mark.parametrize(
    ("op", "flags", "status"),
    [
        (REQ_OP_DISCARD, 0, BLK_STS_NOTSUPP),
        (REQ_OP_WRITE_ZEROES, 0, BLK_STS_NOTSUPP),
        (REQ_OP_FLUSH, 0, BLK_STS_NOTSUPP),
        (REQ_OP_READ, REQ_FUA, BLK_STS_IOERR),
        (REQ_OP_DISCARD, REQ_PREFLUSH, BLK_STS_IOERR),
    ],
)
def test_what_a_device_cannot_do(op: int, flags: int, status: int) -> None:
    """Discards without a limit, flushes as bios, and flush flags on other operations than a write."""
    world = World(limits=limits_of(max_discard_sectors=0, max_write_zeroes_sectors=0))
    assert world.submit(world.task(), 0, 8, op, flags).ends == [status]
    assert world.trace.letters() == ""


def test_without_a_volatile_cache_flush_flags_are_dropped() -> None:
    """An empty flush ends at once; a FUA write is a plain one, and merges."""
    world = World()
    task = world.task()
    assert world.flush(task).ends == [BLK_STS_OK]
    world.plug(task)
    world.write(task, 0, flags=REQ_SYNC | REQ_FUA | REQ_PREFLUSH)
    world.write(task, 8)
    world.unplug(task)
    assert ranges(world) == [(0, 16)]
    assert world.device.held[0].flags == REQ_SYNC


def test_a_large_bio_is_split() -> None:
    """By sectors: pieces leave in order, one Q, an X for each cut, and one end."""
    world = World(limits=limits_of(max_sectors=100))
    bio = world.submit(world.task(), 1000, 250)
    assert ranges(world) == [(1000, 100), (1100, 100), (1200, 50)]
    assert world.trace.letters() == "QXGDXGDGD"
    assert world.trace.of("X") == [1100, 1200]
    world.complete(2)
    world.complete(0)
    assert bio.ends == []
    world.complete(0)
    assert bio.ends == [BLK_STS_OK]
    world.check_quiet()


def test_segments_split_too() -> None:
    """Four pages at most, however large max_sectors is."""
    world = World(limits=limits_of(max_segments=4))
    world.submit(world.task(), 0, 80)
    assert ranges(world) == [(0, 32), (32, 32), (64, 16)]
    assert [int(rq.nr_segments) for rq in world.device.held] == [4, 4, 2]


def test_a_split_keeps_whole_blocks() -> None:
    """The limit is rounded down to logical blocks."""
    world = World(limits=limits_of(max_sectors=100, logical_block_bytes=4096))
    world.submit(world.task(), 0, 104)
    assert ranges(world) == [(0, 96), (96, 8)]


def test_discards_split_by_their_own_limit_at_granules() -> None:
    """The second piece begins at a granule."""
    world = World(limits=limits_of(max_discard_sectors=100, discard_granularity_bytes=16384, max_sectors=8))
    world.submit(world.task(), 40, 200, REQ_OP_DISCARD)
    assert ranges(world) == [(40, 88), (128, 96), (224, 16)]


def test_write_zeroes_split_by_their_own_limit() -> None:
    """And have no segments."""
    world = World(limits=limits_of(max_write_zeroes_sectors=64, max_segments=1))
    world.submit(world.task(), 0, 128, REQ_OP_WRITE_ZEROES)
    assert ranges(world) == [(0, 64), (64, 64)]
    assert [int(rq.nr_segments) for rq in world.device.held] == [0, 0]


def test_a_split_front_never_merges() -> None:
    """Neither into what is plugged before it, nor with its own rest."""
    world = World(limits=limits_of(max_sectors=64))
    task = world.task()
    world.plug(task)
    world.submit(task, 0, 8)
    world.submit(task, 8, 72)
    world.submit(task, 80, 8)
    world.unplug(task)
    assert ranges(world) == [(0, 8), (8, 64), (72, 16)], "only the rest is an ordinary bio"
    assert world.device.held[1].flags & REQ_NOMERGE
    # A discard's front may be small enough to fit, and still does not.
    world = World(limits=limits_of(max_discard_sectors=100, discard_granularity_bytes=16384))
    world.plug(task)
    world.submit(task, 32, 8, REQ_OP_DISCARD)
    world.submit(task, 40, 100, REQ_OP_DISCARD)
    world.unplug(task)
    assert ranges(world) == [(32, 8), (40, 88), (128, 12)]


def test_an_error_of_one_part_is_the_bios() -> None:
    """The first error counts, and the bio ends once."""
    world = World(limits=limits_of(max_sectors=8))
    bio = world.submit(world.task(), 0, 24)
    world.complete(1, BLK_STS_IOERR)
    world.complete(0)
    world.complete(0)
    assert bio.ends == [BLK_STS_IOERR]


def test_a_nowait_bio_is_not_split() -> None:
    """EAGAIN; a discard has no such rule."""
    world = World(limits=limits_of(max_sectors=8, max_discard_sectors=8))
    task = world.task()
    assert world.submit(task, 0, 16, REQ_OP_READ, REQ_NOWAIT).ends == [BLK_STS_AGAIN]
    assert world.issued() == []
    world.submit(task, 0, 16, REQ_OP_DISCARD, REQ_NOWAIT)
    assert ranges(world) == [(0, 8), (8, 8)]


def test_a_split_that_sleeps_goes_on_in_order() -> None:
    """The rest stands behind the part that waits, before bios submitted later."""
    world = World(limits=limits_of(max_sectors=8), depth=1)
    task = world.task()
    world.submit(task, 0, 24)
    world.submit(task, 1000)
    order = []
    for _ in range(4):
        order.append(world.issued()[0])
        world.complete()
        if task.is_blocked:
            world.resume(task)
    assert order == [0, 8, 16, 1000]
    world.check_quiet()


def test_a_bio_inherits_priority_and_cgroup() -> None:
    """From the task that submits it, unless it brings its own."""
    world = World()
    task = world.task(cgroup="/a/b", ioprio=pack(IOPRIO_CLASS_BE, 6))
    bio = world.submit(task, 0)
    rq = world.device.held[0]
    assert rq.ioprio == bio.ioprio == pack(IOPRIO_CLASS_BE, 6)
    assert rq.cgroup is world.machine.cgroups.get("/a/b")
    task.ioprio = pack(IOPRIO_CLASS_IDLE, 0)
    world.submit(task, 100)
    assert world.device.held[1].ioprio == pack(IOPRIO_CLASS_IDLE, 0)


def test_direct_issue_needs_no_insertion() -> None:
    """Without an elevator or a plug a request goes straight to the driver."""
    world = World()
    world.submit(world.task(), 0)
    assert world.trace.letters() == "QGD"


def test_a_busy_queue_inserts() -> None:
    """One hardware queue: everything; several: only what nobody waits for."""
    for hw_queues, op, flags, letters in (
        (1, REQ_OP_READ, 0, "QGI"),
        (2, REQ_OP_READ, 0, "QGD"),
        (2, REQ_OP_WRITE, REQ_SYNC, "QGD"),
        (2, REQ_OP_WRITE, 0, "QGI"),
    ):
        world = World(hw_queues=hw_queues, cpus=2)
        world.q.hctxs[0].dispatch_busy = 7
        world.submit(world.task(), 0, 8, op, flags)
        assert world.trace.letters() == letters
        world.complete_all()
        world.check_quiet()


def test_with_an_elevator_kblockd_dispatches() -> None:
    """An unplugged request is inserted and its queue run asynchronously."""
    world = World(elevator=Deadline())
    world.submit(world.task(), 0)
    assert world.trace.letters() == "QGI"
    world.machine.run_works()
    assert world.trace.letters() == "QGID"


def test_a_stopped_queue_inserts() -> None:
    """And nothing is issued."""
    world = World()
    world.q.hctxs[0].is_stopped = True
    world.submit(world.task(), 0)
    assert world.trace.letters() == "QGI"
    assert world.machine.works == []


def test_the_on_stack_plug_is_one_per_task() -> None:
    """It is up during the submission only, and the same object each time."""
    world = World("6.12")
    task = world.task()
    world.submit(task, 0)
    assert world.trace.letters() == "QGPUD"
    assert task.plug is None
    plug = task.stack_plug
    world.submit(task, 1000)
    assert task.stack_plug is plug
    assert plug.mq_list.count == 0


def test_the_on_stack_plug_of_a_sleeper() -> None:
    """It is gone while the task sleeps, and there again when the submission goes on."""
    world = World("6.12", depth=1)
    task = world.task()
    world.submit(task, 0)
    world.submit(task, 1000)
    assert task.is_blocked
    assert task.plug is None
    world.complete()
    assert world.resume(task)
    assert world.trace.letters() == "QGPUDQWCGPUD"
    world.complete_all()
    world.check_quiet()
