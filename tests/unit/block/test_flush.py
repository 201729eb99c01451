"""Flush and FUA: the table of steps, coalescing, the five-second hold, errors, and the way of each step."""

from __future__ import annotations

import pytest
from block_world import MS, World

from blktwin.block.bio import (
    BLK_STS_IOERR,
    BLK_STS_OK,
    REQ_FUA,
    REQ_OP_FLUSH,
    REQ_PREFLUSH,
    REQ_SYNC,
    rwbs,
)
from blktwin.block.deadline import Deadline
from blktwin.block.elevator import Elevator
from blktwin.block.limits import QueueLimits
from blktwin.block.rules import Rules

SEC = 1000 * MS


def make(
    *, fua: bool = False, rules: Rules | str = "7.2", elevator: Elevator | None = None, cpus: int = 1, hw: int = 1
) -> World:
    """Build a world whose device has a volatile cache."""
    limits = QueueLimits()
    limits.has_write_cache = True
    limits.has_fua = fua
    return World(rules, limits=limits, elevator=elevator, cpus=cpus, hw_queues=hw)


def steps(world: World) -> list[str]:
    """Let everything run, one request at a time, and name what reached the device."""
    seen: list[str] = []
    for _ in range(10):
        world.machine.run_works()
        if not world.device.held:
            return seen
        assert len(world.device.held) == 1
        rq = world.device.held[0]
        name = "FLUSH" if rq.op == REQ_OP_FLUSH else "DATA"
        seen.append(name + ("+FUA" if rq.flags & REQ_FUA else ""))
        assert not (name == "DATA" and rq.flags & REQ_PREFLUSH)
        world.complete()
    raise AssertionError("the sequence does not end")


DATA = 8
TABLE = [
    # (flags, sectors, without FUA, with FUA)
    (REQ_PREFLUSH, 0, ["FLUSH"], ["FLUSH"]),
    (REQ_PREFLUSH, DATA, ["FLUSH", "DATA"], ["FLUSH", "DATA"]),
    (REQ_FUA, DATA, ["DATA", "FLUSH"], ["DATA+FUA"]),
    (REQ_PREFLUSH | REQ_FUA, DATA, ["FLUSH", "DATA", "FLUSH"], ["FLUSH", "DATA+FUA"]),
    (0, DATA, ["DATA"], ["DATA"]),
]


@pytest.mark.parametrize(("flags", "nr_sectors", "without", "with_fua"), TABLE)
@pytest.mark.parametrize("rules", ["5.10", "6.1", "6.12", "7.2"])
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_table(
    flags: int, nr_sectors: int, without: list[str], with_fua: list[str], rules: str, scheduler: str
) -> None:
    """What reaches the driver for each kind of bio, with and without FUA in the device."""
    for fua, want in ((False, without), (True, with_fua)):
        world = make(fua=fua, rules=rules, elevator=Deadline() if scheduler != "none" else None)
        bio = world.write(world.task(), 0, nr_sectors, REQ_SYNC | flags)
        assert steps(world) == want
        assert bio.ends == [BLK_STS_OK]
        world.check_quiet()


def test_a_flush_goes_through_kblockd() -> None:
    """Its submitter only queues it; D comes from a worker, as "FF"; two C events end it."""
    world = make()
    world.flush(world.task())
    assert world.trace.letters() == "QG"
    assert world.issued() == []
    world.machine.run_works()
    rq = world.device.held[0]
    assert rwbs(rq.op, rq.flags) == "FF"
    assert rq.bio is None
    assert rq.nr_sectors == 0
    world.complete()
    assert world.trace.letters() == "QGDCC"


def test_the_flush_borrows_its_first_members_tag() -> None:
    """So that a full device can be flushed."""
    world = make()
    world.flush(world.task())
    tags = world.q.hctxs[0].tags
    assert tags.in_use() == 1
    world.machine.run_works()
    assert tags.in_use() == 1
    world.complete()
    assert tags.in_use() == 0


def test_with_an_elevator_the_flush_gets_a_driver_tag() -> None:
    """And gives it back."""
    world = make(elevator=Deadline())
    world.flush(world.task())
    world.machine.run_works()
    hctx = world.q.hctxs[0]
    assert hctx.tags.in_use() == 1
    assert hctx.sched_tags is not None
    assert hctx.sched_tags.in_use() == 1
    world.complete()
    world.check_quiet()


def test_waiting_flushes_coalesce() -> None:
    """One in flight; all that come meanwhile are served by the next one."""
    world = make()
    task = world.task()
    first = world.flush(task)
    world.machine.run_works()
    late = [world.flush(task) for _ in range(5)]
    world.machine.run_works()
    assert len(world.device.held) == 1
    world.complete()
    assert first.ends == [BLK_STS_OK]
    assert all(bio.ends == [] for bio in late)
    world.machine.run_works()
    assert len(world.device.held) == 1
    world.complete()
    assert all(bio.ends == [BLK_STS_OK] for bio in late)
    fq = world.q.hctxs[0].fq
    assert fq is not None
    assert fq.nr_flushes == 2
    world.check_quiet()


def test_flushes_before_kblockd_runs_do_not_share_the_first() -> None:
    """The list was turned when the first one came; the others stand in the second."""
    world = make()
    for _ in range(3):
        world.flush(world.task())
    world.complete_all()
    fq = world.q.hctxs[0].fq
    assert fq is not None
    assert fq.nr_flushes == 2


