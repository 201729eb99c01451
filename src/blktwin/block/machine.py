"""The seam: all that a policy may ask of the world it runs in.

Rule 1: a verb never calls back. Work never runs inline, a timer never fires inline, wake_task() never runs the task.
Rule 2: a timer fires at or after its time, never before; equal times fire in arming order; a cancelled one never fires.
Rule 3: now_ns() never goes back.
This file knows nothing of requests or queues. Read next: bio.py, request.py, queue.py.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import Bio
from blktwin.block.cgroup import Cgroup
from blktwin.block.iocontext import IoContext
from blktwin.block.plug import Plug
from blktwin.block.tracepoint import Tracepoints

if TYPE_CHECKING:
    from blktwin.block.tags import TagWaiter


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """A reusable one-shot timer; the owner subclasses it and overrides fire()."""

    def __init__(self) -> None:
        self.slot: object | None = None
        """The machine's own bookkeeping; nobody else's."""

    def fire(self) -> None:
        """Run at or after the armed time."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Work:
    """A work item: runs later in a kernel worker; queueing it while pending does nothing."""

    def __init__(self) -> None:
        self.is_pending: bool = False
        self.slot: object | None = None
        """The machine's own bookkeeping; nobody else's."""

    def run(self) -> None:
        """Run in a worker; is_pending is already False."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockingWork(Work):
    """A work item in which its worker may sleep; it is queued on a WorkQueue and never runs twice at the same time."""

    def run(self) -> None:
        """Never called: advance() is."""
        raise AssertionError("a blocking work item has run as one that never sleeps")

    def advance(self, worker: Task) -> bool:
        """Go on in worker; True when this run has ended, False when the worker sleeps (who wakes it lets it go on)."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class WorkQueue:
    """A kernel workqueue, made by Machine.alloc_workqueue(); max_active: work items that may run at once.

    Kernel: struct workqueue_struct, kernel/workqueue.c, v6.12.
    """

    def __init__(self, name: str, max_active: int) -> None:
        self.name: str = name
        self.max_active: int = max_active
        self.slot: object | None = None
        """The machine's own bookkeeping; nobody else's."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Task:
    """Who is running: identity, cgroup, I/O priority, CPU, and the per-task block state (plug, pending bios)."""

    def __init__(self, pid: int, comm: str, cgroup: Cgroup) -> None:
        self.pid: int = pid
        self.comm: str = comm
        self.cgroup: Cgroup = cgroup
        self.ioprio: int = 0
        self.nice: int = 0
        self.cpus_allowed: list[int] | None = None
        """Where it may run; None: anywhere."""
        self.io_context: IoContext = IoContext()
        """What schedulers keep of this process; threads may share one."""
        self.cpu: int = 0
        self.plug: Plug | None = None
        self.stack_plug: Plug = Plug()
        """The plug that a bio submission brings along when the task has none (Rules.submit_on_stack_plug)."""
        self.tag_waiter: TagWaiter | None = None
        """Its place in a wait queue for tags."""
        self.bio_list: Bio | None = None
        """Bios whose submission has begun but not ended, in order (current->bio_list)."""
        self.bio_tail: Bio | None = None
        """The last of bio_list; means nothing while that is empty."""
        self.is_submitting: bool = False
        self.is_blocked: bool = False
        """True while the submission at the head of bio_list sleeps for a tag."""
        self.fs_depth: i64 = 0
        """File systems below loop devices whose code is on its stack now."""
        self.utime_ns: i64 = 0
        self.stime_ns: i64 = 0
        self.nr_switches: i64 = 0
        """Voluntary context switches: how often it slept."""
        self.is_queued: bool = False
        self.next_runnable: Task | None = None
        """The machine's run queue link."""
        self.ran_until_ns: i64 = 0
        """When its last stretch on a CPU ends; the machine's own."""
        self.runnable_at_ns: i64 = 0
        """When it was woken, on the clock of who woke it; the machine's own."""
        self.sched: object | None = None
        """The run queue's bookkeeping; the machine's own."""

    def run(self) -> None:
        """Go on until the task sleeps (return) or ends; called by the machine when a CPU takes it."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Machine:
    """Time, timers, workers, tasks; current is who runs now (a CPU's idle task inside an interrupt)."""

    def __init__(self, idle_task: Task, trace: Tracepoints, hz: int, nr_cpus: int) -> None:
        self.current: Task = idle_task
        self.trace: Tracepoints = trace
        self.hz: int = hz
        self.nr_cpus: int = nr_cpus
        self.cpus_per_cache: int = nr_cpus
        """CPUs that share a last-level cache, in equal runs from CPU 0."""
        self.has_preemption: bool = False
        """Tasks ask cond_resched() where the kernel could take the CPU from them; else they run until they sleep."""
        self.cpu_capacity: list[int] = [1024] * nr_cpus
        """The CPUs' relative speed, as the scheduler knows it (1024: the fastest)."""
        self.watches_tasks: bool = False
        """The trace wants to hear of every stretch of a task on a CPU (task_ran)."""

    def shares_cache(self, cpu: int, other: int) -> bool:
        """Say whether two CPUs share a last-level cache."""
        return cpu // self.cpus_per_cache == other // self.cpus_per_cache

    @abstractmethod
    def now_ns(self) -> i64:
        """Return the time in ns; it never goes back."""

    @abstractmethod
    def arm_timer(self, timer: Timer, expires_ns: i64) -> None:
        """Fire timer at or after expires_ns; a timer that is armed already moves to the new time."""

    @abstractmethod
    def cancel_timer(self, timer: Timer) -> bool:
        """Disarm timer; return True if it was armed."""

    @abstractmethod
    def queue_work(self, work: Work, delay_ns: i64, cpu: int) -> None:
        """Run work on a kernel worker of cpu (-1: this one) after delay_ns; pending work moves to the earlier time."""

    def postpone_work(self, work: Work, delay_ns: i64, cpu: int) -> None:
        """Run work after delay_ns, also when it was to run sooner; work that a worker has already stays there."""
        self.queue_work(work, delay_ns, cpu)

    def alloc_workqueue(self, name: str, max_active: int) -> WorkQueue:
        """Return a new unbound workqueue; max_active 0: the kernel's default."""
        raise NotImplementedError

    def queue_on(self, wq: WorkQueue, work: BlockingWork) -> bool:
        """Queue work on an unbound workqueue, from any context; False when it is pending already.

        Work that runs now is run once more when it has ended, by the same worker.
        """
        raise NotImplementedError

    def cond_resched(self, task: Task) -> bool:
        """Say whether task, which runs and could go on, must return from its step now; it runs again by itself."""
        return False

    def is_to_come(self, task: Task, time_ns: i64) -> bool:
        """Say whether time_ns, another's clock, is still to come for task, which must then return; it runs again then.

        Only where code runs ahead of the events can it be.
        """
        return False

    def end_spin(self, task: Task) -> None:
        """Let a task go on that has waited for a lock without sleeping."""
        self.wake_task(task)

    @abstractmethod
    def raise_softirq(self, work: Work, cpu: int) -> None:
        """Run work on cpu in interrupt context, soon."""

    @abstractmethod
    def spin(self, ns: i64) -> None:
        """Keep the running task's CPU busy for ns, in user space."""

    @abstractmethod
    def wake_task(self, task: Task) -> None:
        """Make task runnable; it goes on where it slept when a CPU takes it."""
