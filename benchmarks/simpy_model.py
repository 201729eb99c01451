"""The same model in SimPy: psync jobs, what an I/O costs the CPUs, tags, a device of fixed latency, fio's statistics.

Written to be fast, as a peer should be: times are integers, a CPU is a number (when it is free again), tags are a
counter, and an I/O takes two events: the fewest that keep tags and CPUs in order, and as many as our own model takes.
It has no blk-mq inside: no merging, plugs, software queues, elevators, flushes, faults; one size and direction.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Generator
from typing import Any

import simpy

from benchmarks.product import DEPTH, LATENCY_US, Case, Sample, make_stack
from blktwin.block.rules import Rules
from blktwin.sim.costs import Costs

BLOCKS = (256 << 20) // 4096
SECTORS = 8
WINDOW_NS = 500_000_000


class Path:
    """The costs in ns of the four stretches of an I/O, in the order of the product's own steps."""

    def __init__(self, costs: Costs, rules: Rules) -> None:
        plug = costs.plug_ns if rules.submit_on_stack_plug or rules.bdev_write_plug else 0
        self.user = int(costs.user_io_ns)
        above = int(costs.sys_enter_ns + costs.io_prep_ns)
        self.submit = above + int(costs.submit_ns + costs.alloc_ns + plug + costs.issue_ns)
        self.interrupt = int(costs.irq_ns + costs.idle_exit_ns + costs.complete_ns + costs.wake_ns)
        self.resume = int(costs.switch_ns + costs.sys_exit_ns)


class LatencyStat:
    """Count, extremes, sum, sum of squares."""

    __slots__ = ("count", "high", "low", "squares", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.squares = 0
        self.low = 1 << 62
        self.high = 0

    def add(self, ns: int) -> None:
        """Count one latency."""
        self.count += 1
        self.total += ns
        self.squares += ns * ns
        if ns < self.low:
            self.low = ns
        if ns > self.high:
            self.high = ns


class JobStat:
    """One job's latencies, fio's histogram, and its bandwidth per half second."""

    def __init__(self) -> None:
        self.clat = LatencyStat()
        self.lat = LatencyStat()
        self.bins = [0] * 1856
        self.windows: list[int] = []
        self.window_end = WINDOW_NS
        self.window_count = 0

    def completed(self, clat_ns: int, lat_ns: int, now_ns: int) -> None:
        """Count one I/O."""
        if now_ns >= self.window_end:
            self.windows.append(self.clat.count - self.window_count)
            self.window_count = self.clat.count
            self.window_end += WINDOW_NS
        self.clat.add(clat_ns)
        self.lat.add(lat_ns)
        shift = clat_ns.bit_length() - 7
        index = clat_ns if shift <= 0 else (shift << 6) + (clat_ns >> shift)
        self.bins[index if index < 1856 else 1855] += 1


class Offsets:
    """Random blocks, each once until all were written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random
        self.done = bytearray(BLOCKS)
        self.left = BLOCKS

    def next(self) -> int:
        """Return a block that was not written yet."""
        if self.left == 0:
            self.done = bytearray(BLOCKS)
            self.left = BLOCKS
        block = int(self.random() * BLOCKS)
        done = self.done
        if done[block]:
            block = done.find(0, block)
            if block < 0:
                block = done.find(0)
        done[block] = 1
        self.left -= 1
        return block


class Cpu:
    """A CPU that runs one thing after the other."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0


class Disk:
    """Tags, those who wait for one, and the disk's counters."""

    def __init__(self, depth: int, latency_ns: int) -> None:
        self.latency_ns = latency_ns
        self.free = depth
        self.waiting: deque[simpy.Event] = deque()
        self.ios = 0
        self.sectors = 0
        self.ticks_ns = 0

    def release(self, start_ns: int, now_ns: int) -> None:
        """Count an I/O out and pass its tag on."""
        self.ios += 1
        self.sectors += SECTORS
        self.ticks_ns += now_ns - start_ns
        if self.waiting:
            self.waiting.popleft().succeed()
        else:
            self.free += 1


class Model:
    """All jobs of a case under `none`, jobs spread over the CPUs in turn."""

    def __init__(self, case: Case) -> None:
        assert (case.engine, case.scheduler) == ("psync", "none"), "the SimPy model knows psync under none"
        stack = make_stack(case)
        self.env = simpy.Environment(initial_time=0)
        self.path = Path(stack.host.cost_table(), stack.rules)
        self.disk = Disk(DEPTH, LATENCY_US * 1000)
        self.cpus = [Cpu() for _ in range(stack.host.cpus)]
        self.stats = [JobStat() for _ in range(case.numjobs)]

    def run(self, runtime_ns: int) -> None:
        """Run all jobs to their end."""
        for number, stat in enumerate(self.stats):
            cpu = self.cpus[number % len(self.cpus)]
            self.env.process(self.job(cpu, Offsets(number), stat, runtime_ns))
        self.env.run()

    def job(self, cpu: Cpu, offsets: Offsets, stat: JobStat, stop_ns: int) -> Generator[simpy.Event, None, None]:
        """Write block after block: two events an I/O, at the driver and at the interrupt."""
        # SimPy's types say float; every time here is an int.
        env: Any = self.env
        timeout = env.timeout
        disk = self.disk
        latency_ns = disk.latency_ns
        user, submit = self.path.user, self.path.submit
        interrupt, resume = self.path.interrupt, self.path.resume
        now = 0
        while now < stop_ns:
            offsets.next()
            started = now + user
            cpu.free_at = started + submit
            yield timeout(cpu.free_at - env.now)
            if disk.free > 0:
                disk.free -= 1
            else:
                tag = env.event()
                disk.waiting.append(tag)
                yield tag
            issued = env.now
            yield timeout(latency_ns)
            now = env.now
            disk.release(issued, now)
            if cpu.free_at > now:
                now = cpu.free_at
            now += interrupt + resume
            cpu.free_at = now
            stat.completed(now - started, now - started, now)


def run_case(case: Case, runtime_ms: int) -> Sample:
    """Run a case; set-up is timed too, as for the product."""
    start = time.process_time()
    model = Model(case)
    model.run(runtime_ms * 1_000_000)
    cpu_s = time.process_time() - start
    ios = sum(stat.clat.count for stat in model.stats)
    latency_ns = sum(stat.clat.total for stat in model.stats)
    return Sample(ios, cpu_s, ios * 1e3 / runtime_ms, latency_ns / max(1, ios))
