"""The tracepoints of the simulated machine: each charges the CPU cost of its step; a recorder adds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bfq.scheduler import Bfq
from blktwin.block.bio import Bio, rwbs
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.syscalls import SYS_IO_SUBMIT
from blktwin.block.tracepoint import Tracepoints
from blktwin.sim.costs import Costs
from blktwin.sim.sharers import Sharers
from blktwin.sim.workqueue import PoolWorker

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine


@mypyc_attr(allow_interpreted_subclasses=True)
class CostTrace(Tracepoints):
    """Moves the local clock at every step; bind() gives it its machine. Who runs is charged when it stops (cpu.py)."""

    machine: SimMachine

    def __init__(self, costs: Costs) -> None:
        self.costs: Costs = costs

    def bind(self, machine: SimMachine) -> None:
        """Take the machine whose clock moves."""
        self.machine = machine
        machine.cost_trace = self

    def user_io(self, task: Task) -> None:
        """Charge fio's own work for one I/O, as user time."""
        ns = self.costs.user_io_ns
        self.machine.local_ns += ns
        task.utime_ns += ns

    def sys_enter(self, task: Task, call: int) -> None:
        """Charge the entry."""
        self.machine.local_ns += self.costs.sys_enter_ns

    def sys_exit(self, task: Task, call: int, nr: int) -> None:
        """Charge the return, and what asynchronous I/O costs beyond it."""
        self.machine.local_ns += self.costs.sys_exit_ns
        if call == SYS_IO_SUBMIT:
            self.machine.local_ns += self.costs.aio_ns * nr

    def io_prep(self, task: Task) -> None:
        """Charge the file layer."""
        self.machine.local_ns += self.costs.io_prep_ns

    def aio_prep(self, task: Task) -> None:
        """Charge an asynchronous I/O's share of its submission call."""
        self.machine.local_ns += self.costs.aio_prep_ns

    def page_copy(self, task: Task, nr_pages: i64) -> None:
        """Charge the copy."""
        self.machine.local_ns += self.costs.page_copy_ns * nr_pages

    def bio_queue(self, bio: Bio) -> None:
        """Charge the submission of a bio."""
        self.machine.local_ns += self.costs.submit_ns

    def getrq(self, bio: Bio) -> None:
        """Charge the allocation of a request."""
        costs = self.costs
        self.machine.local_ns += costs.alloc_ns
        if costs.queue_share_ns > 0:
            self.share_queue(bio)

    def share_queue(self, bio: Bio) -> None:
        """Charge the contention for a hardware queue that several CPUs use."""
        machine = self.machine
        q = bio.owner
        assert isinstance(q, RequestQueue)
        cpu = machine.current.cpu
        hctx = q.hctx_of_cpu[cpu]
        if len(hctx.cpus) < 2:
            return
        sharers = hctx.cost_slot
        if not isinstance(sharers, Sharers):
            sharers = Sharers(machine.nr_cpus)
            hctx.cost_slot = sharers
        machine.local_ns += self.costs.queue_share_ns * sharers.add(cpu)

    def tag_wait(self, task: Task) -> None:
        """Charge a look for a tag that fails."""
        self.machine.local_ns += self.costs.tag_wait_ns

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """Charge a merge."""
        self.machine.local_ns += self.costs.merge_ns

    def bio_frontmerge(self, bio: Bio, rq: Request) -> None:
        """Charge a merge."""
        self.machine.local_ns += self.costs.merge_ns

    def rq_merge(self, rq: Request) -> None:
        """Charge a merge."""
        self.machine.local_ns += self.costs.merge_ns

    def unplug(self, task: Task, depth: i64, explicit: bool) -> None:
        """Charge a plug's life."""
        self.machine.local_ns += self.costs.plug_ns

    def rq_insert(self, rq: Request) -> None:
        """Charge the stay in an elevator or software queue."""
        self.machine.local_ns += self.costs.insert_ns
        elevator = rq.q.elevator
        if elevator is not None:
            self.machine.local_ns += self.costs.elevator_ns
            if isinstance(elevator, Bfq):
                self.machine.local_ns += self.costs.bfq_ns

    def rq_issue(self, rq: Request) -> None:
        """Charge the driver's queue_rq."""
        self.machine.local_ns += self.costs.issue_ns

    def rq_complete(self, rq: Request, status: i64, nr_bytes: i64) -> None:
        """Charge the end of a request."""
        self.machine.local_ns += self.costs.complete_ns

    def file_op(self, task: Task, op: i64, nbytes: i64) -> None:
        """Charge an operation of the backing file, up to its bio."""
        self.machine.local_ns += self.costs.file_op_ns

    def file_done(self, task: Task, op: i64) -> None:
        """Charge the file system's end of an operation."""
        self.machine.local_ns += self.costs.file_done_ns

    def file_copy(self, task: Task, nr_pages: i64) -> None:
        """Charge the copy."""
        self.machine.local_ns += self.costs.file_copy_ns * nr_pages

    def loop_dispatch(self, rq: Request) -> None:
        """Charge the loop driver's own work."""
        self.machine.local_ns += self.costs.loop_ns

    def loop_work(self, rq: Request, reason: i64) -> None:
        """Charge the submitter's turn at the lock."""
        self.machine.local_ns += self.costs.loop_lock_ns

    def loop_begin(self, rq: Request, task: Task, reason: i64) -> None:
        """Charge a worker's turn at the lock; who executes the request itself never takes it."""
        if isinstance(task, PoolWorker):
            self.machine.local_ns += self.costs.loop_lock_ns


