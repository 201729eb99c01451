"""CPU hogs: tasks that never sleep, and that who has a better right to the CPU cuts short."""

from __future__ import annotations

from blktwin.block.cgroup import Cgroup
from blktwin.block.machine import Task


class Hog(Task):
    """A task that always wants to run; its CPU books its time (utime_ns), in stretches that can be preempted.

    cpus: where it may run, empty for anywhere. It needs a host with sched cfs or eevdf: under fifo it would never stop.
    """

    def __init__(self, pid: int, comm: str, cgroup: Cgroup, nice: int, cpus: list[int]) -> None:
        super().__init__(pid, comm, cgroup)
        self.nice = nice
        self.cpus_allowed = cpus or None
