"""Stages of I/Os whose every step is at a time chosen here: what is counted, from where to where, and how often."""

from __future__ import annotations

import pytest
from block_world import HandTask
from stage_world import StageWorld

from blktwin.block import complete
from blktwin.block.bio import BLK_STS_RESOURCE, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.deadline import Deadline
from blktwin.block.limits import QueueLimits
from blktwin.block.plug import Plug
from blktwin.block.unplug import finish_plug, start_plug
from blktwin.drivers.loop.reasons import REASON_EAGAIN_SYNC, REASON_INLINE, REASON_POLICY
from blktwin.sim.costs import Costs
from blktwin.sim.stage_device import D2C, D2W, LC2C, LQ2LC, W2X, X2C, X2LQ
from blktwin.sim.stages import StageTrace


def test_direct_issue_has_no_insertion() -> None:
    """Without an elevator nothing is inserted: G2D is ours, btt says nothing of that time."""
    world = StageWorld()
    world.at(100).submit(0)
    world.at(150).complete()
    world.at(300).submit(64, op=REQ_OP_WRITE, flags=REQ_SYNC)
    world.at(390).complete()
    assert world.samples(0) == {"Q2Q": (1, 200), "Q2G": (1, 0), "G2D": (1, 0), "D2C": (1, 50), "Q2C": (1, 50)}
    assert world.samples(1) == {"Q2G": (1, 0), "G2D": (1, 0), "D2C": (1, 90), "Q2C": (1, 90)}
    assert world.stages().total(D2C).total == 140


def test_a_step_is_at_the_end_of_its_cost() -> None:
    """As RecordingTrace writes rows: Q when the submission has been paid, G when the request has, and so on."""
    world = StageWorld()
    world.trace.costs.update({"submit": 10, "alloc": 20, "issue": 40, "complete": 80})
    world.at(1000).submit(0)
    assert world.machine.local_ns == 1070
    world.at(2000).complete()
    assert world.samples() == {"Q2G": (1, 20), "G2D": (1, 40), "D2C": (1, 1010), "Q2C": (1, 1070)}


def plugged(world: StageWorld, times: list[int], sectors: list[int]) -> None:
    """Submit bios at times into a plug."""
    start_plug(world.task, Plug())
    for ns, sector in zip(times, sectors, strict=True):
        world.at(ns).submit(sector)


def test_every_bio_of_a_merged_request_counts() -> None:
    """Merged bios have Q2M and M2D instead of Q2G and G2D; D2C and Q2C are theirs too."""
    world = StageWorld()
    plugged(world, [100, 110, 130], [8, 16, 0])
    world.at(200)
    finish_plug(world.machine, world.task)
    world.at(1200).complete()
    assert world.samples() == {
        "Q2Q": (2, 30),
        "Q2G": (1, 0),
        "Q2M": (2, 0),
        "M2D": (2, 90 + 70),
        "G2D": (1, 100),
        "D2C": (3, 3000),
        "Q2C": (3, 1100 + 1090 + 1070),
    }
    device = world.stages()
    assert (device.nr_queued, device.nr_issued, device.nr_merged_bios) == (3, 1, 2)
    assert (device.sectors.low, device.sectors.total) == (24, 24)


def test_an_elevator_has_g2i_and_i2d() -> None:
    world = StageWorld(Deadline())
    plugged(world, [100], [8])
    world.at(140)
    finish_plug(world.machine, world.task)
    world.at(1000).complete()
    assert world.samples() == {"Q2G": (1, 0), "G2I": (1, 40), "I2D": (1, 0), "D2C": (1, 860), "Q2C": (1, 900)}


