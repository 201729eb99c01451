"""A block device as the loop driver's backing: no extents to allocate, no metadata, fallocate as write-zeroes.

Kernel: block/fops.c, v6.12.
"""

from __future__ import annotations

from blktwin.block.bdev import BlockDevice
from blktwin.sim.files.file import SimFile
from blktwin.sim.files.params import FileParams
from blktwin.sim.machine import SimMachine


class BdevFile(SimFile):
    """The whole device bdev; keeps_bytes: its page cache holds bytes."""

    def __init__(self, machine: SimMachine, bdev: BlockDevice, keeps_bytes: bool = False) -> None:
        params = FileParams("bdev", int(bdev.size_bytes), keeps_bytes=keeps_bytes)
        params.journal_bytes = 0
        params.spare_bytes = 0
        super().__init__(machine, bdev, 0, params)
        self.name = "/dev/" + bdev.q.name
        self.max_bytes = bdev.size_bytes
        self.block_bytes = bdev.q.limits.discard_granularity_bytes or bdev.q.limits.logical_block_bytes
