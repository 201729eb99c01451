"""Merging: which bios are of a kind, both ends, the limits, and where a partner is looked for without an elevator."""

from __future__ import annotations

import pytest
from block_world import NoteBio, World

from blktwin.block.bio import (
    REQ_FUA,
    REQ_NOMERGE,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_SYNC,
)
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_RT, pack
from blktwin.block.limits import QueueLimits
from blktwin.block.merge import BIO_MERGE_FAILED, BIO_MERGE_NONE, BIO_MERGE_OK, attempt_bio_merge
from blktwin.block.request import Request


def plugged(world: World, *bios: tuple[int, int]) -> list[tuple[int, int]]:
    """Submit (sector, sectors) as reads under one plug; return the requests that come out, in order of issue."""
    task = world.task()
    world.plug(task)
    for sector, nr_sectors in bios:
        world.submit(task, sector, nr_sectors)
    world.unplug(task)
    return [(int(rq.sector), int(rq.nr_sectors)) for rq in world.device.held]


def test_back_merge_in_the_plug() -> None:
    """The second bio goes behind the first and takes no tag."""
    world = World()
    assert plugged(world, (0, 8), (8, 8)) == [(0, 16)]
    assert world.trace.letters() == "QGPQMUD"
    assert world.q.hctxs[0].tags.in_use() == 1
    assert list(world.q.stats.merges) == [1, 0, 0, 0]


def test_front_merge_in_the_plug() -> None:
    """The second bio goes in front; the bios end in order of sectors."""
    world = World()
    assert plugged(world, (8, 8), (0, 8)) == [(0, 16)]
    assert world.trace.letters() == "QGPQFUD"
    rq = world.device.held[0]
    assert rq.bio is world.bios[1]
    assert rq.bio_tail is world.bios[0]
    world.complete_all()
    world.check_quiet()


