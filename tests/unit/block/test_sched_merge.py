"""Merging with an elevator: the one-hit cache, the hash, front merges, joined neighbours, and merges at insertion."""

from __future__ import annotations

import pytest
from block_world import MS
from deadline_world import R, W, make, order, put

from blktwin.block.ioprio import IOPRIO_CLASS_RT, pack
from blktwin.block.sched_merge import rqhash_find


def test_back_merge() -> None:
    """Found by its end sector, anywhere in the queue, for reads and writes apart."""
    world, elevator = make()
    put(world, R, 0, 500, 900)
    put(world, W, 2000)
    put(world, R, 8)
    put(world, W, 2008)
    assert world.trace.of("M") == [8, 2008]
    assert [int(rq.nr_sectors) for rq in elevator.lists[1].sort[0].requests] == [16, 8, 8]
    put(world, R, 16)
    assert world.trace.of("M") == [8, 2008, 16]


def test_front_merge_and_its_tunable() -> None:
    """Found by its first sector; front_merges=0 forbids it, but for the last merge's request."""
    world, elevator = make()
    put(world, R, 100, 500)
    put(world, R, 492)
    assert world.trace.of("F") == [492]
    assert [(int(rq.sector), int(rq.nr_sectors)) for rq in elevator.lists[1].sort[0].requests] == [(100, 8), (492, 16)]
    world, elevator = make(front_merges=0)
    put(world, R, 100, 500)
    put(world, R, 492)
    assert world.trace.of("F") == []
    put(world, R, 92)
    assert world.trace.of("F") == [92], "the one-hit cache holds the first request"


@pytest.mark.parametrize(("nomerges", "letters"), [(0, "MM"), (1, "M"), (2, "")])
def test_nomerges(nomerges: int, letters: str) -> None:
    """1 leaves the one-hit cache, which holds the first request; 2 nothing."""
    world, elevator = make()
    world.q.nomerges = nomerges
    put(world, R, 0, 500)
    put(world, R, 8)
    put(world, R, 508)
    assert "".join(letter for letter, _ in world.trace.rows if letter in "MF") == letters


def test_a_merge_joins_neighbours() -> None:
    """A bio that fills the gap makes one request of two; the earlier deadline and its place in the fifo stay."""
    world, elevator = make()
    put(world, R, 8)
    world.machine.now += 40 * MS
    put(world, R, 1000)
    world.machine.now += 40 * MS
    put(world, R, 24)
    first = elevator.lists[1].fifo[0].head
    assert first is not None
    early = first.fifo_expires
    put(world, R, 16)
    assert world.trace.letters().endswith("QMm")
    fifo = elevator.lists[1].fifo[0]
    assert fifo.count == 2
    assert fifo.head is not None
    assert (int(fifo.head.sector), int(fifo.head.nr_sectors), fifo.head.fifo_expires) == (8, 24, early)
    assert elevator.lists[1].nr_merged == 1
    world.q.last_merge = None
    put(world, R, 32)
    assert world.trace.of("M")[-1] == 32, "the joined request is found by its new end"
    world.go()
    world.check_quiet()


def test_the_earlier_deadline_wins_wherever_it_stands() -> None:
    """The lower request is the younger: it moves to the elder's place in the fifo."""
    world, elevator = make()
    put(world, R, 24)
    world.machine.now += 40 * MS
    put(world, R, 1000)
    world.machine.now += 40 * MS
    put(world, R, 8)
    put(world, R, 16)
    fifo = elevator.lists[1].fifo[0]
    assert [int(rq.sector) for rq in (fifo.head, fifo.tail) if rq is not None] == [8, 1000]
    assert fifo.head is not None
    assert fifo.tail is not None
    assert fifo.head.fifo_expires < fifo.tail.fifo_expires


def test_an_insertion_merges_behind_a_waiting_request() -> None:
    """Two tasks' plugs: the second one's request is merged whole, traced m and never I."""
    world, elevator = make()
    one, two = world.task(), world.task()
    world.plug(one)
    world.plug(two)
    world.submit(one, 0)
    world.submit(two, 8)
    world.unplug(one)
    world.unplug(two)
    assert world.trace.of("I") == [0]
    assert world.trace.of("m") == [8]
    assert world.q.hctxs[0].sched_tags is not None
    assert world.q.hctxs[0].sched_tags.in_use() == 1
    assert elevator.lists[1].nr_queued() == 1
    world.go()
    world.check_quiet()


def test_an_insertion_merges_on_and_on() -> None:
    """The grown request is merged behind the one before it, which had come too late to take it."""
    world, elevator = make()
    put(world, R, 5000)
    tasks = [world.task() for _ in range(3)]
    for at, task in enumerate(tasks):
        world.plug(task)
        world.submit(task, at * 8)
    for at in (1, 0, 2):
        world.unplug(tasks[at])
    assert world.trace.of("I") == [5000, 8, 0]
    assert world.trace.of("m") == [16, 8]
    assert elevator.lists[1].fifo[0].count == 2
    world.go()
    assert sorted(world.trace.of("C")) == [0, 5000]
    world.check_quiet()


def test_a_merged_request_is_not_the_next_of_a_batch() -> None:
    """Kernels that remember the next request go on behind the one that was merged away."""
    world, elevator = make("6.1")
    put(world, R, 100, 300, 900)
    assert order(world, elevator, 1) == [("R", 100)]
    put(world, R, 200)
    world.submit(world.task(), 208, 92)
    assert world.trace.letters().endswith("QMm")
    assert order(world, elevator) == [("R", 900), ("R", 200)]


def test_the_one_hit_cache_forgets_what_leaves() -> None:
    """Its request may be another one soon."""
    world, elevator = make()
    put(world, R, 100)
    assert [world.q.last_merge is None] == [False]
    order(world, elevator)
    assert [world.q.last_merge is None] == [True]


def test_requests_of_two_classes_never_merge() -> None:
    """Nor bios."""
    world, elevator = make()
    put(world, R, 0)
    put(world, R, 8, task=world.task(ioprio=pack(IOPRIO_CLASS_RT, 0)))
    assert "M" not in world.trace.letters()
    assert [lists.fifo[0].count for lists in elevator.lists] == [1, 1, 0]


def test_a_full_request_leaves_the_hash() -> None:
    """It is not found again and again."""
    world, elevator = make()
    world.limits.max_sectors = 16
    put(world, R, 0, 500)
    put(world, R, 8)
    put(world, R, 16)
    assert rqhash_find(world.q, 16) is None
    assert world.q.last_merge is not None
    assert world.q.last_merge.sector == 16, "the full request is no candidate any more"
    assert elevator.lists[1].fifo[0].count == 3


def test_requests_with_equal_ends_are_both_found() -> None:
    """The newest first, and the older one when that has left."""
    world, _ = make()
    put(world, R, 100)
    world.submit(world.task(), 104, 4)
    world.q.last_merge = None
    put(world, R, 108)
    assert [int(rq.sector) for rq in world.q.hctxs[0].requests if rq.nr_sectors == 12] == [104]
    world.q.last_merge = None
    put(world, R, 108)
    assert [int(rq.sector) for rq in world.q.hctxs[0].requests if rq.nr_sectors == 16] == [100]