class TraceRow:
    """One recorded tracepoint: time in ns, CPU, who ran, and blktrace's letter, rwbs, sector and length in sectors."""

    def __init__(
        self, time_ns: int, cpu: int, pid: int, comm: str, dev: str, act: str, flags: str, sector: int, length: int
    ) -> None:
        self.time_ns: int = time_ns
        self.cpu: int = cpu
        self.pid: int = pid
        self.comm: str = comm
        self.dev: str = dev
        self.act: str = act
        self.rwbs: str = flags
        self.sector: int = sector
        self.length: int = length

    def text(self) -> str:
        """Return the row in blkparse's manner."""
        return (
            f"{self.dev} {self.cpu} {self.time_ns / 1e9:.9f} {self.pid} {self.act} {self.rwbs} "
            f"{self.sector} + {self.length} [{self.comm}]"
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class RecordingTrace(CostTrace):
    """Charges like CostTrace and keeps every row in `rows`."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.rows: list[TraceRow] = []

    def row(self, act: str, dev: str, flags: str, sector: int, length: int) -> None:
        """Keep one row at the local time."""
        machine = self.machine
        task = machine.current
        self.rows.append(
            TraceRow(int(machine.local_ns), task.cpu, task.pid, task.comm, dev, act, flags, sector, length)
        )

    def of_bio(self, act: str, bio: Bio) -> None:
        """Keep a row about a bio."""
        self.row(act, "", rwbs(bio.op, bio.flags), int(bio.sector), int(bio.nr_sectors))

    def of_rq(self, act: str, rq: Request, length: int) -> None:
        """Keep a row about a request."""
        self.row(act, rq.q.name, rwbs(rq.op, rq.flags), int(rq.sector), length)

    def bio_queue(self, bio: Bio) -> None:
        """Q."""
        super().bio_queue(bio)
        self.of_bio("Q", bio)

    def split(self, bio: Bio, sector: i64) -> None:
        """X."""
        self.of_bio("X", bio)

    def getrq(self, bio: Bio) -> None:
        """G."""
        super().getrq(bio)
        self.of_bio("G", bio)

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """M."""
        super().bio_backmerge(bio, rq)
        self.of_bio("M", bio)

    def bio_frontmerge(self, bio: Bio, rq: Request) -> None:
        """F."""
        super().bio_frontmerge(bio, rq)
        self.of_bio("F", bio)

    def rq_merge(self, rq: Request) -> None:
        """Record m."""
        super().rq_merge(rq)
        self.of_rq("m", rq, int(rq.nr_sectors))

    def plug(self, task: Task) -> None:
        """P."""
        self.row("P", "", "N", 0, 0)

    def unplug(self, task: Task, depth: i64, explicit: bool) -> None:
        """U for an explicit flush, UT for one by the scheduler."""
        super().unplug(task, depth, explicit)
        self.row("U" if explicit else "UT", "", "N", 0, int(depth))

    def rq_insert(self, rq: Request) -> None:
        """I."""
        super().rq_insert(rq)
        self.of_rq("I", rq, int(rq.nr_sectors))

    def rq_issue(self, rq: Request) -> None:
        """D."""
        super().rq_issue(rq)
        self.of_rq("D", rq, int(rq.nr_sectors))

    def rq_requeue(self, rq: Request) -> None:
        """R."""
        self.of_rq("R", rq, int(rq.nr_sectors))

    def rq_complete(self, rq: Request, status: i64, nr_bytes: i64) -> None:
        """C."""
        super().rq_complete(rq, status, nr_bytes)
        self.of_rq("C", rq, int(nr_bytes >> 9))

    def tag_wait(self, task: Task) -> None:
        """Record a sleep for a tag."""
        super().tag_wait(task)
        self.row("TW", "", "N", 0, 0)