def test_bios_that_do_not_touch_stay_apart() -> None:
    """A gap, and an overlap."""
    assert len(plugged(World(), (0, 8), (16, 8))) == 2
    assert len(plugged(World(), (0, 8), (4, 8))) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((REQ_OP_WRITE, REQ_SYNC), (REQ_OP_READ, 0)),
        ((REQ_OP_WRITE, REQ_SYNC | REQ_FUA), (REQ_OP_WRITE, REQ_SYNC)),
        ((REQ_OP_WRITE, REQ_SYNC), (REQ_OP_WRITE, REQ_SYNC | REQ_FUA)),
        ((REQ_OP_READ, REQ_NOMERGE), (REQ_OP_READ, 0)),
        ((REQ_OP_READ, 0), (REQ_OP_READ, REQ_NOMERGE)),
        ((REQ_OP_WRITE_ZEROES, 0), (REQ_OP_WRITE_ZEROES, 0)),
        ((REQ_OP_WRITE, 0), (REQ_OP_DISCARD, 0)),
    ],
)
def test_bios_not_of_a_kind(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Operation and flags that keep two touching bios apart."""
    limits = QueueLimits()
    limits.has_write_cache = True
    limits.has_fua = True
    world = World(limits=limits)
    task = world.task()
    world.plug(task)
    world.submit(task, 0, 8, *first)
    world.submit(task, 8, 8, *second)
    world.unplug(task)
    assert len(world.device.held) == 2


def test_sync_and_async_writes_merge() -> None:
    """Outside an elevator nobody cares."""
    world = World()
    task = world.task()
    world.plug(task)
    world.write(task, 0, flags=REQ_SYNC)
    world.write(task, 8, flags=0)
    world.unplug(task)
    assert len(world.device.held) == 1


def test_cgroups_and_priorities_keep_bios_apart() -> None:
    """One request has one cgroup and one I/O priority."""
    world = World()
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    task.cgroup = world.machine.cgroups.get("/c1")
    world.submit(task, 8)
    task.ioprio = pack(IOPRIO_CLASS_RT, 0)
    world.submit(task, 16)
    world.submit(task, 24)
    world.unplug(task)
    assert [int(rq.nr_sectors) for rq in world.device.held] == [8, 8, 16]


def test_contiguous_discards_merge_at_both_ends() -> None:
    """A discard of one range may grow like any other request."""
    world = World()
    task = world.task()
    world.plug(task)
    for sector in (100, 200, 0):
        world.submit(task, sector, 100, REQ_OP_DISCARD)
    world.unplug(task)
    assert [(int(rq.sector), int(rq.nr_sectors)) for rq in world.device.held] == [(0, 300)]
    assert list(world.q.stats.merges) == [0, 0, 2, 0]


def test_a_full_request_takes_no_more() -> None:
    """Too many sectors: the request is marked, and not even a bio that fits is merged into it then."""
    limits = QueueLimits()
    limits.max_sectors = 24
    world = World(limits=limits)
    assert plugged(world, (0, 16), (16, 16), (32, 8)) == [(0, 16), (16, 24)]
    assert world.device.held[0].flags & REQ_NOMERGE
    world = World(limits=limits)
    assert plugged(world, (0, 16), (16, 16), (16, 8)) == [(0, 16), (16, 16), (16, 8)]


def test_segments_limit_a_merge() -> None:
    """Two pages a request."""
    limits = QueueLimits()
    limits.max_segments = 2
    assert plugged(World(limits=limits), (0, 8), (8, 8), (16, 8)) == [(0, 16), (16, 8)]


def test_a_request_of_2_kib_bios_counts_a_segment_each() -> None:
    """Pages are never adjacent in memory here."""
    world = World()
    assert plugged(world, (0, 4), (4, 4)) == [(0, 8)]
    assert world.device.held[0].nr_segments == 2


@pytest.mark.parametrize(("nomerges", "count"), [(0, 1), (1, 1), (2, 2)])
def test_nomerges(nomerges: int, count: int) -> None:
    """2 forbids all; 1 leaves the plug's try."""
    world = World()
    world.q.nomerges = nomerges
    assert len(plugged(world, (0, 8), (8, 8))) == count


def busy(world: World) -> None:
    """Let unplugged requests go through the software queue."""
    world.q.hctxs[0].dispatch_busy = 7
    world.q.hctxs[0].is_stopped = True


def test_the_software_queue_is_searched_backwards_for_eight() -> None:
    """The ninth from the end is too far."""
    for count, merged in ((8, True), (9, False)):
        world = World()
        busy(world)
        task = world.task()
        for at in range(count):
            world.submit(task, at * 1000)
        world.submit(task, 8)
        assert (world.trace.letters()[-1] == "M") is merged


def test_a_full_neighbour_ends_the_search() -> None:
    """It touches but does not fit; an older one that would fit is not tried."""
    limits = QueueLimits()
    limits.max_sectors = 16
    world = World(limits=limits)
    busy(world)
    task = world.task()
    world.submit(task, 8, 8)
    world.submit(task, 24, 16)
    world.submit(task, 16, 8)
    assert "M" not in world.trace.letters()
    assert "F" not in world.trace.letters()


def test_another_cpus_software_queue_is_not_searched() -> None:
    """Each submitter looks at its own."""
    world = World(cpus=2)
    busy(world)
    world.submit(world.task(0), 0)
    world.submit(world.task(1), 8)
    assert "M" not in world.trace.letters()


def test_attempt_says_why_not() -> None:
    """NONE lets a search go on, FAILED ends it."""
    world = World()
    rq = Request(world.q, world.q.hctxs[0], 0)
    task = world.task()
    first = world.submit(task, 0)
    world.complete_all()
    rq.init_from_bio(first)
    second = world.submit(task, 8)
    world.complete_all()
    far = world.submit(task, 80)
    world.complete_all()
    assert attempt_bio_merge(world.q, rq, far) == BIO_MERGE_NONE
    assert attempt_bio_merge(world.q, rq, second) == BIO_MERGE_OK
    third = NoteBio()
    third.sector, third.nr_sectors, third.cgroup = 16, 2552, rq.cgroup
    assert attempt_bio_merge(world.q, rq, third) == BIO_MERGE_FAILED
    third.ioprio = pack(IOPRIO_CLASS_BE, 7)
    assert attempt_bio_merge(world.q, rq, third) == BIO_MERGE_NONE


def test_a_bio_that_ended_one_request_may_begin_the_next_merge() -> None:
    """A chain: back merges and front merges in one request keep all bios in order."""
    world = World()
    assert plugged(world, (40, 8), (48, 8), (32, 8), (24, 8), (56, 8)) == [(24, 40)]
    sectors = []
    bio = world.device.held[0].bio
    while bio is not None:
        sectors.append(int(bio.sector))
        bio = bio.next
    assert sectors == [24, 32, 40, 48, 56]
