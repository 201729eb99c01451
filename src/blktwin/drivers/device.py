"""The seam between a hardware driver and the device behind it."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from blktwin.block.request import Request


@mypyc_attr(allow_interpreted_subclasses=True)
class Device:
    """What takes started requests and completes them later; q is set when the queue is built."""

    @abstractmethod
    def submit(self, rq: Request) -> i64:
        """Take a started request: BLK_STS_OK, or BLK_STS_RESOURCE to be asked again. Never completes inline."""
