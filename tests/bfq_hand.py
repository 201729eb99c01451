"""BFQ by hand: a queue on a machine that stands still, a device that holds everything, timers that fire when told.

Every step is audited (bfq_audit.py). Requests gather in BFQ and give() asks for one, unless the world is `running`.
"""

from __future__ import annotations

from bfq_audit import History, audit
from block_world import MS, HandDevice, HandMachine, HandTask, NoteBio

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.cgroups import find_group
from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.group import BfqGroup
from blktwin.block.bfq.log import REASON_NAMES, BfqLog
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.scheduler import Bfq
from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.machine import Timer
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.rules import Rules, preset
from blktwin.block.submit import submit_bio
from blktwin.drivers.hardware import HardwareDriver

DEV = (8, 16)
START_NS = 10_000 * MS
"""Late enough that nothing is near the beginning of time."""


class Armed:
    """When a timer fires."""

    def __init__(self, expires_ns: int) -> None:
        self.expires_ns = expires_ns


class TimerMachine(HandMachine):
    """A HandMachine with timers."""

    def __init__(self, hz: int) -> None:
        super().__init__(1, hz)
        self.now = START_NS
        self.timers: list[Timer] = []

    def arm_timer(self, timer: Timer, expires_ns: int) -> None:
        """Note when."""
        timer.slot = Armed(int(expires_ns))
        if timer not in self.timers:
            self.timers.append(timer)

    def cancel_timer(self, timer: Timer) -> bool:
        """Forget it."""
        was_armed = timer in self.timers
        timer.slot = Armed(-1)
        if was_armed:
            self.timers.remove(timer)
        return was_armed

    def fire_timers(self) -> None:
        """Fire what is due."""
        for timer in list(self.timers):
            slot = timer.slot
            assert isinstance(slot, Armed)
            if slot.expires_ns <= self.now:
                self.cancel_timer(timer)
                self.current = self.idle[0]
                timer.fire()


