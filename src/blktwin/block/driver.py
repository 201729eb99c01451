"""What a block driver does for blk-mq.

Kernel: struct blk_mq_ops, include/linux/blk-mq.h, v6.12.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from blktwin.block.request import Request

if TYPE_CHECKING:
    from blktwin.block.hctx import HardwareQueue


@mypyc_attr(allow_interpreted_subclasses=True)
class Driver:
    """Base of every driver."""

    has_commit_rqs: bool = False
    """It looks at `last` and needs commit_rqs(); U is traced then."""

    @abstractmethod
    def queue_rq(self, rq: Request, last: bool) -> i64:
        """Start rq and return BLK_STS_OK; or return BLK_STS_RESOURCE (again later), BLK_STS_DEV_RESOURCE, or an error.

        It never completes the request inline. last: no more requests follow in this pass. BLK_STS_DEV_RESOURCE
        promises that a request of this hardware queue is in flight: its completion runs the queue, nothing else does.
        """

    def commit_rqs(self, hctx: HardwareQueue) -> None:
        """Tell the device of requests queued with last=False when none follows after all."""
