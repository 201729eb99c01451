"""A world of blk-mq by hand: a machine whose work, softirqs and timers run only when the test says so.

The test holds every started request, refuses or completes it at will, and reads what happened as letters.
"""

from __future__ import annotations

from blktwin.block.bio import (
    BLK_STS_OK,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_PREFLUSH,
    REQ_SYNC,
    Bio,
)
from blktwin.block.cgroup import Cgroup, CgroupTree
from blktwin.block.driver import Driver
from blktwin.block.elevator import Elevator
from blktwin.block.hctx import HardwareQueue
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.machine import Machine, Task, Timer, Work
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.rules import PLUG_MERGE_TAIL, Rules, preset
from blktwin.block.submit import finish_plug, resume_submission, start_plug, submit_bio
from blktwin.block.tracepoint import Tracepoints
from blktwin.drivers.device import Device
from blktwin.drivers.hardware import HardwareDriver

MS = 1_000_000
NO_PLUG = Rules("test")
"""No plug but the test's own, and that in order."""
NO_PLUG.submit_on_stack_plug = False
NO_PLUG.plug_is_fifo = True
NO_PLUG.plug_merge = PLUG_MERGE_TAIL


class Letters(Tracepoints):
    """Keeps (letter, sector) of every tracepoint, and unplugs as (letter, depth)."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int]] = []

    def letters(self) -> str:
        """Return the letters alone, in order."""
        return "".join(letter for letter, _ in self.rows)

    def of(self, letter: str) -> list[int]:
        """Return the sectors (or depths) of one letter."""
        return [at for what, at in self.rows if what == letter]

    def bio_queue(self, bio: Bio) -> None:
        """Q."""
        self.rows.append(("Q", int(bio.sector)))

    def split(self, bio: Bio, sector: int) -> None:
        """X."""
        self.rows.append(("X", int(sector)))

    def getrq(self, bio: Bio) -> None:
        """G."""
        self.rows.append(("G", int(bio.sector)))

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """M."""
        self.rows.append(("M", int(bio.sector)))

    def bio_frontmerge(self, bio: Bio, rq: Request) -> None:
        """F."""
        self.rows.append(("F", int(bio.sector)))

    def rq_merge(self, rq: Request) -> None:
        """Record m."""
        self.rows.append(("m", int(rq.sector)))

    def plug(self, task: Task) -> None:
        """P."""
        self.rows.append(("P", 0))

    def unplug(self, task: Task, depth: int, explicit: bool) -> None:
        """U, or T when the task goes to sleep."""
        self.rows.append(("U" if explicit else "T", int(depth)))

    def rq_insert(self, rq: Request) -> None:
        """I."""
        self.rows.append(("I", int(rq.sector)))

    def rq_issue(self, rq: Request) -> None:
        """D."""
        self.rows.append(("D", int(rq.sector)))

    def rq_requeue(self, rq: Request) -> None:
        """R."""
        self.rows.append(("R", int(rq.sector)))

    def rq_complete(self, rq: Request, status: int, nr_bytes: int) -> None:
        """C."""
        self.rows.append(("C", int(rq.sector)))

    def tag_wait(self, task: Task) -> None:
        """W."""
        self.rows.append(("W", 0))


class HandTask(Task):
    """A task that only the test moves."""

    def run(self) -> None:
        """Never by itself."""
        raise AssertionError("a hand-moved task was run")


class HandMachine(Machine):
    """Time stands until advance(); work and softirqs wait until they are asked for."""

    def __init__(self, nr_cpus: int, hz: int) -> None:
        self.cgroups = CgroupTree()
        self.letters = Letters()
        self.idle = [HandTask(0, f"swapper/{cpu}", self.cgroups.root) for cpu in range(nr_cpus)]
        super().__init__(self.idle[0], self.letters, hz, nr_cpus)
        self.workers = [HandTask(100 + cpu, f"kworker/{cpu}:1H", self.cgroups.root) for cpu in range(nr_cpus)]
        for cpu in range(nr_cpus):
            self.idle[cpu].cpu = cpu
            self.workers[cpu].cpu = cpu
        self.now = MS
        self.works: list[tuple[int, int, Work]] = []
        """(due, cpu, work)"""
        self.softirqs: list[tuple[int, Work]] = []
        self.woken: list[Task] = []

    def now_ns(self) -> int:
        """Return the time."""
        return self.now

    def arm_timer(self, timer: Timer, expires_ns: int) -> None:
        """Unused here."""
        raise AssertionError("no timers")

    def cancel_timer(self, timer: Timer) -> bool:
        """Unused here."""
        raise AssertionError("no timers")

    def spin(self, ns: int) -> None:
        """Let time pass."""
        self.now += ns

    def queue_work(self, work: Work, delay_ns: int, cpu: int) -> None:
        """Keep the work until it is due."""
        due = self.now + int(delay_ns)
        if work.is_pending:
            old = next(entry for entry in self.works if entry[2] is work)
            if old[0] <= due:
                return
            self.works.remove(old)
        work.is_pending = True
        self.works.append((due, self.current.cpu if cpu < 0 else int(cpu), work))

    def raise_softirq(self, work: Work, cpu: int) -> None:
        """Keep the softirq."""
        if not work.is_pending:
            work.is_pending = True
            self.softirqs.append((int(cpu), work))

    def wake_task(self, task: Task) -> None:
        """Note it."""
        self.woken.append(task)

    def run_works(self, until_ns: int = -1) -> list[int]:
        """Run all work that is due by now (or a time, moving the clock there); return the CPUs it ran on."""
        until_ns = max(until_ns, self.now)
        ran: list[int] = []
        while True:
            due = [entry for entry in self.works if entry[0] <= until_ns]
            if not due:
                self.now = until_ns
                return ran
            entry = min(due, key=lambda one: one[0])
            self.works.remove(entry)
            self.now = max(self.now, entry[0])
            was = self.current
            self.current = self.workers[entry[1]]
            entry[2].is_pending = False
            entry[2].run()
            self.current = was
            ran.append(entry[1])

    def run_softirqs(self) -> list[int]:
        """Run all raised softirqs; return their CPUs."""
        ran: list[int] = []
        while self.softirqs:
            cpu, work = self.softirqs.pop(0)
            was = self.current
            self.current = self.idle[cpu]
            work.is_pending = False
            work.run()
            self.current = was
            ran.append(cpu)
        return ran


class HandDevice(Device):
    """Keeps every request until the test completes it; `answers` are given first, then all is taken."""

    def __init__(self) -> None:
        self.held: list[Request] = []
        self.answers: list[int] = []
        self.depth = 1 << 30
        """How many it takes at once; the driver then answers BLK_STS_DEV_RESOURCE."""
        self.is_last: list[bool] = []

    def submit(self, rq: Request) -> int:
        """Take rq or answer as told."""
        answer = self.answers.pop(0) if self.answers else BLK_STS_OK
        if answer == BLK_STS_OK:
            self.held.append(rq)
        return answer


class LastDriver(Driver):
    """Notes `last` and commits."""

    def __init__(self, device: HandDevice) -> None:
        self.has_commit_rqs = True
        self.device = device
        self.commits: list[int] = []

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Note last."""
        self.device.is_last.append(last)
        rq.q.start_request(rq)
        return self.device.submit(rq)

    def commit_rqs(self, hctx: HardwareQueue) -> None:
        """Note the hardware queue."""
        self.commits.append(int(hctx.index))


