"""Queue runs: dispatch lists, refusals, restarts, the delayed run, the busy average, requeues, and where they run."""

from __future__ import annotations

import pytest
from block_world import MS, World

from blktwin.block.bio import BLK_STS_DEV_RESOURCE, BLK_STS_IOERR, BLK_STS_OK, BLK_STS_RESOURCE, Bio
from blktwin.block.deadline import Deadline
from blktwin.block.dispatch import give_back
from blktwin.block.elevator import Elevator
from blktwin.block.hctx import HardwareQueue
from blktwin.block.request import RQF_DONTPREP, Request, RequestList


class Fifo(Elevator):
    """The simplest scheduler: first come first served; holds the device when told."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Request] = []
        self.holds = False
        self.asked = 0
        self.requeued = 0

    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take it."""
        assert self.q is not None
        self.q.trace.rq_insert(rq)
        self.waiting.insert(0 if at_head else len(self.waiting), rq)

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give the first, unless it holds."""
        self.asked += 1
        return None if self.holds else self.waiting.pop(0)

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say so."""
        return bool(self.waiting)

    def bio_merge(self, bio: Bio) -> bool:
        """Never."""
        return False

    def requeue_request(self, rq: Request) -> None:
        """Count it."""
        self.requeued += 1


def test_a_refused_direct_issue_waits_first_in_line() -> None:
    """It goes to the dispatch list, the queue is run at once, and again 3 ms later: at the second tick of 4 ms."""
    world = World(hz=250)
    world.device.answers = [BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    world.submit(world.task(), 0)
    assert world.trace.letters() == "QGDRDR"
    assert world.q.hctxs[0].dispatch.count == 1
    assert world.issued() == []
    due, _, _ = world.machine.works[0]
    assert due == 8 * MS
    world.machine.run_works(8 * MS)
    assert world.issued() == [0]
    world.complete_all()
    world.check_quiet()


@pytest.mark.parametrize(("hz", "due_ms"), [(100, 20), (250, 8), (1000, 5)])
def test_the_delay_is_in_jiffies(hz: int, due_ms: int) -> None:
    """3 ms are rounded up to jiffies and end at a tick; the test begins at 1 ms."""
    world = World(hz=hz)
    world.device.answers = [BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    world.submit(world.task(), 0)
    assert [due for due, _, _ in world.machine.works] == [due_ms * MS]


def test_dev_resource_waits_for_a_completion() -> None:
    """No delayed run: the request in flight runs the queue when it is freed."""
    world = World()
    task = world.task()
    world.submit(task, 0)
    world.device.answers = [BLK_STS_DEV_RESOURCE, BLK_STS_DEV_RESOURCE]
    world.submit(task, 100)
    assert world.machine.works == []
    hctx = world.q.hctxs[0]
    assert [hctx.needs_restart] == [True]
    world.complete()
    assert [hctx.needs_restart] == [False]
    world.machine.run_works()
    assert world.issued() == [100]
    world.complete_all()
    world.check_quiet()


def test_an_error_of_the_driver_ends_the_request() -> None:
    """Not a refusal: the bio fails, and the next request is issued."""
    world = World("6.13")
    task = world.task()
    world.device.answers = [BLK_STS_IOERR, BLK_STS_OK]
    world.plug(task)
    bad, good = world.submit(task, 0), world.submit(task, 100)
    world.unplug(task)
    assert bad.ends == [BLK_STS_IOERR]
    assert good.ends == []
    world.complete_all()
    world.check_quiet()


def test_the_dispatch_list_goes_before_the_elevator() -> None:
    """While something is left there the elevator is not asked: its requests can still be sorted."""
    elevator = Fifo()
    world = World(elevator=elevator)
    task = world.task()
    world.device.answers = [BLK_STS_RESOURCE] * 3
    world.submit(task, 0)
    world.machine.run_works()
    assert world.q.hctxs[0].dispatch.count == 1
    elevator.asked = 0
    world.submit(task, 100)
    world.machine.run_works()
    assert elevator.asked == 0
    world.complete_all()
    assert world.trace.of("D")[-2:] == [0, 100]
    world.check_quiet()


def test_an_elevator_is_one_request_ahead_of_the_device() -> None:
    """Out of tags, the run stops with one request taken out; a completion runs the queue again."""
    elevator = Fifo()
    world = World(elevator=elevator, depth=2, nr_requests=8)
    task = world.task()
    for at in range(5):
        world.submit(task, at * 100)
    world.machine.run_works()
    assert world.issued() == [0, 100]
    assert [int(rq.sector) for rq in elevator.waiting] == [300, 400]
    assert world.q.hctxs[0].dispatch.count == 1
    assert world.q.hctxs[0].needs_restart
    world.complete()
    world.machine.run_works()
    assert world.issued() == [100, 200]
    world.complete_all()
    world.check_quiet()


def test_no_restart_without_a_mark() -> None:
    """A deep idle device is not run on each completion."""
    world = World(elevator=Fifo(), depth=8)
    world.submit(world.task(), 0)
    world.machine.run_works()
    world.complete()
    assert world.machine.works == []


def test_a_held_device_is_asked_again_after_3_ms() -> None:
    """The elevator has work and gives none; a run that is to come already stays where it is."""
    elevator = Fifo()
    elevator.holds = True
    world = World(elevator=elevator)
    task = world.task()
    world.submit(task, 0)
    world.machine.run_works()
    due = [entry[0] for entry in world.machine.works]
    assert due == [8 * MS]
    world.machine.now += MS
    world.q.run_hw_queues(False)
    assert [entry[0] for entry in world.machine.works] == due
    world.machine.run_works(8 * MS)
    assert elevator.asked == 3
    elevator.holds = False
    world.machine.run_works(20 * MS)
    assert world.issued() == [0]


def test_a_run_that_is_to_come_later_is_left_alone() -> None:
    """Or hardware queues that put off each other's runs would stall."""
    elevator = Fifo()
    elevator.holds = True
    world = World(elevator=elevator)
    world.q.hctxs[0].is_stopped = True
    world.submit(world.task(), 0)
    world.q.hctxs[0].is_stopped = False
    world.q.delay_run_hw_queue(world.q.hctxs[0], 10)
    world.q.run_hw_queues(False)
    assert elevator.asked == 1
    assert [entry[0] for entry in world.machine.works] == [44 * MS]


def test_an_insertion_brings_a_delayed_run_forward() -> None:
    """kblockd_mod_delayed_work(): the run is now."""
    elevator = Fifo()
    elevator.holds = True
    world = World(elevator=elevator)
    task = world.task()
    world.submit(task, 0)
    world.machine.run_works()
    world.submit(task, 100)
    assert [entry[0] for entry in world.machine.works] == [world.machine.now]


def test_dispatch_busy_is_an_integer_average() -> None:
    """7/8 of the past and 2 for each refusal; it settles at 9 and decays to 0."""
    hctx = World().q.hctxs[0]
    seen = []
    for _ in range(12):
        hctx.update_dispatch_busy(True)
        seen.append(int(hctx.dispatch_busy))
    assert seen == [2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9]
    for _ in range(9):
        hctx.update_dispatch_busy(False)
        seen.append(int(hctx.dispatch_busy))
    assert seen[12:] == [7, 6, 5, 4, 3, 2, 1, 0, 0]


def test_a_busy_queue_takes_from_the_elevator_one_by_one() -> None:
    """Batch limit 1 instead of nr_requests; `last` is true each time."""
    for is_busy, last in ((False, [False, False, True]), (True, [True, True, True])):
        world = World(elevator=Fifo(), commits=True)
        task = world.task()
        world.plug(task)
        for at in range(3):
            world.submit(task, at * 100)
        world.q.hctxs[0].dispatch_busy = 9 if is_busy else 0
        world.unplug(task)
        assert world.device.is_last == last


def test_software_queues_are_flushed_together_or_one_by_one() -> None:
    """Idle: all of CPU 0, then all of CPU 1; busy: in turn."""
    for is_busy, order in ((False, [0, 100, 200, 300]), (True, [0, 200, 100, 300])):
        world = World(cpus=2)
        hctx = world.q.hctxs[0]
        hctx.is_stopped = True
        for at, cpu in enumerate((0, 0, 1, 1)):
            world.submit(world.task(cpu), at * 100)
        hctx.is_stopped = False
        hctx.dispatch_busy = 9 if is_busy else 0
        world.q.run_hw_queue(hctx, False)
        assert world.issued() == order


def test_the_turn_goes_on_at_the_next_run() -> None:
    """The round does not begin at CPU 0 each time."""
    world = World(cpus=3)
    hctx = world.q.hctxs[0]
    hctx.is_stopped = True
    for cpu in (0, 0, 1, 2):
        world.submit(world.task(cpu), cpu * 1000 + len(world.bios))
    hctx.is_stopped = False
    hctx.dispatch_busy = 9
    world.device.answers = [BLK_STS_OK, BLK_STS_RESOURCE]
    world.q.run_hw_queue(hctx, False)
    assert world.issued() == [0]
    world.q.run_hw_queue(hctx, False)
    assert world.issued() == [0, 1002, 2003, 1]
    world.complete_all()
    world.check_quiet()


def test_another_cpus_queue_is_run_by_kblockd() -> None:
    """A CPU that does not map to the hardware queue must not run it."""
    world = World(cpus=2, hw_queues=2)
    hctx = world.q.hctxs[1]
    hctx.is_stopped = True
    world.submit(world.task(1), 0)
    hctx.is_stopped = False
    world.machine.current = world.machine.idle[0]
    world.q.run_hw_queue(hctx, False)
    assert world.issued() == []
    assert world.machine.run_works() == [1]
    assert world.issued() == [0]


def test_kblockd_takes_turns_over_the_cpus_of_a_queue() -> None:
    """Eight runs each; with one hardware queue it runs wherever it was asked."""
    world = World(cpus=4, hw_queues=2)
    assert [world.q.work_cpu(world.q.hctxs[1]) for _ in range(17)] == [2] * 7 + [3] * 8 + [2] * 2
    assert World(cpus=4).q.work_cpu(World(cpus=4).q.hctxs[0]) == -1


def test_a_requeued_request_comes_back_at_the_head() -> None:
    """R, then from kblockd I and D again; without an elevator it stands first in its software queue."""
    world = World()
    task = world.task()
    world.submit(task, 0)
    rq = world.device.held.pop()
    world.q.requeue_request(rq)
    assert world.trace.letters() == "QGDR"
    assert world.q.nr_started == 0
    world.machine.run_works()
    assert world.trace.letters() == "QGDRID"
    world.complete_all()
    world.check_quiet()


def test_requeued_requests_come_back_in_reverse() -> None:
    """Each is inserted at the head, one after the other (since 6.5)."""
    world = World()
    task = world.task()
    for at in range(3):
        world.submit(task, at * 100)
    for rq in list(world.device.held):
        world.q.requeue_request(rq)
    world.device.held.clear()
    world.machine.run_works()
    assert world.issued() == [200, 100, 0]
    world.complete_all()
    world.check_quiet()


def test_a_requeued_request_gives_its_driver_tag_back() -> None:
    """With an elevator: the elevator hears of it, and it needs a new driver tag."""
    elevator = Fifo()
    world = World(elevator=elevator, depth=1)
    world.submit(world.task(), 0)
    world.machine.run_works()
    rq = world.device.held.pop()
    assert rq.tag == 0
    world.q.requeue_request(rq)
    assert rq.tag == -1
    assert elevator.requeued == 1
    assert world.q.hctxs[0].tags.in_use() == 0
    world.complete_all()
    world.check_quiet()


def test_a_prepared_request_goes_to_the_dispatch_list() -> None:
    """RQF_DONTPREP: past the elevator, so that it is not merged."""
    elevator = Fifo()
    world = World(elevator=elevator)
    world.submit(world.task(), 0)
    world.machine.run_works()
    rq = world.device.held.pop()
    rq.rq_flags |= RQF_DONTPREP
    world.q.requeue_request(rq)
    elevator.asked = 0
    world.machine.run_works()
    assert world.issued() == [0]
    assert world.trace.letters() == "QGIDRD"


def test_one_run_serves_all_hardware_queues_of_an_elevator() -> None:
    """mq-deadline gives requests of other hardware queues too; they go to their own, in order of the queues."""
    world = World(cpus=2, hw_queues=2, elevator=Deadline())
    world.submit(world.task(1), 0)
    world.submit(world.task(0), 100)
    world.submit(world.task(1), 200)
    world.machine.current = world.machine.idle[0]
    world.q.run_hw_queue(world.q.hctxs[0], False)
    assert world.issued() == [100, 0, 200]
    assert [int(rq.hctx.index) for rq in world.device.held] == [0, 1, 1]
    world.complete_all()
    world.check_quiet()


def test_run_hw_queues_does_not_forget_dispatch_lists() -> None:
    """With a queue-wide elevator one hardware queue is run, and each that has requests past the elevator."""
    world = World(cpus=2, hw_queues=2, elevator=Fifo())
    world.submit(world.task(1), 0)
    world.machine.run_works()
    rq = world.device.held.pop()
    world.q.undo_start(rq)
    world.q.bypass_insert(rq, False)
    world.machine.current = world.machine.idle[0]
    world.q.run_hw_queues(False)
    world.machine.run_works()
    assert world.issued() == [0]


def test_a_dispatch_list_that_fills_during_a_run_goes_first() -> None:
    """The elevator's batch ends, and the run is made again, so that flushes do not starve."""

    class Filling(Fifo):
        def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
            rq = super().dispatch_request(hctx)
            if self.asked == 1:
                late = self.waiting.pop()
                assert self.q is not None
                self.q.bypass_insert(late, False)
            return rq

    world = World(elevator=Filling())
    task = world.task()
    world.plug(task)
    for at in range(4):
        world.submit(task, at * 100)
    world.unplug(task)
    assert world.issued() == [0, 300, 100, 200]


def test_a_mark_taken_meanwhile_runs_the_queue() -> None:
    """When the last completion came during the dispatch nobody else would run it again."""
    world = World(elevator=Fifo(), depth=1)
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.submit(task, 100)
    world.unplug(task)
    hctx = world.q.hctxs[0]
    assert hctx.needs_restart
    assert hctx.dispatch.count == 1
    # The completion takes the mark before the request is back on the list.
    late = hctx.dispatch.pop()
    assert late is not None
    world.complete()
    assert world.machine.works == []
    batch = RequestList()
    batch.append(late)
    give_back(hctx, batch, False)
    world.machine.run_works()
    assert world.issued() == [100]


def test_a_run_on_a_stopped_queue_does_nothing() -> None:
    """Nor is one scheduled."""
    world = World(elevator=Fifo())
    world.submit(world.task(), 0)
    world.q.hctxs[0].is_stopped = True
    world.machine.run_works()
    assert world.issued() == []
    world.q.run_hw_queues(True)
    world.q.delay_run_hw_queue(world.q.hctxs[0], 1)
    assert world.machine.works == []
