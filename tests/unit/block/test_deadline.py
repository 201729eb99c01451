"""mq-deadline: sorted batches, deadlines, writes_starved, classes and aging, and every tunable."""

from __future__ import annotations

import pytest
from block_world import MS, World
from deadline_world import SEC, R, W, make, order, put

from blktwin.block.bio import BLK_STS_RESOURCE
from blktwin.block.deadline import Deadline
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack


def test_a_batch_goes_in_order_of_sectors() -> None:
    """From the oldest request on, up; then again from the oldest."""
    world, elevator = make()
    put(world, R, 500, 100, 900, 300, 700)
    assert order(world, elevator) == [("R", at) for at in (100, 300, 500, 700, 900)], "latest position is 0"
    put(world, R, 950, 10, 990)
    assert order(world, elevator) == [("R", 950), ("R", 990), ("R", 10)]


def test_the_first_batch_may_be_of_writes() -> None:
    """last_dir begins as writes: with nothing dispatched yet they are "in batch"."""
    world, elevator = make()
    put(world, R, 100)
    put(world, W, 200)
    assert order(world, elevator) == [("W", 200), ("R", 100)]


def test_reads_go_before_writes_until_those_starve() -> None:
    """Two batches of reads, then one of writes."""
    world, elevator = make(fifo_batch=2)
    put(world, R, 1)
    order(world, elevator)
    put(world, R, *range(100, 2000, 100))
    put(world, W, *range(105, 2005, 100))
    got = "".join(op for op, _ in order(world, elevator, 17))
    # The first batch has one request behind it already.
    assert got == "R" + "RRRR" + "WW" + "RRRR" + "WW" + "RRRR"


@pytest.mark.parametrize(("starved", "pattern"), [(0, "WRWRWR"), (1, "RWRWRW"), (2, "RRWRRW"), (3, "RRRWRR")])
def test_writes_starved(starved: int, pattern: str) -> None:
    """How many batches of reads pass writes over, with batches of one."""
    world, elevator = make(fifo_batch=1, writes_starved=starved)
    put(world, R, 1)
    order(world, elevator)
    put(world, R, *range(100, 2000, 100))
    put(world, W, *range(105, 2005, 100))
    got = "".join(op for op, _ in order(world, elevator, 6))
    if starved == 0:
        # Writes never wait; nor do reads, once writes have gone.
        assert got == "WWWWWW"
    else:
        assert got == pattern


@pytest.mark.parametrize(("batch", "pattern"), [(1, "RRWRRW"), (3, "RRRRRRWWW")])
def test_fifo_batch(batch: int, pattern: str) -> None:
    """How many requests a batch has."""
    world, elevator = make(fifo_batch=batch)
    put(world, R, 1)
    order(world, elevator)
    elevator.batching = batch
    put(world, R, *range(100, 2000, 100))
    put(world, W, *range(105, 2005, 100))
    assert "".join(op for op, _ in order(world, elevator, len(pattern))) == pattern


def test_an_expired_request_begins_the_next_batch() -> None:
    """Not before the batch ends; its deadline is 500 ms after its insertion."""
    world, elevator = make(fifo_batch=2)
    put(world, R, 5000)
    assert order(world, elevator) == [("R", 5000)]
    put(world, R, 10)
    world.machine.now += 500 * MS
    put(world, R, 6000, 7000, 8000, 9000)
    assert order(world, elevator, 2) == [("R", 6000), ("R", 10)]
    world, elevator = make(fifo_batch=2)
    put(world, R, 5000)
    order(world, elevator)
    put(world, R, 10)
    world.machine.now += 496 * MS
    put(world, R, 6000, 7000, 8000, 9000)
    assert order(world, elevator, 3) == [("R", 6000), ("R", 7000), ("R", 8000)]


@pytest.mark.parametrize(("op", "name"), [(R, "read_expire"), (W, "write_expire")])
def test_expire_tunables(op: int, name: str) -> None:
    """Each direction has its own, in ms; 0 makes it a FIFO when batches are of one."""
    world, elevator = make(fifo_batch=1, writes_starved=0)
    elevator.set_tunable(name, 0)
    sectors = [500, 100, 900, 300]
    put(world, op, *sectors)
    elevator.batching = 1
    assert [at for _, at in order(world, elevator)] == sectors


