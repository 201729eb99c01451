"""A solid-state device: controller, links, channels and an optional write cache. NVMe, SATA, eMMC and network disks.

A request passes, in this order: the controller (a constant), the IOPS gate, the link of its direction (busy for its
bytes), then a free channel for its media time. A cached write leaves out the channel and drains at its own speed.
Requests enter in the order of submission and leave when they are done: a fast one overtakes a slow one.
Not modelled: which channel holds which data, garbage collection, drains that hold up reads.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_FUA, REQ_OP_FLUSH, REQ_OP_READ, REQ_OP_WRITE
from blktwin.block.request import Request
from blktwin.rng import Rng
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.devices.latency import Latency, fixed
from blktwin.sim.devices.pipes import Channels, Link
from blktwin.sim.machine import SimMachine

CACHE_NS_MAX: Final = 1 << 62
"""A cache that drains longer is never full."""
FIRST_SECTORS: Final = 8
"""What the media time of an operation covers: 4 KiB. Beyond it the time per KiB counts."""


class NvmeParams:
    """What such a device is; times in ns, speeds in bytes or commands a second (0: no limit)."""

    def __init__(self) -> None:
        self.overhead_ns: int = 0
        self.channels: int = 0
        """0: never a wait for a channel."""
        self.read: Latency = fixed(0)
        self.write: Latency = fixed(0)
        self.trim: Latency = fixed(0)
        self.flush: Latency = fixed(0)
        self.read_per_kib_ns: int = 0
        self.write_per_kib_ns: int = 0
        self.read_bytes_per_s: int = 0
        self.write_bytes_per_s: int = 0
        self.iops: int = 0
        self.iops_bytes: int = 0
        """One command of the gate is up to so many bytes; 0: any size."""
        self.cache_bytes: int = 0
        """0: no write cache."""
        self.cache_write: Latency = fixed(0)
        self.drain_bytes_per_s: int = 0


class NvmeDevice(SimDevice):
    """The model described at the top of this file; rng is its own."""

    def __init__(self, machine: SimMachine, nr_queues: int, queue_depth: int, params: NvmeParams, rng: Rng) -> None:
        super().__init__(machine, nr_queues, queue_depth)
        self.rng: Rng = rng
        self.overhead_ns: i64 = params.overhead_ns
        self.channels: Channels = Channels(params.channels)
        self.read: Latency = params.read
        self.write: Latency = params.write
        self.trim: Latency = params.trim
        self.flush: Latency = params.flush
        self.read_per_kib_ns: i64 = params.read_per_kib_ns
        self.write_per_kib_ns: i64 = params.write_per_kib_ns
        self.read_link: Link = Link(params.read_bytes_per_s >> 9)
        self.write_link: Link = Link(params.write_bytes_per_s >> 9)
        self.gate: Link = Link(params.iops)
        self.gate_sectors: i64 = params.iops_bytes >> 9
        self.cache_write: Latency = params.cache_write
        self.drain: Link = Link(params.drain_bytes_per_s >> 9)
        """All cached writes pass it; free when nothing is dirty."""
        self.cache_ns: i64 = -1
        """The whole cache's drain time; -1: no cache."""
        if params.cache_bytes > 0:
            assert params.drain_bytes_per_s > 0, "a write cache that never drains"
            self.cache_ns = min(params.cache_bytes * 1_000_000_000 // params.drain_bytes_per_s, CACHE_NS_MAX)

    def done_at_ns(self, rq: Request, now_ns: i64) -> i64:
        """Return when rq, which arrives now, is done."""
        op = rq.op
        at = now_ns + self.overhead_ns
        if op == REQ_OP_FLUSH:
            # What comes later may be dirty for ever: only what is dirty now has to be down.
            if self.drain.free_at_ns > at:
                at = self.drain.free_at_ns
            return at + self.flush.draw(self.rng)
        sectors = rq.nr_sectors
        if self.gate.unit_time > 0:
            at = self.gate.enter(at, self.commands_of(op, sectors))
        if op == REQ_OP_READ:
            at = self.read_link.pass_through(at, sectors)
            return self.channels.serve(at, media_ns(self.read.draw(self.rng), sectors, self.read_per_kib_ns))
        if op == REQ_OP_WRITE:
            at = self.write_link.pass_through(at, sectors)
            if self.cache_ns >= 0 and rq.flags & REQ_FUA == 0:
                return self.write_to_cache(at, sectors)
            return self.channels.serve(at, media_ns(self.write.draw(self.rng), sectors, self.write_per_kib_ns))
        return self.channels.serve(at, self.trim.draw(self.rng))

    def commands_of(self, op: i64, sectors: i64) -> i64:
        """Return how many commands the IOPS gate counts a request as; one without data is one."""
        unit = self.gate_sectors
        if unit == 0 or sectors <= unit or op > REQ_OP_WRITE:
            return 1
        return (sectors + unit - 1) // unit

    def write_to_cache(self, at_ns: i64, sectors: i64) -> i64:
        """Return when a write that is here at at_ns is in the cache: at once, or when a full one has made room."""
        done = at_ns + self.cache_write.draw(self.rng)
        has_room = self.drain.pass_through(at_ns, sectors) - self.cache_ns
        return has_room if has_room > done else done

    def dirty_ns(self, now_ns: i64) -> i64:
        """Return how long the cache needs to drain, if nothing more comes."""
        left = self.drain.free_at_ns - now_ns
        return left if left > 0 else 0


def media_ns(first_ns: i64, sectors: i64, per_kib_ns: i64) -> i64:
    """Return the media time of a request: the drawn time, and what its size beyond 4 KiB adds."""
    if sectors <= FIRST_SECTORS or per_kib_ns == 0:
        return first_ns
    return first_ns + ((sectors - FIRST_SECTORS) * per_kib_ns >> 1)