def test_data_in_flight_holds_a_flush_back() -> None:
    """Until the sequenced data is written; plain writes hold nothing."""
    world = make()
    task = world.task()
    world.write(task, 500)
    world.write(task, 0, flags=REQ_SYNC | REQ_FUA)
    world.flush(task)
    world.machine.run_works()
    assert world.issued() == [500, 0]
    world.complete(1)
    world.machine.run_works()
    assert [int(rq.op) for rq in world.device.held][1:] == [REQ_OP_FLUSH]
    world.complete_all()
    fq = world.q.hctxs[0].fq
    assert fq is not None
    assert fq.nr_flushes == 1, "the FUA write's own flush and the empty one are the same"
    world.check_quiet()


def test_five_seconds_at_most() -> None:
    """Then a flush goes although data is in flight, at the next occasion."""
    world = make()
    task = world.task()
    world.write(task, 0, flags=REQ_SYNC | REQ_FUA)
    world.flush(task)
    world.machine.now += 5 * SEC - 1
    world.flush(task)
    world.machine.run_works()
    assert len(world.device.held) == 1
    world.machine.now += 1
    world.flush(task)
    world.machine.run_works()
    assert [int(rq.op) for rq in world.device.held] == [1, REQ_OP_FLUSH]
    world.complete_all()
    world.check_quiet()


def test_an_error_of_a_flush_is_each_members() -> None:
    """And ends them without their data."""
    world = make()
    task = world.task()
    ahead = world.flush(task)
    world.machine.run_works()
    members = [world.flush(task), world.write(task, 0, flags=REQ_SYNC | REQ_PREFLUSH)]
    world.complete()
    assert ahead.ends == [BLK_STS_OK]
    world.machine.run_works()
    world.complete(status=BLK_STS_IOERR)
    assert [bio.ends for bio in members] == [[BLK_STS_IOERR]] * 2
    assert world.trace.of("D") == [0, 0]
    world.complete_all()
    world.check_quiet()


def test_an_error_of_the_data_skips_the_flush() -> None:
    """What was not written needs none."""
    world = make()
    bio = world.write(world.task(), 0, flags=REQ_SYNC | REQ_FUA)
    world.complete(status=BLK_STS_IOERR)
    assert bio.ends == [BLK_STS_IOERR]
    world.machine.run_works()
    assert world.device.held == []
    world.check_quiet()


def test_the_data_of_a_flush_never_merges() -> None:
    """Its end is the machinery's; a neighbour's bio would be lost in it."""
    world = make()
    task = world.task()
    world.plug(task)
    world.write(task, 0, flags=REQ_SYNC | REQ_FUA)
    world.write(task, 8)
    world.unplug(task)
    assert world.issued() == [0, 8]
    world.complete_all()
    world.check_quiet()


@pytest.mark.parametrize(("rules", "letters"), [("6.1", "QGD"), ("6.12", "QGPUID"), ("7.2", "QGID")])
def test_fua_data_and_the_elevator(rules: str, letters: str) -> None:
    """Until 6.4 the data part goes past the elevator; since 6.5 it is sorted like any other write."""
    world = make(rules=rules, elevator=Deadline())
    world.write(world.task(), 0, flags=REQ_SYNC | REQ_FUA)
    world.machine.run_works()
    assert world.trace.letters() == letters
    world.complete_all()
    world.check_quiet()


def test_a_device_with_fua_and_an_elevator_until_6_4() -> None:
    """Even a write that needs no step goes straight to the dispatch list, and is run at once."""
    world = make(rules="6.1", fua=True, elevator=Deadline())
    world.write(world.task(), 0, flags=REQ_SYNC | REQ_FUA)
    assert world.trace.letters() == "QGD"
    world.complete_all()
    world.check_quiet()


def test_what_the_elevator_does_not_know_comes_back_past_it() -> None:
    """A FUA write that had bypassed the elevator is requeued by the driver: the elevator would never see its end."""
    elevator = Deadline()
    world = make(rules="6.1", fua=True, elevator=elevator)
    world.write(world.task(), 0, flags=REQ_SYNC | REQ_FUA)
    world.q.requeue_request(world.device.held.pop())
    world.machine.run_works()
    assert world.trace.letters() == "QGDRD"
    assert elevator.lists[1].nr_inserted == 0
    world.complete_all()
    world.check_quiet()


def test_each_hardware_queue_flushes_for_itself() -> None:
    """Two in flight, on two queues, with an elevator that is run from one of them."""
    world = make(cpus=2, hw=2, elevator=Deadline())
    world.flush(world.task(0))
    world.flush(world.task(1))
    world.machine.run_works()
    assert sorted(int(rq.hctx.index) for rq in world.device.held) == [0, 1]
    world.complete_all()
    world.check_quiet()


def test_flush_statistics() -> None:
    """A flush of the cache is counted apart; the empty request that asked for it is a write of no sectors."""
    world = make()
    world.flush(world.task())
    world.write(world.task(), 0)
    world.machine.run_works()
    world.machine.now += 700
    world.complete_all()
    assert list(world.q.stats.ios) == [0, 2, 0, 1]
    assert list(world.q.stats.sectors) == [0, 8, 0, 0]
    assert world.q.stats.ticks_ns[3] == 700


def test_flushes_go_before_what_waits() -> None:
    """At the head of the dispatch list."""
    world = make()
    task = world.task()
    hctx = world.q.hctxs[0]
    hctx.is_stopped = True
    world.submit(task, 100)
    world.flush(task)
    world.machine.run_works()
    hctx.is_stopped = False
    world.q.run_hw_queue(hctx, False)
    assert [int(rq.op) for rq in world.device.held] == [REQ_OP_FLUSH, 0]
