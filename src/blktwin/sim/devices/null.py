"""null_blk: every request takes the same time, whatever the load, up to its queue depth.

Kernel: null_handle_cmd() with irqmode=2 (timer), drivers/block/null_blk/main.c, v6.12.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.request import Request
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.machine import SimMachine


class NullDevice(SimDevice):
    """Completes each request latency_ns after it came, on the CPU that issued it."""

    def __init__(self, machine: SimMachine, nr_queues: int, queue_depth: int, latency_ns: int) -> None:
        super().__init__(machine, nr_queues, queue_depth)
        self.latency_ns: i64 = latency_ns
        self.has_irq_hop = False

    def irq_cpu(self, rq: Request) -> int:
        """Return the CPU whose timer was armed: the issuer's."""
        return self.machine.current.cpu

    def done_at_ns(self, rq: Request, now_ns: i64) -> i64:
        """Return now plus the latency."""
        return now_ns + self.latency_ns
