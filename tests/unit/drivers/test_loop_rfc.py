"""The RFC of 2025: as posted it ends with the name of what it does wrong; the safe form serves reads only."""

from __future__ import annotations

import pytest
from fake_loop import LoopWorld

from blktwin.block.bio import BLK_STS_OK
from blktwin.block.deadline import Deadline
from blktwin.block.rules import Rules
from blktwin.block.unplug import start_plug
from blktwin.drivers.loop.config import LoopConfig
from blktwin.errors import LoopViolation

SECOND = 1_000_000_000


def test_reads_of_a_plug_are_never_started() -> None:
    """One batch of reads: the second was never issued, as far as anybody can see."""
    world = LoopWorld("rfc_exact")
    with pytest.raises(LoopViolation, match="request issued but never started: loop0: .* sector 16"):
        world.go(world.read(0), world.read(16), plugged=True)


def test_what_the_metric_does_not_see() -> None:
    """Where that is tolerated, only one read of the batch has an issue in the trace; all of them end."""
    world = LoopWorld("rfc_exact", bugs=("rfc_unstarted_ok",))
    bios = [world.read(at * 16) for at in range(4)]
    assert world.go(*bios, plugged=True) == [BLK_STS_OK] * 4
    acts = [row.act for row in world.trace.rows]
    assert (acts.count("D"), acts.count("C")) == (1, 4)
    world.check_quiet()


def test_writes_become_reads() -> None:
    """Case (a): a plug with a read and a write."""
    world = LoopWorld("rfc_exact")
    with pytest.raises(LoopViolation, match="write issued as read"):
        world.go(world.read(0), world.write(16), plugged=True)
    world = LoopWorld("rfc_exact")
    with pytest.raises(LoopViolation, match="without data issued as read"):
        world.go(world.read(0), world.discard(16), plugged=True)


@pytest.mark.parametrize("per_queue", [False, True])
def test_requests_of_another_device(per_queue: bool) -> None:
    """Case (b): a plug with reads of two devices."""
    rules = Rules("test")
    rules.submit_on_stack_plug = False
    rules.plug_is_fifo = True
    rules.plug_detaches_per_queue = per_queue
    world = LoopWorld("rfc_exact", rules=rules)
    other = world.other_device()
    foreign = world.read(16)
    foreign.target = other.q
    with pytest.raises(LoopViolation, match="foreign queue's request: loop0: rfc_exact takes a request of loop1"):
        world.go(world.read(0), foreign, plugged=True)


def test_requests_past_a_scheduler() -> None:
    """Case (c): a plug of a device with an elevator; without a plug all is well."""
    world = LoopWorld("rfc_exact", elevator=Deadline())
    assert world.go(world.read(0)) == [BLK_STS_OK]
    with pytest.raises(LoopViolation, match="scheduler bypassed, driver tag missing: loop0"):
        world.go(world.read(0), world.read(16), plugged=True)


def test_safe_with_a_scheduler() -> None:
    """The safe form leaves what the elevator has not seen alone."""
    world = LoopWorld("rfc_safe", elevator=Deadline())
    task = world.submit(cpu=0)
    world.run(SECOND)
    start_plug(task, task.own_plug)
    for cpu in (0, 1):
        task.cpu = cpu
        world.submit_as(task, world.read(cpu * 16))
    world.finish_plug_of(task)
    world.run(2 * SECOND)
    assert [row.act for row in world.trace.rows if row.act in "ID"] == ["I", "D", "I", "D"]
    world.check_quiet()


def test_sleeping_in_queue_rq() -> None:
    """A file that sleeps in direct I/O makes the issuer sleep where nobody may."""
    world = LoopWorld("rfc_exact")
    world.backing.sleeps_direct = True
    with pytest.raises(LoopViolation, match="slept inside queue_rq"):
        world.go(world.read(0), plugged=True)


def test_no_memory_is_a_lost_request() -> None:
    """The posted code ignores the error of its helper."""
    world = LoopWorld("rfc_exact")
    world.driver.nr_failing_preps = 1
    with pytest.raises(LoopViolation, match="request lost"):
        world.go(world.read(0), plugged=True)


def test_the_memory_cgroups_reference_leaks() -> None:
    """Taken for the read that brings the plug, given back by nobody."""
    world = LoopWorld("rfc_exact")
    assert world.go(world.read(0), cgroup="/a", plugged=True) == [BLK_STS_OK]
    assert (world.driver.nr_memcg_gets, world.driver.nr_memcg_puts) == (1, 0)


@pytest.mark.parametrize("policy", ["rfc_exact", "rfc_safe"])
def test_without_a_plug_a_worker_reads(policy: str) -> None:
    """The trigger is the plug; writes and buffered I/O never are."""
    world = LoopWorld(policy)
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert world.go(world.write(0), plugged=True) == [BLK_STS_OK]
    assert world.trace.of("W") == ["no_plug", "write"]
    buffered = LoopWorld(policy, direct=False)
    assert buffered.go(buffered.read(0), plugged=True) == [BLK_STS_OK]
    assert buffered.trace.of("W") == ["not_aio"]


@pytest.mark.parametrize("policy", ["rfc_exact", "rfc_safe"])
def test_on_stack_plug_is_a_plug(policy: str) -> None:
    """Kernels with a plug around each submission (6.11 to 7.1) run even a lone read inline."""
    world = LoopWorld(policy, rules=Rules("test"))
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert world.trace.of("W") == []


def test_safe_takes_only_its_reads() -> None:
    """Reads up to the first other request are executed by the first one's dispatch; all are started."""
    world = LoopWorld("rfc_safe")
    bios = [world.read(0), world.read(16), world.write(32), world.read(48), world.read(64)]
    assert world.go(*bios, plugged=True) == [BLK_STS_OK] * 5
    acts = [row.act for row in world.trace.rows]
    assert (acts.count("D"), acts.count("C")) == (5, 5)
    assert world.driver.nr_inline == 4
    assert world.trace.of("W") == ["write"]
    world.check_quiet()


def test_safe_leaves_other_devices_alone() -> None:
    """A plug of two devices: each read is executed by its own driver."""
    world = LoopWorld("rfc_safe")
    other = world.other_device()
    foreign = world.read(16)
    foreign.target = other.q
    assert world.go(world.read(0), foreign, world.read(32), plugged=True) == [BLK_STS_OK] * 3
    assert (world.driver.nr_inline, other.driver.nr_inline) == (2, 0)
    world.check_quiet()


def test_safe_never_sleeps() -> None:
    """What would sleep, and what finds no memory, takes the worker, or ends."""
    config = LoopConfig()
    config.batch_plug = True
    world = LoopWorld("rfc_safe", config=config)
    world.backing.nowait_fails = {0}
    assert world.go(world.read(0), world.read(16), plugged=True) == [BLK_STS_OK] * 2
    assert world.trace.of("W") == ["eagain_sync"] * 2
    world.driver.nr_failing_preps = 1
    assert sorted(world.go(world.read(0), world.read(16), plugged=True)) == [BLK_STS_OK, 10]
    world.check_quiet()
