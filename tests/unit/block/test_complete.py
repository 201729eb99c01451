"""Where requests complete: rq_affinity, cache domains, capacities, one queue or several; and disk statistics."""

from __future__ import annotations

import pytest
from block_world import World

from blktwin.block.bio import BLK_STS_IOERR, BLK_STS_OK
from blktwin.block.deadline import Deadline


def where(world: World, submit_cpu: int, irq_cpu: int) -> str:
    """Complete one request from an interrupt; say "here", or "softirq N"."""
    world.submit(world.task(submit_cpu), 0)
    rq = world.device.held.pop()
    world.machine.current = world.machine.idle[irq_cpu]
    world.q.complete_request(rq, BLK_STS_OK)
    cpus = world.machine.run_softirqs()
    world.check_quiet()
    return f"softirq {cpus[0]}" if cpus else "here"


@pytest.mark.parametrize(
    ("affinity", "cpus_per_cache", "submit_cpu", "irq_cpu", "one_queue", "several"),
    [
        # one cache for all
        (1, 4, 0, 0, "softirq 0", "here"),
        (1, 4, 0, 1, "softirq 1", "here"),
        (2, 4, 0, 1, "softirq 0", "softirq 0"),
        (0, 4, 0, 1, "softirq 1", "here"),
        # two caches
        (1, 2, 0, 1, "softirq 1", "here"),
        (1, 2, 0, 2, "softirq 0", "softirq 0"),
        (0, 2, 0, 2, "softirq 2", "here"),
        (2, 2, 0, 0, "softirq 0", "here"),
    ],
)
def test_completion_cpu(
    affinity: int, cpus_per_cache: int, submit_cpu: int, irq_cpu: int, one_queue: str, several: str
) -> None:
    """The hop goes to the submitter's CPU or nowhere; a single hardware queue always takes the softirq."""
    for hw_queues, want in ((1, one_queue), (2, several)):
        world = World(cpus=4, hw_queues=hw_queues)
        world.machine.cpus_per_cache = cpus_per_cache
        world.q.rq_affinity = affinity
        assert where(world, submit_cpu, irq_cpu) == want


@pytest.mark.parametrize(("rules", "want"), [("6.1", "softirq 1"), ("6.12", "softirq 0")])
def test_unequal_capacities_hop(rules: str, want: str) -> None:
    """Inside one cache, since 6.9."""
    world = World(rules, cpus=2)
    world.machine.cpu_capacity = [400, 1024]
    assert where(world, 0, 1) == want


@pytest.mark.parametrize(("rules", "want"), [("5.10", "softirq 0"), ("6.1", "here"), ("6.12", "here")])
def test_a_queue_of_one_cpu_completes_there(rules: str, want: str) -> None:
    """Since 6.1, even when it is the only hardware queue."""
    assert where(World(rules), 0, 0) == want


def test_one_softirq_ends_all_that_came() -> None:
    """In the order of completion."""
    world = World(cpus=2)
    task = world.task()
    bios = [world.submit(task, at * 100) for at in range(3)]
    order = [2, 0, 1]
    for at in order:
        rq = next(rq for rq in world.device.held if rq.sector == at * 100)
        world.q.complete_request(rq, BLK_STS_IOERR if at == 0 else BLK_STS_OK)
    world.device.held.clear()
    assert [bio.ends for bio in bios] == [[], [], []]
    assert world.machine.run_softirqs() == [0]
    assert [bio.ends for bio in bios] == [[BLK_STS_IOERR], [BLK_STS_OK], [BLK_STS_OK]]
    assert world.trace.of("C") == [at * 100 for at in order]


def test_a_request_completes_once() -> None:
    """Twice is a broken invariant."""
    world = World()
    world.submit(world.task(), 0)
    rq = world.complete()
    with pytest.raises(AssertionError, match="not in flight"):
        world.q.complete_here(rq, BLK_STS_OK)


def test_a_request_is_started_once() -> None:
    """Twice is a broken invariant."""
    world = World()
    world.submit(world.task(), 0)
    with pytest.raises(AssertionError, match="started twice"):
        world.q.start_request(world.device.held[0])


def test_statistics() -> None:
    """Requests, sectors, ticks and utilisation; a merged bio counts as a merge and no request."""
    world = World()
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.submit(task, 8)
    world.write(task, 100, 16)
    world.unplug(task)
    world.machine.now += 1000
    world.complete()
    world.machine.now += 500
    assert world.q.stats.busy_ns(world.machine.now) == 1500
    world.complete()
    stats = world.q.stats
    assert list(stats.ios) == [1, 1, 0, 0]
    assert list(stats.sectors) == [16, 16, 0, 0]
    assert list(stats.merges) == [1, 0, 0, 0]
    assert list(stats.ticks_ns) == [1000, 1500, 0, 0]
    world.machine.now += 10_000
    assert stats.busy_ns(world.machine.now) == stats.io_ns == 1500


def test_the_elevator_hears_of_each_end_once() -> None:
    """completed, then finish; counters of mq-deadline come out even."""
    elevator = Deadline()
    world = World(elevator=elevator)
    for at in range(5):
        world.submit(world.task(), at * 100)
    world.complete_all()
    lists = elevator.lists[1]
    assert (lists.nr_inserted, lists.nr_dispatched, lists.nr_completed) == (5, 5, 5)
