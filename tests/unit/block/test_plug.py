"""Plugs: thresholds with their quirks, order, several queues, the cached time, and who issues what."""

from __future__ import annotations

import pytest
from block_world import NO_PLUG, HandDevice, World

from blktwin.block.bio import BLK_STS_RESOURCE
from blktwin.block.deadline import Deadline
from blktwin.block.request import Request
from blktwin.block.rules import Rules
from blktwin.block.submit import about_to_sleep, start_plug, submit_bio
from blktwin.block.unplug import flush_plug

SPREAD = 1000


def fill(world: World, count: int, nr_sectors: int = 8) -> None:
    """Submit count scattered bios under one plug of one task, and finish it."""
    task = world.task()
    world.plug(task)
    for at in range(count):
        world.submit(task, at * SPREAD, nr_sectors)
    world.unplug(task)


@pytest.mark.parametrize(("rules", "limit"), [("5.10", 16), ("5.17", 32), ("6.1", 32), ("6.12", 32), ("7.2", 32)])
def test_a_full_plug_is_flushed_by_the_next_request(rules: str, limit: int) -> None:
    """Not when it becomes full."""
    world = World(rules)
    task = world.task()
    world.plug(task)
    for at in range(limit):
        world.submit(task, at * SPREAD)
    assert world.issued() == []
    world.submit(task, limit * SPREAD)
    assert len(world.issued()) == limit
    assert task.plug is not None
    assert task.plug.mq_list.count == 1
    assert world.trace.letters().count("P") == 2


def test_two_queues_double_the_limit() -> None:
    """64 requests, and the plug remembers that for its whole life."""
    world = World(NO_PLUG)
    other = world.add_queue()
    task = world.task()
    plug = world.plug(task)
    for at in range(64):
        world.submit(task, at * SPREAD, q=other if at % 2 else None)
    assert world.issued() == []
    world.submit(task, 64 * SPREAD)
    assert len(world.issued()) == 64
    assert plug.multiple_queues
    for at in range(65, 65 + 40):
        world.submit(task, at * SPREAD)
    assert len(world.issued()) == 64, "one queue now, and still the limit of several"


def test_a_large_request_flushes_the_plug() -> None:
    """128 KiB; one sector less does not."""
    for nr_sectors, issued in ((256, 1), (255, 0)):
        world = World()
        task = world.task()
        world.plug(task)
        world.submit(task, 0, nr_sectors)
        world.submit(task, SPREAD)
        assert len(world.issued()) == issued


@pytest.mark.parametrize(
    ("rules", "flushed"), [("6.1", True), ("6.12", True), ("5.10", True), ("6.13", False), ("7.2", False)]
)
def test_which_request_the_size_test_looks_at(rules: str, flushed: bool) -> None:
    """Quirk 1: since 6.13 the oldest one, so a large request behind a small one goes unseen."""
    world = World(rules)
    task = world.task()
    world.plug(task)
    world.submit(task, 0, 8)
    world.submit(task, SPREAD, 256)
    world.submit(task, 2 * SPREAD, 8)
    assert (len(world.issued()) == 2) is flushed


def test_merges_are_not_checked() -> None:
    """Quirk 2: 64 sequential bios of 4 KiB become one request of 256 KiB; only a new request looks at the size."""
    world = World("6.18")
    task = world.task()
    world.plug(task)
    for at in range(64):
        world.submit(task, at * 8)
    assert world.issued() == []
    assert world.trace.letters().count("M") == 63
    world.submit(task, 100_000)
    assert [int(rq.nr_sectors) for rq in world.device.held] == [512]


def test_nomerges_switches_the_size_test_off() -> None:
    """With nomerges=2 only the count flushes."""
    world = World()
    world.q.nomerges = 2
    task = world.task()
    world.plug(task)
    world.submit(task, 0, 256)
    world.submit(task, SPREAD)
    assert world.issued() == []


@pytest.mark.parametrize(
    ("rules", "order"),
    [("5.10", "fifo"), ("5.17", "lifo"), ("6.1", "lifo"), ("6.12", "lifo"), ("6.13", "fifo"), ("7.2", "fifo")],
)
def test_order_of_a_direct_issue(rules: str, order: str) -> None:
    """From 5.16 to 6.12 a plug list is issued newest first."""
    world = World(rules)
    fill(world, 5)
    want = [at * SPREAD for at in range(5)]
    assert world.issued() == (want if order == "fifo" else want[::-1])