@pytest.mark.parametrize(
    ("hz", "jiffies"),
    [(100, [50, 500, 1000]), (250, [125, 1250, 2500]), (300, [150, 1500, 3000]), (1000, [500, 5000, 10000])],
)
def test_defaults_in_jiffies(hz: int, jiffies: list[int]) -> None:
    """Half a second, five and ten, at any HZ."""
    _, elevator = make(hz=hz)
    assert [*elevator.expire_jiffies, elevator.aging_jiffies] == jiffies


def test_classes_go_strictly_by_priority() -> None:
    """Real time, best effort (and none), idle; a lower class waits even for requests in flight of a higher one."""
    world, elevator = make()
    put(world, R, 300, task=world.task(ioprio=pack(IOPRIO_CLASS_IDLE, 0)))
    put(world, R, 200, task=world.task(ioprio=pack(IOPRIO_CLASS_BE, 7)))
    put(world, R, 250)
    put(world, R, 100, task=world.task(ioprio=pack(IOPRIO_CLASS_RT, 4)))
    assert order(world, elevator) == [("R", 100)], "the real-time request is still in flight"
    assert elevator.has_work(world.q.hctxs[0]), "so blk-mq asks again"
    elevator.lists[0].nr_completed += 1
    assert order(world, elevator) == [("R", 200), ("R", 250)]
    elevator.lists[1].nr_completed += 2
    assert order(world, elevator) == [("R", 300)]


def test_a_held_class_is_asked_again_by_blk_mq() -> None:
    """End to end: the idle request goes when the best-effort one has completed, by the 3 ms run."""
    world, elevator = make()
    put(world, R, 100)
    put(world, R, 200, task=world.task(ioprio=pack(IOPRIO_CLASS_IDLE, 0)))
    world.q.hctxs[0].is_stopped = False
    world.q.run_hw_queues(False)
    assert world.issued() == [100]
    world.complete()
    assert world.issued() == []
    world.machine.run_works(world.machine.now + 8 * MS)
    assert world.issued() == [200]


def test_an_aged_request_of_a_lower_class_goes_first() -> None:
    """After prio_aging_expire, while classes compete."""
    world, elevator = make()
    put(world, R, 300, task=world.task(ioprio=pack(IOPRIO_CLASS_IDLE, 0)))
    world.machine.now += 10 * SEC - 4 * MS
    real_time = world.task(ioprio=pack(IOPRIO_CLASS_RT, 0))
    put(world, R, 100, task=real_time)
    assert order(world, elevator, 1) == [("R", 100)]
    world.machine.now += 4 * MS
    put(world, R, 110, task=real_time)
    assert order(world, elevator, 2) == [("R", 300), ("R", 110)]


def test_prio_aging_expire() -> None:
    """In ms."""
    world, elevator = make(prio_aging_expire=100)
    put(world, R, 300, task=world.task(ioprio=pack(IOPRIO_CLASS_BE, 0)))
    world.machine.now += 100 * MS
    put(world, R, 100, task=world.task(ioprio=pack(IOPRIO_CLASS_RT, 0)))
    assert order(world, elevator, 1) == [("R", 300)]


def test_5_10_knows_no_classes() -> None:
    """Nor the tunables that came with them."""
    world, elevator = make("5.10")
    put(world, R, 300, task=world.task(ioprio=pack(IOPRIO_CLASS_IDLE, 0)))
    put(world, R, 100, task=world.task(ioprio=pack(IOPRIO_CLASS_RT, 0)))
    put(world, R, 200)
    assert [at for _, at in order(world, elevator)] == [300, 100, 200], "no batch yet: each is the oldest in turn"
    assert set(elevator.tunables) == {"read_expire", "write_expire", "writes_starved", "front_merges", "fifo_batch"}
    assert elevator.limit_depth(W, 0) == 0


