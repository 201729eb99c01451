"""Random worlds of blk-mq on the simulated machine, stepped event by event, with what must hold after each.

A Storm is data: machine, queues, faults, and a script per task. block_audit.py builds and runs it: it fires one event
at a time and looks at every list and tag after each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blktwin.block.bio import BLK_STS_OK, Bio
from blktwin.block.driver import Driver
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.request import Request
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug
from blktwin.rng import Rng
from blktwin.sim.devices.base import SimDevice, Slot
from blktwin.sim.machine import SimMachine

if TYPE_CHECKING:
    from block_audit import Audit

CAPACITY = 4096

PLUG, UNPLUG, WAIT = "plug", "unplug", "wait"
Io = tuple[int, int, int, int, int]
"""queue, op, flags, sector, sectors."""
Step = str | Io


@dataclass
class Storm:
    """One random world."""

    rules: str = "6.12"
    cpus: int = 1
    hw_queues: int = 1
    depth: int = 4
    nr_requests: int = 0
    scheduler: str = "none"
    queues: int = 1
    nomerges: int = 0
    rq_affinity: int = 1
    max_sectors: int = 64
    has_write_cache: bool = False
    has_fua: bool = False
    has_irq_hop: bool = True
    faults: dict[str, int] = field(default_factory=dict)
    bounce_ppm: int = 0
    """How often a device gives a started request back instead of completing it."""
    seed: int = 1
    scripts: list[tuple[int, bool, list[Step]]] = field(default_factory=list)
    """Per task: I/O class, whether each completed bio wakes it, steps."""


class StormBio(Bio):
    """A bio that knows what was asked of it."""

    def __init__(self, task: StormTask, io: Io) -> None:
        super().__init__()
        self.task = task
        self.io = io
        self.ends = 0
        self.done_sectors = 0
        """Sectors that completed well."""
        self.queued_at = self.data_done_at = self.ended_at = -1

    def end_io(self) -> None:
        """Tell the task."""
        self.ends += 1
        self.ended_at = self.task.audit.tick()
        self.task.bio_done()


class StormTask(Task):
    """Follows a script."""

    def __init__(self, audit: Audit, pid: int, ioprio_class: int, is_nosy: bool, steps: list[Step]) -> None:
        super().__init__(pid, f"t{pid}", audit.sim.cgroups.get(f"/c{pid % 2}"))
        self.audit, self.steps, self.is_nosy = audit, steps, is_nosy
        self.ioprio = ioprio_class << 13
        self.at = 0
        self.in_flight = 0
        self.is_waiting = False
        self.own_plug = Plug()

    def bio_done(self) -> None:
        """Wake up when all have ended, or, being nosy, each time."""
        self.in_flight -= 1
        if self.is_nosy or (self.is_waiting and self.in_flight == 0):
            self.audit.sim.wake_task(self)

    def run(self) -> None:
        """Go on until it sleeps."""
        machine = self.audit.sim
        if self.is_blocked and not resume_submission(self):
            return
        while self.at < len(self.steps):
            step = self.steps[self.at]
            if step == PLUG:
                if self.plug is None:
                    start_plug(self, self.own_plug)
            elif step == UNPLUG:
                if self.plug is not None:
                    finish_plug(machine, self)
            elif step == WAIT:
                about_to_sleep(machine, self)
                self.is_waiting = True
                if self.in_flight > 0:
                    return
                self.is_waiting = False
            else:
                assert not isinstance(step, str)
                self.at += 1
                self.in_flight += 1
                self.audit.submit(self, step)
                if self.is_blocked:
                    return
                continue
            self.at += 1
        if self.plug is not None:
            finish_plug(machine, self)


class StormDevice(SimDevice):
    """Fixed latency by place, and now and then a request comes back."""

    def __init__(self, machine: SimMachine, storm: Storm, index: int) -> None:
        super().__init__(machine, storm.hw_queues, storm.depth)
        self.has_irq_hop = storm.has_irq_hop
        self.rng = Rng(storm.seed, 50 + index)
        self.bounce_ppm = storm.bounce_ppm
        self.held: dict[int, Request] = {}

    def submit(self, rq: Request) -> int:
        """Take it."""
        status = super().submit(rq)
        if status == BLK_STS_OK:
            self.held[int(rq.hctx.index * self.queue_depth + rq.tag)] = rq
        return int(status)

    def done_at_ns(self, rq: Request, now_ns: int) -> int:
        """Return when it is done."""
        return now_ns + 5_000 + int(rq.sector % 64) * 100

    def interrupt(self, slot: Slot) -> None:
        """Complete, or give back."""
        rq = slot.rq
        assert rq is not None
        del self.held[int(rq.hctx.index * self.queue_depth + rq.tag)]
        if self.bounce_ppm and self.rng.below(1_000_000) < self.bounce_ppm:
            slot.rq = None
            self.in_device -= 1
            self.machine.enter_irq(slot.cpu, 0)
            rq.q.requeue_request(rq)
            self.machine.leave_irq()
            return
        super().interrupt(slot)


class StormDriver(Driver):
    """Starts and hands over; a test may put a broken one in its place."""

    def __init__(self, device: StormDevice) -> None:
        self.device = device
        self.has_commit_rqs = True

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Start rq and submit it."""
        rq.q.start_request(rq)
        return self.device.submit(rq)