@pytest.mark.parametrize("rules", ["5.10", "5.17", "6.1", "6.12", "6.13", "7.2"])
def test_order_of_an_insertion(rules: str) -> None:
    """An insertion restores the order of submission in every kernel."""
    world = World(rules, elevator=Deadline())
    fill(world, 5)
    assert world.trace.of("I") == [at * SPREAD for at in range(5)]


def test_a_schedule_flush_leaves_the_issue_to_kblockd() -> None:
    """The sleeping task inserts and does not dispatch."""
    world = World()
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.submit(task, SPREAD)
    world.machine.current = task
    about_to_sleep(world.machine, task)
    assert world.trace.letters() == "QGPQGTII"
    assert world.issued() == []
    assert world.machine.run_works() == [0]
    assert world.issued() == [0, SPREAD]
    assert task.plug is not None, "the plug stays up"
    world.unplug(task)
    world.complete_all()
    world.check_quiet()


def test_the_outermost_plug_wins() -> None:
    """A nested start changes nothing."""
    world = World()
    task = world.task()
    outer = world.plug(task)
    inner = world.plug(task)
    assert task.plug is outer
    assert not start_plug(task, inner)
    world.submit(task, 0)
    assert outer.mq_list.count == 1


def test_two_queues_without_detach_are_inserted() -> None:
    """6.12: with several queues every request goes through its software queue, one unplug per queue."""
    world = World("6.12")
    other = world.add_queue()
    task = world.task()
    world.plug(task)
    for at in range(4):
        world.submit(task, at * SPREAD, q=other if at % 2 else None)
    world.q.hctxs[0].dispatch_busy = 1
    other.hctxs[0].dispatch_busy = 1
    world.unplug(task)
    assert world.trace.of("U") == [2, 2]
    assert world.trace.letters().count("I") == 4
    assert len(world.issued()) == 4


def test_two_queues_with_detach_are_issued_directly() -> None:
    """6.16: one unplug per queue, no insertion even when the driver was busy, queues by first appearance."""
    world = World("7.2")
    other = world.add_queue()
    task = world.task()
    world.plug(task)
    for at in range(4):
        world.submit(task, at * SPREAD, q=other if at % 2 else None)
    other.hctxs[0].dispatch_busy = 1
    world.unplug(task)
    assert world.trace.of("U") == [2, 2]
    assert "I" not in world.trace.letters()
    assert world.issued() == [0, 2 * SPREAD, SPREAD, 3 * SPREAD]


def test_5_10_sorts_a_plug_of_several_queues() -> None:
    """By queue and sector, when there are more than two requests."""
    world = World("5.10")
    other = world.add_queue()
    task = world.task()
    world.plug(task)
    for sector, q in ((900, None), (800, other), (100, None), (50, other)):
        world.submit(task, sector, q=q)
    world.unplug(task)
    assert world.issued() == [100, 900, 50, 800]


def test_a_plug_with_an_elevator_is_inserted() -> None:
    """Nothing is issued past the elevator, whatever else the plug holds."""
    world = World(elevator=Deadline())
    plain = world.add_queue()
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.submit(task, SPREAD, q=plain)
    world.unplug(task)
    assert world.trace.of("I") == [0]
    assert world.issued() == [0, SPREAD]