@pytest.mark.parametrize(("rules", "got"), [("6.1", [100, 300, 900]), ("6.12", [100, 200, 300])])
def test_a_request_that_comes_inside_a_batch(rules: str, got: list[int]) -> None:
    """Until 6.4 the batch goes on with the request that stood behind; since 6.5 with what stands there now."""
    world, elevator = make(rules, fifo_batch=16)
    put(world, R, 100, 300, 900)
    assert order(world, elevator, 1) == [("R", 100)]
    put(world, R, 200)
    assert [100] + [at for _, at in order(world, elevator, 2)] == got


def test_5_10_begins_anew_at_the_oldest_when_the_direction_turns() -> None:
    """Since 5.14 each direction goes on where it left off."""
    for rules, read in (("5.10", 100), ("6.1", 600)):
        world, elevator = make(rules, fifo_batch=2, writes_starved=1)
        put(world, R, 500, 600, 700)
        assert order(world, elevator, 1)[0] == ("R", 500)
        put(world, R, 100)
        elevator.batching = 2
        elevator.starved = 1
        put(world, W, 50, 51_000, 52_000)
        assert order(world, elevator, 2) == [("W", 50), ("W", 51_000)]
        fifo = elevator.lists[1].fifo[0]
        # The oldest read of the fifo is 600; make it 100 to tell the two rules apart.
        oldest = fifo.head
        assert oldest is not None
        fifo.remove(oldest)
        fifo.append(oldest)
        second = fifo.head
        assert second is not None
        fifo.remove(second)
        fifo.append(second)
        assert order(world, elevator, 1) == [("R", read)]


def test_requeued_requests_go_first_and_are_counted_once() -> None:
    """Inserted at the head, they are dispatched before anything else."""
    world, elevator = make()
    put(world, R, 500, 100)
    hctx = world.q.hctxs[0]
    rq = elevator.dispatch_request(hctx)
    assert rq is not None
    put(world, R, 50)
    world.q.insert_request(rq, True)
    assert elevator.dispatch.count == 1
    assert [at for _, at in order(world, elevator)] == [100, 500, 50]
    assert elevator.lists[1].nr_inserted == 3


def test_async_depth_limits_writes() -> None:
    """Writes may use that many scheduler tags, reads all."""
    world, elevator = make(async_depth=2)
    task = world.task()
    put(world, W, 0, 100, task=task)
    assert not world.is_blocked(task)
    put(world, W, 200, task=task)
    assert world.is_blocked(task)
    put(world, R, *range(1000, 1800, 100))
    assert elevator.limit_depth(R, 0) == 0
    world.q.hctxs[0].is_stopped = False
    world.q.run_hw_queues(False)
    world.complete()
    while not world.resume(task):
        world.complete()
    world.complete_all()
    world.check_quiet()


def test_async_depth_is_nr_requests_by_default() -> None:
    """Then nothing is limited."""
    _, elevator = make()
    assert elevator.tunables["async_depth"].value == 256


def test_a_tunable_takes_effect_at_once() -> None:
    """Without a new queue."""
    world, elevator = make()
    elevator.set_tunable("read_expire", 4)
    put(world, R, 0)
    rq = elevator.lists[1].fifo[0].head
    assert rq is not None
    assert rq.fifo_expires == world.machine.now // (4 * MS) + 1


def test_a_tunable_set_before_the_queue_is_kept() -> None:
    """As a scenario does it."""
    elevator = Deadline()
    elevator.set_tunable("fifo_batch", 3)
    elevator.set_tunable("async_depth", 5)
    World(elevator=elevator)
    assert elevator.fifo_batch == 3
    assert elevator.async_depth == 5


def test_a_shallow_device_is_run_on_each_completion() -> None:
    """End to end with refusals: all goes out, in order."""
    world, elevator = make()
    world.q.hctxs[0].is_stopped = False
    world.device.answers = [0, BLK_STS_RESOURCE, 0, BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    put(world, R, 500, 100, 900)
    world.complete_all()
    assert sorted(set(world.trace.of("C"))) == [100, 500, 900]
    world.check_quiet()
