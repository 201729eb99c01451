"""The CPUs of a host as plain data: speed, run queues, placement of woken tasks, and where kernel workers run.

Kernel: update_sysctl(), kernel/sched/fair.c, scales the times by CPUs; enum wq_affn_scope, include/linux/workqueue.h;
v6.12.
"""

from __future__ import annotations

from typing import Final

SCHEDS: Final = ("fifo", "cfs", "eevdf")
SCOPES: Final = ("cpu", "smt", "cache", "cache_shard", "numa", "system")
FULL: Final = 1024
"""Capacity of the fastest CPU."""
SHARD_CPUS: Final = 8
SLICE_NS: Final = 700_000
"""EEVDF's base slice, LATENCY_NS and so on CFS's own; all times the factor of scale_factor()."""
LATENCY_NS: Final = 6_000_000
GRANULARITY_NS: Final = 750_000
WAKEUP_NS: Final = 1_000_000


def scale_factor(nr_cpus: int) -> int:
    """Return 1 + log2 of the CPUs, at most 8 of them: what the scheduler's times grow by."""
    return min(8, nr_cpus).bit_length()


class CpuSpec:
    """What a host says of its CPUs; times in ns, 0: the kernel's formula. Lists are empty or have one number per CPU.

    sched: fifo (each task runs until it sleeps; the woken wait in order), cfs or eevdf. capacity: 1024 is the fastest.
    freq: the current frequency, per mille of the highest. worker_cpus: CPUs of unbound kernel workers, empty: all.
    """

    def __init__(self) -> None:
        self.sched: str = "fifo"
        self.capacity: list[int] = []
        self.freq: list[int] = []
        self.eas: bool = False
        self.overutilized_gate: bool = True
        """False: nothing switches energy-aware placement off, and every CPU fits (uclamp_max, vendor hooks)."""
        self.uclamp_min: int = 0
        """Boost of all tasks but kernel ones: they run on CPUs of that capacity and look for an idle one."""
        self.node_cpus: int = 0
        """CPUs per NUMA node, in equal runs; 0: one node."""
        self.slice_ns: int = 0
        self.latency_ns: int = 0
        self.granularity_ns: int = 0
        self.wakeup_granularity_ns: int = 0
        self.worker_scope: str = "cache"
        self.worker_cpus: list[int] = []
        self.worker_nice: int = 0
        self.worker_max_active: int = 1024
        """What a workqueue with max_active 0 gets: 1024 since 6.13, 256 before."""
        self.irq_cpus: list[int] = []
        """CPUs that take turns with interrupts of queues that serve several CPUs; empty: where it was issued."""
        self.ticks: bool = False
        """eevdf in detail (fair_ticks.py): slices end at ticks; tasks may lose the CPU where the kernel allows it."""
        self.deep_idle_ns: int = 0
        """Added to idle_exit after deep_after_ns of idling."""
        self.deep_after_ns: int = 0

    def copy(self) -> CpuSpec:
        """Return another one with the same values."""
        other = CpuSpec()
        for name in vars_of(self):
            value = getattr(self, name)
            setattr(other, name, list(value) if isinstance(value, list) else value)
        return other

    def is_plain(self) -> bool:
        """Say whether CPUs are alike and serve tasks in order."""
        return self.sched == "fifo" and not self.capacity and not self.freq and not self.uclamp_min

    def speed(self, cpu: int) -> int:
        """Return capacity times frequency of a CPU, in 1024ths of the fastest."""
        capacity = self.capacity[cpu] if self.capacity else FULL
        return capacity * (self.freq[cpu] if self.freq else 1000) // 1000

    def problem(self, nr_cpus: int) -> tuple[str, str]:
        """Return key and what is wrong with the values together, ("", "") if nothing is."""
        for name in ("capacity", "freq"):
            given = getattr(self, name)
            if given and len(given) != nr_cpus:
                return name, f"{len(given)} numbers for {nr_cpus} CPUs"
        for name in ("worker_cpus", "irq_cpus"):
            beyond = [cpu for cpu in getattr(self, name) if cpu >= nr_cpus]
            if beyond:
                return name, f"there is no CPU {beyond[0]} of {nr_cpus}"
        if self.eas and self.sched == "fifo":
            return "eas", "needs sched = cfs or eevdf"
        if self.ticks and self.sched != "eevdf":
            return "ticks", "needs sched = eevdf"
        if self.eas and len(set(self.capacity)) < 2:
            return "eas", "needs CPUs of different capacity"
        if self.capacity and self.uclamp_min > max(self.capacity):
            return "uclamp_min", f"{self.uclamp_min} is above every CPU's capacity"
        if self.node_cpus > nr_cpus:
            return "node_cpus", f"{self.node_cpus} is above cpus {nr_cpus}"
        if min(self.speed(cpu) for cpu in range(nr_cpus)) < 1:
            return "freq", "capacity times freq leaves a CPU without speed"
        return "", ""


def vars_of(spec: CpuSpec) -> list[str]:
    """Return the names of a CpuSpec's values."""
    return sorted(name for name in dir(spec) if not name.startswith("_") and not callable(getattr(spec, name)))


def pods_of(spec: CpuSpec, nr_cpus: int, cache_cpus: int) -> list[list[int]]:
    """Return the CPUs of each pod of workers, in order; the pods of a scope cover all CPUs.

    Kernel: wq_init_topology(), kernel/workqueue.c; cache_shard: its comment on shards of at most 8 cores, v7.2.
    Differs: no SMT, so smt is cpu.
    """
    size = nr_cpus
    if spec.worker_scope in ("cpu", "smt"):
        size = 1
    elif spec.worker_scope in ("cache", "cache_shard"):
        size = cache_cpus
    elif spec.worker_scope == "numa" and spec.node_cpus:
        size = spec.node_cpus
    pods: list[list[int]] = []
    for first in range(0, nr_cpus, size):
        cpus = list(range(first, min(first + size, nr_cpus)))
        parts = 1
        if spec.worker_scope == "cache_shard":
            parts = max(1, (len(cpus) + SHARD_CPUS // 2) // SHARD_CPUS)
        start = 0
        for part in range(parts):
            end = len(cpus) * (part + 1) // parts
            pods.append(cpus[start:end])
            start = end
    return pods
