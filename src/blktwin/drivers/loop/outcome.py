"""From what a file operation returned to the status of a request.

Kernel: errno_to_blk_status(), block/blk-core.c; lo_complete_rq() and loop_handle_cmd(), drivers/block/loop.c, v6.12.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_DEV_RESOURCE,
    BLK_STS_INVAL,
    BLK_STS_IOERR,
    BLK_STS_MEDIUM,
    BLK_STS_NOSPC,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    BLK_STS_RESOURCE,
    BLK_STS_TIMEOUT,
)
from blktwin.drivers.backing import EAGAIN, EBUSY, EINVAL, ENOMEM, ENOSPC, EOPNOTSUPP

ENODATA: Final = 61
ETIMEDOUT: Final = 110


def status_of_errno(errno: i64) -> i64:
    """Return the status for a positive error number.

    Kernel: errno_to_blk_status(), block/blk-core.c, v6.12.
    """
    if errno == ENOSPC:
        return BLK_STS_NOSPC
    if errno == EOPNOTSUPP:
        return BLK_STS_NOTSUPP
    if errno == EAGAIN:
        return BLK_STS_AGAIN
    if errno == ENOMEM:
        return BLK_STS_RESOURCE
    if errno == EBUSY:
        return BLK_STS_DEV_RESOURCE
    if errno == EINVAL:
        return BLK_STS_INVAL
    if errno == ENODATA:
        return BLK_STS_MEDIUM
    if errno == ETIMEDOUT:
        return BLK_STS_TIMEOUT
    return BLK_STS_IOERR


def status_of_other(result: i64) -> i64:
    """Return the status of a flush, discard or write-zeroes: all errors but one are the same.

    Kernel: loop_handle_cmd(), drivers/block/loop.c, v6.12.
    """
    if result >= 0:
        return BLK_STS_OK
    return BLK_STS_NOTSUPP if result == -EOPNOTSUPP else BLK_STS_IOERR
