"""What must hold in any world of blk-mq, checked between events: run_storm() and its Audit (block_storm.py).

I1: a started request completes once, a bio ends once, and every tag in use belongs to a request that stands in exactly
one place. I15: no request is on two lists. L1: what waits has a run pending, or a completion to come that makes one.
L2: nobody waits for a tag for ever. A request's bios are contiguous and make up its range. A flush covers what it must.
"""

from __future__ import annotations

from block_storm import CAPACITY, Io, Storm, StormBio, StormDevice, StormDriver, StormTask

from blktwin.block.bio import BLK_STS_AGAIN, BLK_STS_OK, REQ_FUA, REQ_OP_FLUSH, REQ_OP_WRITE, REQ_PREFLUSH, Bio
from blktwin.block.deadline import Deadline
from blktwin.block.elevator import Elevator
from blktwin.block.hctx import HardwareQueue
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.rules import preset
from blktwin.block.submit import submit_bio
from blktwin.sim.costs import Costs
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace

MAX_EVENTS = 50_000
COSTS_NS = {"submit": 300, "alloc": 100, "issue": 400, "complete": 200, "switch": 500, "work": 100, "irq": 100}


class Audit(CostTrace):
    """The tracepoints check each request as it passes; look() checks the world between two events."""

    def __init__(self, storm: Storm) -> None:
        costs = Costs()
        costs.update(COSTS_NS)
        super().__init__(costs)
        self.sim = SimMachine(self, nr_cpus=storm.cpus, hz=250, costs=costs, faults=Faults(storm.seed, storm.faults))
        self.bind(self.sim)
        self.sim.cpus_per_cache = max(1, storm.cpus // 2)
        self.limits = QueueLimits()
        self.limits.max_sectors = storm.max_sectors
        self.limits.max_discard_sectors = 2 * storm.max_sectors
        self.limits.has_write_cache = storm.has_write_cache
        self.limits.has_fua = storm.has_fua
        self.devices = [StormDevice(self.sim, storm, index) for index in range(storm.queues)]
        self.elevators: list[Deadline | None] = []
        self.queues = [self.make_queue(storm, index) for index in range(storm.queues)]
        self.bios: list[StormBio] = []
        self.clock = 0
        self.flush_started: dict[str, int] = {}
        self.flushes: list[tuple[str, int, int]] = []
        """Cache flushes that went well: queue and hardware queue, when started, when done."""
        self.tasks = [StormTask(self, pid + 1, *script) for pid, script in enumerate(storm.scripts)]
        for task in self.tasks:
            self.sim.start_task(task, task.pid % storm.cpus, 100 * task.pid)

    def make_queue(self, storm: Storm, index: int) -> RequestQueue:
        """Build one queue."""
        rules = preset(storm.rules)
        assert rules is not None
        deadline = Deadline() if storm.scheduler == "mq-deadline" else None
        self.elevators.append(deadline)
        elevator: Elevator | None = deadline
        q = RequestQueue(
            self.sim,
            rules,
            StormDriver(self.devices[index]),
            self.limits,
            name=f"storm{index}",
            capacity_sectors=CAPACITY,
            nr_hw_queues=storm.hw_queues,
            queue_depth=storm.depth,
            nr_requests=storm.nr_requests if deadline is not None else 0,
            elevator=elevator,
        )
        q.nomerges = storm.nomerges
        q.rq_affinity = storm.rq_affinity
        return q

    def tick(self) -> int:
        """Count what happens: a clock that orders everything."""
        self.clock += 1
        return self.clock

    def submit(self, task: StormTask, io: Io) -> None:
        """Submit one bio of a script."""
        bio = StormBio(task, io)
        _, bio.op, bio.flags, bio.sector, bio.nr_sectors = io
        bio.nr_segments = segments_of_op(bio.op, bio.nr_sectors)
        bio.queued_at = self.tick()
        self.bios.append(bio)
        submit_bio(self.queues[io[0] % len(self.queues)], bio)

    # -- what passes

    def rq_issue(self, rq: Request) -> None:
        """D: its bios make up its range; a flush begins."""
        super().rq_issue(rq)
        check_range(rq)
        now = self.tick()
        if rq.op == REQ_OP_FLUSH:
            self.flush_started[rq.q.name + str(rq.hctx.index)] = now

    def rq_complete(self, rq: Request, status: int, nr_bytes: int) -> None:
        """C: book what was transferred on the bios that were submitted."""
        super().rq_complete(rq, status, nr_bytes)
        now = self.tick()
        if status != BLK_STS_OK:
            return
        if rq.op == REQ_OP_FLUSH:
            key = rq.q.name + str(rq.hctx.index)
            self.flushes.append((key, self.flush_started[key], now))
        if nr_bytes == 0:
            return
        check_range(rq)
        bio = rq.bio
        while bio is not None:
            root = root_of(bio)
            root.done_sectors += int(bio.nr_sectors)
            root.data_done_at = now
            bio = bio.next

    # -- between events

    def look(self) -> None:
        """Check every list and tag."""
        waiting: list[tuple[Request, str]] = []
        for task in self.tasks:
            waiting += chain(task.plug.mq_list.head if task.plug is not None else None, f"plug of {task.comm}")
            assert task.stack_plug.mq_list.count == 0
        for q, elevator, device in zip(self.queues, self.elevators, self.devices, strict=True):
            waiting += chain(q.requeue_work.requeue_list.head, "requeue list")
            flushes = chain(q.requeue_work.flush_list.head, "flush list")
            for done in q.softirq_done:
                waiting += chain(done.rq_list.head, "softirq list")
            if elevator is not None:
                waiting += chain(elevator.dispatch.head, "elevator's dispatch list")
                for lists in elevator.lists:
                    for way in (0, 1):
                        assert lists.sort[way].requests == sorted(lists.sort[way].requests, key=lambda rq: rq.sector)
                        fifo = [(rq, "fifo") for rq in fifo_of(lists.fifo[way].head)]
                        assert len(fifo) == len(lists.sort[way].requests) == lists.fifo[way].count
                        waiting += fifo
            for hctx in q.hctxs:
                waiting += chain(hctx.dispatch.head, "dispatch list")
                for ctx in hctx.ctxs:
                    waiting += chain(ctx.rq_list.head, f"software queue {ctx.cpu}")
                fq = hctx.fq
                assert fq is not None
                for pending in fq.pending:
                    waiting += chain(pending.head, "pending flushes")
                assert hctx.nr_ctx_queued == sum(int(ctx.rq_list.count) for ctx in hctx.ctxs)
            waiting += [(rq, "device") for rq in device.held.values()] + flushes
        places: dict[int, str] = {}
        for rq, place in waiting:
            key = id(rq)
            assert key not in places, f"the request at {rq.sector} is in {places[key]} and in {place}"
            places[key] = place
            check_range(rq)
        for q, device in zip(self.queues, self.devices, strict=True):
            self.look_at_tags(q, [rq for rq, _ in waiting if rq.q is q])
            in_softirq = sum(int(done.rq_list.count) for done in q.softirq_done)
            out = q.nr_started - q.nr_completed
            assert out == len(device.held) + in_softirq, f"{out} are started and {len(device.held)} in the device"
            self.look_for_runs(q, device)

    def look_at_tags(self, q: RequestQueue, waiting: list[Request]) -> None:
        """Every allocated request stands in exactly one place, and holds its own tag."""
        for hctx in q.hctxs:
            fq = hctx.fq
            assert fq is not None
            mine = [rq for rq in waiting if rq.hctx is hctx and rq is not fq.flush_rq]
            tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
            taken = sorted(int(rq.tag if hctx.sched_tags is None else rq.sched_tag) for rq in mine)
            assert len(set(taken)) == len(taken)
            assert tags.in_use() == len(taken) <= tags.depth, f"{tags.in_use()} tags for {len(taken)} requests"
            if hctx.sched_tags is not None:
                with_flush = [rq for rq in waiting if rq.hctx is hctx]
                driver_tags = [int(rq.tag) for rq in with_flush if rq.tag >= 0]
                assert len(set(driver_tags)) == len(driver_tags)
                assert hctx.tags.in_use() == len(driver_tags) <= hctx.tags.depth

    def look_for_runs(self, q: RequestQueue, device: StormDevice) -> None:
        """L1: what waits in a queue has a run to come."""
        started: dict[int, int] = {}
        for rq in [*device.held.values(), *(rq for done in q.softirq_done for rq, _ in chain(done.rq_list.head, ""))]:
            started[int(rq.hctx.index)] = started.get(int(rq.hctx.index), 0) + 1

        def is_coming(hctx: HardwareQueue) -> bool:
            # The requeue work runs the queues when it has inserted.
            is_pending = hctx.run_work.is_pending or q.requeue_work.is_pending
            return is_pending or (hctx.needs_restart and int(hctx.index) in started)

        for hctx in q.hctxs:
            if hctx.dispatch.count or hctx.nr_ctx_queued:
                assert is_coming(hctx), f"{q.name}: requests wait and nothing will run hardware queue {hctx.index}"
        if q.elevator is not None and q.elevator.has_work(q.hctxs[0]):
            assert any(is_coming(hctx) for hctx in q.hctxs), f"{q.name}: the elevator has work and nobody asks"
        if q.requeue_work.requeue_list.count or q.requeue_work.flush_list.count:
            assert q.requeue_work.is_pending

    # -- at the end

    def check_end(self) -> None:
        """All has ended once, nothing is held, and what was asked for was done."""
        for task in self.tasks:
            assert not task.is_blocked, f"{task.comm} waits for a tag for ever"
            assert task.at == len(task.steps), f"{task.comm} stands at step {task.at}"
        for bio in self.bios:
            assert bio.ends == 1, f"the bio {bio.io} ended {bio.ends} times"
            self.check_bio(bio)
        for q in self.queues:
            assert q.nr_started == q.nr_completed
            assert q.stats.in_flight == 0
            for hctx in q.hctxs:
                assert hctx.tags.in_use() == 0
                assert hctx.sched_tags is None or hctx.sched_tags.in_use() == 0
                assert hctx.tags.nr_waiting == 0
            assert q.rqhash == [None] * len(q.rqhash)
        for elevator in self.elevators:
            assert elevator is None or [lists.nr_queued() for lists in elevator.lists] == [0, 0, 0]

    def check_bio(self, bio: StormBio) -> None:
        """Its sectors were transferred once each, and a flush stands where it must."""
        index, _, flags, _, nr_sectors = bio.io
        if bio.status != BLK_STS_OK:
            assert bio.done_sectors <= nr_sectors
            # A read or write that may not sleep is never split; a discard may be done in part.
            assert bio.status != BLK_STS_AGAIN or bio.op > REQ_OP_WRITE or bio.done_sectors == 0
            return
        assert bio.done_sectors == nr_sectors, f"{bio.io}: {bio.done_sectors} sectors were transferred"
        if not self.limits.has_write_cache:
            return
        name = self.queues[index % len(self.queues)].name
        flushes = [one for one in self.flushes if one[0].startswith(name) and one[2] < bio.ended_at]
        if flags & REQ_PREFLUSH:
            assert any(start > bio.queued_at for _, start, _ in flushes), f"{bio.io}: no flush before it"
        if flags & REQ_FUA and not self.limits.has_fua:
            assert any(start > bio.data_done_at for _, start, _ in flushes), f"{bio.io}: no flush behind it"


def root_of(bio: Bio) -> StormBio:
    """Return the bio that was submitted."""
    while bio.parent is not None:
        bio = bio.parent
    assert isinstance(bio, StormBio)
    return bio


def check_range(rq: Request) -> None:
    """The bios are contiguous and make up the request."""
    at = rq.sector
    bio = rq.bio
    while bio is not None:
        assert bio.sector == at, f"a bio at {bio.sector} where {at} was expected"
        at += bio.nr_sectors
        if bio.next is None:
            assert bio is rq.bio_tail
        bio = bio.next
    end = rq.sector + rq.nr_sectors
    assert rq.bio is None or at == end, f"the request at {rq.sector} ends at {end}, its bios end at {at}"


def chain(rq: Request | None, place: str) -> list[tuple[Request, str]]:
    """List a singly linked list."""
    out: list[tuple[Request, str]] = []
    while rq is not None:
        out.append((rq, place))
        rq = rq.next
    return out


def fifo_of(rq: Request | None) -> list[Request]:
    """List a fifo."""
    out: list[Request] = []
    while rq is not None:
        out.append(rq)
        rq = rq.fifo_next
    return out


def run_storm(audit: Audit) -> int:
    """Run to the end; return how many events that took."""
    fired = 0
    while audit.sim.run(1 << 62, 1):
        fired += 1
        assert fired < MAX_EVENTS, "the world does not come to rest"
        audit.look()
    audit.check_end()
    return fired