class NoteBio(Bio):
    """A bio that counts its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def end_io(self) -> None:
        """Note the status."""
        self.ends.append(int(self.status))


class World:
    """One queue (and more by add_queue()) over a device that the test moves."""

    def __init__(
        self,
        rules: Rules | str = NO_PLUG,
        *,
        elevator: Elevator | None = None,
        cpus: int = 1,
        hw_queues: int = 1,
        depth: int = 64,
        nr_requests: int = 0,
        hz: int = 250,
        limits: QueueLimits | None = None,
        commits: bool = False,
    ) -> None:
        found = preset(rules) if isinstance(rules, str) else rules
        assert found is not None
        self.rules = found
        self.machine = HandMachine(cpus, hz)
        self.trace = self.machine.letters
        self.device = HandDevice()
        self.driver: LastDriver | HardwareDriver = LastDriver(self.device) if commits else HardwareDriver(self.device)
        self.limits = limits or QueueLimits()
        self.shape = (hw_queues, depth, nr_requests)
        self.nr_queues = 0
        self.nr_tasks = 0
        self.q = self.add_queue(elevator)
        self.bios: list[NoteBio] = []

    def add_queue(self, elevator: Elevator | None = None) -> RequestQueue:
        """Make a queue of the same shape, on the same device."""
        self.nr_queues += 1
        return RequestQueue(
            self.machine,
            self.rules,
            self.driver,
            self.limits,
            name=f"hand{self.nr_queues}",
            capacity_sectors=1 << 30,
            nr_hw_queues=self.shape[0],
            queue_depth=self.shape[1],
            nr_requests=self.shape[2],
            elevator=elevator,
        )

    def task(self, cpu: int = 0, cgroup: str = "/", ioprio: int = 0) -> HandTask:
        """Make a task."""
        self.nr_tasks += 1
        group: Cgroup = self.machine.cgroups.get(cgroup)
        task = HandTask(self.nr_tasks, f"t{self.nr_tasks}", group)
        task.cpu = cpu
        task.ioprio = ioprio
        return task

    def submit(
        self,
        task: Task,
        sector: int,
        nr_sectors: int = 8,
        op: int = REQ_OP_READ,
        flags: int = 0,
        q: RequestQueue | None = None,
    ) -> NoteBio:
        """Submit a bio as task; task.is_blocked says whether it sleeps now."""
        bio = NoteBio()
        bio.op, bio.flags, bio.sector, bio.nr_sectors = op, flags, sector, nr_sectors
        bio.nr_segments = segments_of_op(op, nr_sectors)
        self.bios.append(bio)
        self.machine.current = task
        submit_bio(q or self.q, bio)
        self.machine.current = self.machine.idle[task.cpu]
        return bio

    def write(self, task: Task, sector: int, nr_sectors: int = 8, flags: int = REQ_SYNC) -> NoteBio:
        """Submit a write."""
        return self.submit(task, sector, nr_sectors, REQ_OP_WRITE, flags)

    def flush(self, task: Task) -> NoteBio:
        """Submit an empty flush."""
        return self.submit(task, 0, 0, REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH)

    def is_blocked(self, task: Task) -> bool:
        """Say whether task sleeps for a tag."""
        return task.is_blocked

    def resume(self, task: Task) -> bool:
        """Let a blocked task go on; False: it sleeps again."""
        self.machine.current = task
        is_done = resume_submission(task)
        self.machine.current = self.machine.idle[task.cpu]
        return is_done

    def plug(self, task: Task) -> Plug:
        """Start a plug."""
        plug = Plug()
        start_plug(task, plug)
        return plug

    def unplug(self, task: Task) -> None:
        """Finish the plug."""
        self.machine.current = task
        finish_plug(self.machine, task)
        self.machine.current = self.machine.idle[task.cpu]

    def issued(self) -> list[int]:
        """Return the first sectors of what the device holds, in order of issue."""
        return [int(rq.sector) for rq in self.device.held]

    def complete(self, index: int = 0, status: int = BLK_STS_OK, cpu: int = 0) -> Request:
        """End a held request right on a CPU, in an interrupt."""
        rq = self.device.held.pop(index)
        self.machine.current = self.machine.idle[cpu]
        rq.q.complete_here(rq, status)
        return rq

    def go(self) -> None:
        """Start all stopped hardware queues, and run everything to its end."""
        for hctx in self.q.hctxs:
            hctx.is_stopped = False
        self.q.run_hw_queues(True)
        self.complete_all()

    def complete_all(self) -> None:
        """End everything, and let kblockd work, until all is quiet."""
        while True:
            self.machine.run_softirqs()
            self.machine.run_works()
            if not self.device.held:
                if not self.machine.works:
                    return
                self.machine.run_works(self.machine.now + 20 * MS)
            while self.device.held:
                self.complete()

    def check_quiet(self) -> None:
        """Everything has ended once, and every tag is back."""
        for bio in self.bios:
            assert len(bio.ends) == 1, f"the bio at {bio.sector} ended {len(bio.ends)} times"
        assert self.q.nr_started == self.q.nr_completed
        assert self.q.stats.in_flight == 0
        for hctx in self.q.hctxs:
            assert hctx.tags.in_use() == 0
            assert hctx.sched_tags is None or hctx.sched_tags.in_use() == 0
            assert hctx.dispatch.count == 0
            assert hctx.nr_ctx_queued == 0