def test_what_the_driver_gives_back_is_issued_again() -> None:
    """D2C counts from the last D; btt counts what comes back as queued again, and its sectors once."""
    world = StageWorld()
    # Refused when it is issued, and when the queue is run for that; then only later.
    world.device.answers = [BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    world.at(100).submit(0)
    device = world.stages()
    assert (device.nr_requeued, device.nr_issued, device.in_flight) == (2, 2, 0)
    world.at(500)
    hctx = world.q.hctxs[0]
    world.machine.current = world.task
    world.q.run_hw_queue(hctx, False)
    world.at(800).complete()
    assert world.samples()["D2C"] == (1, 300)
    assert world.samples()["Q2C"] == (1, 700)
    assert world.samples()["G2D"] == (3, 400)
    assert (device.nr_queued, device.nr_issued) == (3, 3)
    assert (device.sectors.total, device.sectors_returned) == (24, 16)
    assert (device.in_flight_ns, device.in_flight_max) == (300, 1)


def test_parts_of_a_split_bio_count_from_the_whole() -> None:
    limits = QueueLimits()
    limits.max_sectors = 16
    world = StageWorld(limits=limits)
    bio = world.at(100).submit(0, 40)
    world.at(400).complete()
    world.at(500).complete()
    assert bio.ends == []
    world.at(700).complete()
    assert bio.ends == [0]
    assert world.samples()["Q2C"] == (3, 300 + 400 + 600)
    device = world.stages()
    assert (device.nr_splits, device.nr_queued, device.nr_issued) == (2, 1, 3)
    assert device.waiting == 0


def test_a_bio_ends_with_its_last_part() -> None:
    """C of a part ends the bios inside it; the rest comes back, is issued again, and has a D2C of its own."""
    world = StageWorld()
    plugged(world, [100, 100], [0, 8])
    finish_plug(world.machine, world.task)
    rq = world.device.held.pop(0)
    world.at(300)
    complete.end_part(world.q, rq, 12)
    world.q.requeue_request(rq)
    world.machine.run(1 << 40, 100)
    assert world.device.held == [rq]
    again_ns = int(world.machine.local_ns)
    world.at(again_ns + 1000).complete()
    device = world.stages()
    d2c = device.stat(D2C, 0)
    assert d2c is not None
    assert (d2c.count, d2c.low, d2c.high) == (2, 200, 1000)
    assert (device.nr_parts, device.nr_requeued) == (1, 1)
    assert (device.nr_issued, device.sectors.total - device.sectors_returned) == (2, 16)


def test_a_rest_that_is_not_the_rest_is_found() -> None:
    """Partial completions add up to the request."""
    world = StageWorld()
    world.at(100).submit(0, 16)
    rq = world.device.held.pop(0)
    world.trace.rq_complete(rq, 0, 8 << 9)
    with pytest.raises(AssertionError, match="16 sectors are issued again, 8 are left"):
        world.trace.rq_issue(rq)


def test_a_step_behind_the_one_before_takes_no_time() -> None:
    """A CPU that runs ahead has queued what another one issues earlier: no stage is negative, and it is counted."""
    world = StageWorld()
    world.device.answers = [BLK_STS_RESOURCE, BLK_STS_RESOURCE]
    world.at(1000).submit(0)
    world.at(400)
    world.machine.current = HandTask(2, "u", world.machine.cgroups.root)
    world.q.run_hw_queue(world.q.hctxs[0], False)
    world.at(1500).complete()
    assert world.samples()["D2C"] == (1, 500)
    assert world.samples()["G2D"] == (3, 0)
    assert world.stages().nr_early > 0


def test_arrivals_out_of_order_are_sorted() -> None:
    world = StageWorld()
    for ns in (500, 300, 900, 100):
        world.at(ns).submit(ns)
    q2q = world.stages().total(0)
    assert (q2q.count, q2q.low, q2q.high, q2q.total) == (3, 200, 400, 800)


# -- a loop device


class LoopSteps:
    """One request whose steps inside the driver the test takes itself."""

    def __init__(self) -> None:
        self.world = StageWorld()
        self.trace: StageTrace = self.world.trace
        self.world.at(100).submit(0)
        self.rq = self.world.device.held[0]
        self.trace.loop_dispatch(self.rq)

    def work(self, ns: int, reason: int) -> None:
        """W."""
        self.world.at(ns)
        self.trace.loop_work(self.rq, reason)

    def begin(self, ns: int, reason: int) -> None:
        """X."""
        self.world.at(ns)
        self.trace.loop_begin(self.rq, self.world.task, reason)

    def lower(self, queued_ns: int, done_ns: int) -> None:
        """Q' and C'."""
        self.world.at(queued_ns)
        self.trace.loop_lower_queue(self.rq)
        self.world.at(done_ns)
        self.trace.loop_lower_done(self.rq)

    def end(self, ns: int) -> dict[str, int]:
        """C: return the stages inside D2C (ns)."""
        self.world.at(ns).complete()
        device = self.world.stages()
        found = {}
        for stage in (D2W, W2X, X2LQ, LQ2LC, LC2C, X2C):
            stat = device.stat(stage, 0)
            if stat is not None:
                assert stat.count == 1
                found[("D2W", "W2X", "X2Q'", "Q'2C'", "C'2C", "X2C")[stage - D2W]] = int(stat.total)
        d2c = device.stat(D2C, 0)
        assert d2c is not None
        assert d2c.total == sum(found.values()) == ns - 100
        return found


def test_the_way_through_a_worker() -> None:
    steps = LoopSteps()
    steps.work(103, REASON_POLICY)
    steps.begin(140, REASON_POLICY)
    steps.lower(155, 900)
    assert steps.end(1000) == {"D2W": 3, "W2X": 37, "X2Q'": 15, "Q'2C'": 745, "C'2C": 100}


def test_inline_execution_has_no_worker() -> None:
    """What the driver does before it calls the file belongs to X2Q'."""
    steps = LoopSteps()
    steps.begin(107, REASON_INLINE)
    steps.lower(120, 500)
    assert steps.end(530) == {"D2W": 0, "W2X": 0, "X2Q'": 20, "Q'2C'": 380, "C'2C": 30}


def test_a_hole_has_no_lower_io() -> None:
    steps = LoopSteps()
    steps.work(110, REASON_POLICY)
    steps.begin(150, REASON_POLICY)
    assert steps.end(175) == {"D2W": 10, "W2X": 40, "X2C": 25}


def test_an_attempt_that_failed_belongs_to_d2w() -> None:
    """Also one that came back from the device below: its Q' and C' are not those that count."""
    steps = LoopSteps()
    steps.begin(105, REASON_INLINE)
    steps.lower(120, 180)
    steps.work(190, REASON_EAGAIN_SYNC)
    steps.begin(230, REASON_EAGAIN_SYNC)
    steps.lower(240, 600)
    assert steps.end(640) == {"D2W": 90, "W2X": 40, "X2Q'": 10, "Q'2C'": 360, "C'2C": 40}


def test_a_request_that_ends_in_its_workers_list_is_found() -> None:
    steps = LoopSteps()
    steps.work(110, REASON_POLICY)
    with pytest.raises(AssertionError, match="its worker has not begun"):
        steps.end(200)


def test_several_lower_bios_count_from_the_first_to_the_last() -> None:
    steps = LoopSteps()
    steps.begin(100, REASON_INLINE)
    steps.world.at(110)
    steps.trace.loop_lower_queue(steps.rq)
    steps.lower(150, 400)
    steps.world.at(450)
    steps.trace.loop_lower_done(steps.rq)
    assert steps.end(460)["Q'2C'"] == 340


def test_a_trace_costs_what_the_plain_one_does() -> None:
    """The stop-watch moves no clock."""
    costs = Costs()
    costs.update({"submit": 1, "alloc": 2, "merge": 4, "insert": 8, "issue": 16, "complete": 32})
    world = StageWorld(Deadline())
    world.trace.costs.update(costs.as_dict())
    plugged(world, [0, 10], [8, 16])
    finish_plug(world.machine, world.task)
    world.complete()
    assert world.machine.local_ns == 10 + 1 + 4 + 8 + 16 + 32
