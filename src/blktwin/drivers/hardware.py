"""The driver of a real controller in its simplest true shape: start the request, hand it to the device.

Kernel: nvme_queue_rq(), drivers/nvme/host/pci.c; null_queue_rq(), drivers/block/null_blk/main.c, v6.12.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.driver import Driver
from blktwin.block.request import Request
from blktwin.drivers.device import Device


class HardwareDriver(Driver):
    """Passes every request to one device."""

    def __init__(self, device: Device) -> None:
        self.device: Device = device

    def queue_rq(self, rq: Request, last: bool) -> i64:
        """Start rq and submit it."""
        rq.q.start_request(rq)
        return self.device.submit(rq)