def test_a_refusal_ends_the_direct_issue() -> None:
    """The refused request waits first in line, the rest is inserted, and U is traced again with what was left."""
    world = World("6.13")
    world.device.answers = [0, BLK_STS_RESOURCE, BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    fill(world, 4)
    assert world.trace.of("U") == [4, 2]
    assert world.issued() == [0]
    assert world.trace.of("R") == [SPREAD] * 3, (
        "directly, from the run that followed, and from that after the insertion"
    )
    assert [int(rq.sector) for rq in iterate(world.q.hctxs[0].dispatch.head)] == [SPREAD]
    assert world.trace.of("I") == [2 * SPREAD, 3 * SPREAD]
    world.complete_all()
    world.check_quiet()


def iterate(rq: Request | None) -> list[Request]:
    """List a chain."""
    out = []
    while rq is not None:
        out.append(rq)
        rq = rq.next
    return out


def test_commit_rqs_after_a_broken_promise() -> None:
    """The driver was told that more follows; when it refuses the next it is told that none does."""
    world = World("6.13", commits=True)
    world.device.answers = [0, 0, BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    fill(world, 3)
    assert world.device.is_last[:3] == [False, False, True]
    assert getattr(world.driver, "commits", None) == [0]


def test_last_is_true_for_the_last_only() -> None:
    """In one pass over a list."""
    world = World("6.13", commits=True)
    fill(world, 3)
    assert world.device.is_last == [False, False, True]
    assert getattr(world.driver, "commits", None) == []


def test_the_clock_stands_while_a_plug_is_up() -> None:
    """Since 6.9: allocations see the plug's first reading, until the flush is over."""
    world = World("6.12")
    task = world.task()
    world.plug(task)
    begin = world.machine.now
    world.submit(task, 0)
    world.machine.now += 500
    world.submit(task, SPREAD)
    world.machine.now += 500
    world.unplug(task)
    assert [int(rq.start_ns) for rq in world.device.held] == [begin, begin]
    world.submit(task, 2 * SPREAD)
    assert world.device.held[2].start_ns == begin + 1000


def test_a_scheduler_sees_the_time_of_issue() -> None:
    """Only with a scheduler is the start stamped: with none nobody reads it (QUEUE_FLAG_STATS)."""
    for elevator, stamp in ((Deadline(), 700), (None, 0)):
        world = World("7.2", elevator=elevator)
        task = world.task()
        world.machine.now = 200
        world.submit(task, 0)
        world.machine.now = 700
        world.machine.run_works()
        assert [int(rq.io_start_ns) for rq in world.device.held] == [stamp]


def test_the_clock_runs_before_6_9() -> None:
    """Each request has its own time."""
    world = World("6.1")
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.machine.now += 500
    world.submit(task, SPREAD)
    world.unplug(task)
    assert world.device.held[0].start_ns == world.device.held[1].start_ns + 500, "newest first"


class NestedDevice(HandDevice):
    """Submits a bio of its own, for the same task, while it is given a request: a loop driver that works inline."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.nested = 0

    def submit(self, rq: Request) -> int:
        """Take rq, and add to the plug that is being flushed."""
        self.held.append(rq)
        if self.nested < 2:
            self.nested += 1
            task = self.world.machine.current
            bio = self.world.bios[0].__class__()
            bio.sector, bio.nr_sectors = 500_000 + self.nested * SPREAD, 8
            self.world.bios.append(bio)
            submit_bio(self.world.q, bio)
            assert task.plug is not None
            assert task.plug.mq_list.count == self.nested, "only what came after the flush began"
        return 0


@pytest.mark.parametrize("rules", [NO_PLUG, "6.12", "7.2"])
def test_requests_added_during_a_flush_wait_for_the_next(rules: Rules | str) -> None:
    """I15: the list is detached first, so nothing is lost or issued twice."""
    world = World(rules)
    device = NestedDevice(world)
    world.device = device
    world.driver.device = device
    task = world.task()
    plug = world.plug(task)
    for at in range(3):
        world.submit(task, at * SPREAD)
    world.machine.current = task
    flush_plug(world.machine, task, False)
    assert plug.mq_list.count == 2
    assert len(world.issued()) == 3
    world.unplug(task)
    assert sorted(world.issued()) == [0, SPREAD, 2 * SPREAD, 501_000, 502_000]
    world.complete_all()
    world.check_quiet()


class SleepingDevice(HandDevice):
    """Submits, sleeps and submits again while it is given a request: the plug is flushed within a flush."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def submit(self, rq: Request) -> int:
        """Take rq; work on the first."""
        self.held.append(rq)
        if len(self.held) == 1:
            world = self.world
            task = world.machine.current
            for sector in (500_000, 550_000, 600_000):
                if sector == 600_000:
                    about_to_sleep(world.machine, task)
                bio = world.bios[0].__class__()
                bio.sector, bio.nr_sectors = sector, 8
                world.bios.append(bio)
                submit_bio(world.q, bio)
        return 0


def test_a_flush_within_a_flush() -> None:
    """What came after the inner one waits for the next, and nothing is lost."""
    world = World()
    device = SleepingDevice(world)
    world.device = device
    world.driver.device = device
    task = world.task()
    plug = world.plug(task)
    for at in range(3):
        world.submit(task, at * SPREAD)
    world.machine.current = task
    flush_plug(world.machine, task, False)
    assert [int(rq.sector) for rq in iterate(plug.mq_list.head)] == [600_000]
    world.unplug(task)
    world.complete_all()
    world.check_quiet()