class EventLog(BfqLog):
    """Keeps what happened, as words."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Serve."""
        self.events.append(f"serve {bfqq.path()}")

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
        """End."""
        self.events.append(f"end {bfqq.path()} {REASON_NAMES[reason]} {charged}")

    def idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: int, ns: int) -> None:
        """Idle."""
        self.events.append(f"idle {bfqq.path()} {ns}")

    def injected(self, bfqd: BfqData, in_service: BfqQueue, bfqq: BfqQueue, why: int) -> None:
        """Inject."""
        self.events.append(f"inject {bfqq.path()} {why}")

    def merged(self, bfqd: BfqData, bfqq: BfqQueue, into: BfqQueue, why: str) -> None:
        """Merge."""
        self.events.append(f"merge {why}")

    def split(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Split."""
        self.events.append("split")

    def moved(self, bfqd: BfqData, bfqq: BfqQueue, path: str) -> None:
        """Move."""
        self.events.append(f"move {path}")

    def woken_by(self, bfqd: BfqData, bfqq: BfqQueue, waker: BfqQueue) -> None:
        """Waker."""
        self.events.append(f"waker {waker.path()}")

    def raised(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """Raise."""
        self.events.append(f"raise {bfqq.path()} {before}->{bfqq.wr_coeff}")

    def of(self, word: str) -> list[str]:
        """Return the events of one kind."""
        return [event for event in self.events if event.startswith(word)]


class Hand:
    """One device with BFQ; weight raising is off unless low_latency=1 is asked for."""

    def __init__(
        self,
        rules: Rules | str = "6.12",
        *,
        hz: int = 250,
        is_rotational: int = 0,
        depth: int = 64,
        nr_requests: int = 0,
        is_running: int = 0,
        low_latency: int = 0,
        **tunables: int,
    ) -> None:
        found = preset(rules) if isinstance(rules, str) else rules
        assert found is not None
        self.machine = TimerMachine(hz)
        self.device = HandDevice()
        self.limits = QueueLimits()
        self.limits.is_rotational = bool(is_rotational)
        self.bfq = Bfq()
        self.log = EventLog()
        self.bfq.log = self.log
        self.q = RequestQueue(
            self.machine,
            found,
            HardwareDriver(self.device),
            self.limits,
            name="hand",
            capacity_sectors=1 << 40,
            queue_depth=depth,
            nr_requests=nr_requests,
            elevator=self.bfq,
        )
        self.q.dev = DEV
        self.bfqd = self.bfq.data()
        self.hctx = self.q.hctxs[0]
        self.hctx.is_stopped = not is_running
        self.nr_tasks = 0
        self.history = History([])
        self.given: list[Request] = []
        """What give() got and complete() has not ended, in order."""
        for name, value in {"low_latency": low_latency, **tunables}.items():
            self.bfq.set_tunable(name, value)

    # -- processes

    def task(self, cgroup: str = "/", ioprio: int = 0) -> HandTask:
        """Make a process."""
        self.nr_tasks += 1
        task = HandTask(self.nr_tasks, f"t{self.nr_tasks}", self.machine.cgroups.get(cgroup))
        task.ioprio = ioprio
        self.history.tasks.append(task)
        return task

    def bic(self, task: HandTask) -> BfqIoCq:
        """Return a process's context; it must have done I/O."""
        icq = task.io_context.lookup(self.bfq)
        assert isinstance(icq, BfqIoCq)
        return icq

    def queue(self, task: HandTask) -> BfqQueue:
        """Return a process's sync queue."""
        bfqq = self.bic(task).sync_bfqq
        assert bfqq is not None
        return bfqq

    def async_queue(self, task: HandTask) -> BfqQueue:
        """Return a process's async queue."""
        bfqq = self.bic(task).async_bfqq
        assert bfqq is not None
        return bfqq

    def group(self, path: str) -> BfqGroup:
        """Return a cgroup's group."""
        return find_group(self.bfqd, self.machine.cgroups.get(path))

    def exit(self, task: HandTask) -> None:
        """End a process."""
        self.machine.current = task
        task.io_context.exit_task()
        self.machine.current = self.machine.idle[0]
        self.check()

    # -- I/O

    def submit(self, task: HandTask, sector: int, nr: int = 8, op: int = REQ_OP_READ, flags: int = 0) -> NoteBio:
        """Submit a bio."""
        bio = NoteBio()
        bio.op, bio.flags, bio.sector, bio.nr_sectors = op, flags, sector, nr
        bio.nr_segments = segments_of_op(op, nr)
        self.machine.current = task
        submit_bio(self.q, bio)
        self.machine.current = self.machine.idle[0]
        self.check()
        return bio

    def read(self, task: HandTask, *sectors: int, nr: int = 8) -> None:
        """Submit reads."""
        for sector in sectors:
            self.submit(task, sector, nr)

    def write(self, task: HandTask, *sectors: int, nr: int = 8, flags: int = REQ_SYNC) -> None:
        """Submit writes."""
        for sector in sectors:
            self.submit(task, sector, nr, REQ_OP_WRITE, flags)

    def give(self) -> int:
        """Ask BFQ for a request and start it; return its sector, -1 if the device is kept idle."""
        rq = self.bfq.dispatch_request(self.hctx)
        if rq is None:
            self.check()
            return -1
        rq.is_queued = False
        assert self.q.get_driver_tag(rq)
        self.q.start_request(rq)
        self.given.append(rq)
        self.check()
        return int(rq.sector)

    def give_all(self) -> list[int]:
        """Ask until nothing comes."""
        out: list[int] = []
        while (sector := self.give()) >= 0:
            out.append(sector)
        return out

    def complete(self, sector: int = -1) -> None:
        """End the oldest request that was given, or the one at a sector."""
        at = 0
        if sector >= 0:
            at = next(at for at, rq in enumerate(self.given) if rq.sector == sector)
        rq = self.given.pop(at)
        self.machine.current = self.machine.idle[0]
        rq.q.complete_here(rq, BLK_STS_OK)
        self.check()

    def serve(self) -> int:
        """Give a request and end it; return its sector."""
        sector = self.give()
        if sector >= 0:
            self.complete(sector)
        return sector

    def bounce(self) -> None:
        """Give the oldest request back undone, and let kblockd insert it anew."""
        rq = self.given.pop(0)
        self.history.bounced.append(rq)
        self.machine.current = self.machine.idle[0]
        self.q.requeue_request(rq)
        self.machine.run_works()
        self.check()

    # -- time

    def wait(self, ns: int) -> None:
        """Let time pass, in steps of at most a ms, with its timers and work."""
        end = self.machine.now + ns
        while True:
            self.machine.fire_timers()
            self.machine.run_works()
            self.check()
            if self.machine.now >= end:
                return
            self.machine.now = min(end, self.machine.now + MS)

    def skip(self, ns: int) -> None:
        """Let time pass without anything happening."""
        self.machine.now += ns

    def check(self) -> None:
        """Audit."""
        self.history.has_moved = bool(self.log.of("move"))
        self.history.has_raised = bool(self.log.of("raise"))
        audit(self.bfqd, self.history)
