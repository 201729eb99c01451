"""What the CPU work of one I/O costs, in ns, named by the step that does it.

The steps are charged where the kernel's tracepoints stand (trace.py) and where the machine switches tasks (machine.py).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

COST_NAMES: Final = (
    "user_io",
    "sys_enter",
    "sys_exit",
    "io_prep",
    "aio",
    "page_copy",
    "submit",
    "alloc",
    "merge",
    "plug",
    "insert",
    "elevator",
    "bfq",
    "issue",
    "irq",
    "idle_exit",
    "softirq",
    "complete",
    "wake",
    "queue_work",
    "work",
    "switch",
    "sleep",
    "cgroup_level",
    "timer",
    "loop",
    "loop_lock",
    "file_op",
    "file_done",
    "file_copy",
    "worker_new",
    "worker_wake",
    "task_wake",
    "queue_share",
    "remote_wake",
    "pool_lock",
    "aio_prep",
    "irq_shared",
    "tag_wait",
)
OPTIONAL: Final = COST_NAMES[COST_NAMES.index("loop") :]
"""Costs that only jobs on loop devices pay, or on queues that many CPUs share, and finer parts of others; 0 in a host
that does not say them."""
LATENCIES: Final = ("idle_exit", "worker_new", "worker_wake", "task_wake", "remote_wake")
"""Times that a CPU's speed does not change."""


class OptionalCosts:
    """Those that most hosts do not say."""

    def __init__(self) -> None:
        self.loop_ns: i64 = 0
        """The loop driver's own work per request: command, kiocb, list of pages, end."""
        self.loop_lock_ns: i64 = 0
        """One handover of the lock over its lists, when submitter and worker share it."""
        self.file_op_ns: i64 = 0
        """File system and direct-I/O layer of the backing file, per operation, up to its bio."""
        self.file_done_ns: i64 = 0
        """The file system's end of an operation."""
        self.file_copy_ns: i64 = 0
        """One page copied between the backing file's page cache and a request."""
        self.worker_new_ns: i64 = 0
        """Until a new kernel worker runs."""
        self.worker_wake_ns: i64 = 0
        """From the wake-up of an unbound worker until it runs, on an idle CPU, beyond idle_exit."""
        self.task_wake_ns: i64 = 0
        """The same for other tasks, on hosts that place them (not sched = fifo with CPUs alike)."""
        self.queue_share_ns: i64 = 0
        """Contended lines of a hardware queue: per request, for each other CPU that made one of its last ones."""
        self.remote_wake_ns: i64 = 0
        """Added to idle_exit where another CPU wakes the task: the interrupt that tells the idle one."""
        self.pool_lock_ns: i64 = 0
        """One hold of the lock of a worker pool, to queue an item (with the wake-up of a worker) or to take one."""


class Costs(OptionalCosts):
    """One CPU's costs in ns; every field is a name of COST_NAMES followed by _ns."""

    def __init__(self) -> None:
        super().__init__()
        self.user_io_ns: i64 = 0
        """fio's own work between two I/Os, in user space."""
        self.sys_enter_ns: i64 = 0
        self.sys_exit_ns: i64 = 0
        self.io_prep_ns: i64 = 0
        """File and direct-I/O layer above the bio, per I/O."""
        self.aio_ns: i64 = 0
        """What io_submit() and io_getevents() add per I/O: control block, event, and fio's handling of both."""
        self.aio_prep_ns: i64 = 0
        """What io_submit() does per I/O before its bio; part of aio in hosts that do not say it."""
        self.page_copy_ns: i64 = 0
        """One page of a buffered write."""
        self.submit_ns: i64 = 0
        """Checks and limits of one bio."""
        self.alloc_ns: i64 = 0
        """Tag and request."""
        self.tag_wait_ns: i64 = 0
        """A look for a tag when there is none: run the queue, look again, stand in line; sleep is paid besides."""
        self.merge_ns: i64 = 0
        self.plug_ns: i64 = 0
        """Per plug: start and flush."""
        self.insert_ns: i64 = 0
        """Put into a software queue or elevator, and take out."""
        self.elevator_ns: i64 = 0
        """What an elevator adds to that: sort, merge lookup, choice."""
        self.bfq_ns: i64 = 0
        """What BFQ costs per I/O beyond another elevator."""
        self.issue_ns: i64 = 0
        """The driver's queue_rq."""
        self.irq_ns: i64 = 0
        self.irq_shared_ns: i64 = 0
        """What a device saves of irq whose interrupt is due while another is handled on that CPU."""
        self.idle_exit_ns: i64 = 0
        """Added to an interrupt that finds its CPU idle."""
        self.softirq_ns: i64 = 0
        self.complete_ns: i64 = 0
        """End of the request and its bios."""
        self.wake_ns: i64 = 0
        """try_to_wake_up() in the waker."""
        self.queue_work_ns: i64 = 0
        self.work_ns: i64 = 0
        """A worker's own overhead per work item."""
        self.switch_ns: i64 = 0
        """Pick the next task and switch to it."""
        self.sleep_ns: i64 = 0
        """Go to sleep: take the task off its run queue. On an idle CPU it overlaps with the device's time."""
        self.cgroup_level_ns: i64 = 0
        """Added to a switch per level of the task's cgroup below the root."""
        self.timer_ns: i64 = 0

    def as_dict(self) -> dict[str, int]:
        """Return all costs by name, without the unit."""
        return {name: int(getattr(self, name + "_ns")) for name in COST_NAMES}

    def update(self, values: dict[str, int]) -> None:
        """Set costs by name (ns); the names must be in COST_NAMES."""
        for name, value in values.items():
            setattr(self, name + "_ns", value)

    def scaled(self, speed: int) -> Costs:
        """Return the costs of a CPU of that speed, in 1024ths of the fastest."""
        other = Costs()
        values = self.as_dict()
        for name in values:
            if name not in LATENCIES:
                values[name] = (values[name] * 1024 + speed // 2) // speed
        other.update(values)
        return other
