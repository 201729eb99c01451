"""What a block driver does for blk-mq.

Kernel: struct blk_mq_ops, include/linux/blk-mq.h, v6.12.
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from blktwin.block.request import Request


@mypyc_attr(allow_interpreted_subclasses=True)
class Driver:
    """Base of every driver."""

    @abstractmethod
    def queue_rq(self, rq: Request, last: bool) -> i64:
        """Start rq and return BLK_STS_OK; or return BLK_STS_RESOURCE (again later) or an error.

        It never completes the request inline. last: no more requests follow in this pass.
        """

    def commit_rqs(self) -> None:
        """Tell the device of requests queued with last=False when none follows after all."""
