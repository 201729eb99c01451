"""Discard and write-zeroes as fallocate() on the file, and what a file that cannot do it makes of the limits.

Kernel: lo_fallocate() and lo_discard() in drivers/block/loop.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import REQ_NOUNMAP, REQ_OP_WRITE_ZEROES
from blktwin.block.request import Request
from blktwin.drivers.backing import EOPNOTSUPP, FILE_PUNCH, FILE_ZERO

if TYPE_CHECKING:
    from blktwin.drivers.loop.driver import LoopDriver


def file_op_of(rq: Request) -> i64:
    """Return the file operation for a discard or write-zeroes.

    Kernel: do_req_filebacked(), drivers/block/loop.c, v6.12.
    """
    return FILE_ZERO if rq.op == REQ_OP_WRITE_ZEROES and rq.flags & REQ_NOUNMAP else FILE_PUNCH


def fallocate_failed(driver: LoopDriver, file_op: i64, result: i64) -> None:
    """Forget a limit when the file says that it cannot do that at all; it stays so until the next configuration.

    Kernel: loop_clear_limits(), drivers/block/loop.c, v6.12.
    """
    if result != -EOPNOTSUPP:
        return
    limits = driver.limits
    if file_op == FILE_ZERO:
        limits.max_write_zeroes_sectors = 0
    else:
        limits.max_discard_sectors = 0
        limits.discard_granularity_bytes = 0
