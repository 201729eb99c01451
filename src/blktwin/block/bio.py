"""The bio: one contiguous range of sectors on its way down, and the operation, flag and status codes.

An I/O failure is bio.status, never an exception. The submitter subclasses Bio and overrides end_io().
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from blktwin.block.cgroup import Cgroup

REQ_OP_READ: Final = 0
REQ_OP_WRITE: Final = 1
REQ_OP_FLUSH: Final = 2
REQ_OP_DISCARD: Final = 3
REQ_OP_WRITE_ZEROES: Final = 9

REQ_SYNC: Final = 1 << 0
REQ_META: Final = 1 << 1
REQ_PRIO: Final = 1 << 2
REQ_NOMERGE: Final = 1 << 3
REQ_IDLE: Final = 1 << 4
REQ_FUA: Final = 1 << 5
REQ_PREFLUSH: Final = 1 << 6
REQ_RAHEAD: Final = 1 << 7
REQ_NOWAIT: Final = 1 << 8
REQ_POLLED: Final = 1 << 9
REQ_FS_PRIVATE: Final = 1 << 10
REQ_NOUNMAP: Final = 1 << 11
"""Write-zeroes that keeps the blocks allocated."""

REQ_NOMERGE_FLAGS: Final = REQ_NOMERGE | REQ_PREFLUSH | REQ_FUA

BLK_STS_OK: Final = 0
BLK_STS_NOTSUPP: Final = 1
BLK_STS_TIMEOUT: Final = 2
BLK_STS_NOSPC: Final = 3
BLK_STS_MEDIUM: Final = 7
BLK_STS_RESOURCE: Final = 9
BLK_STS_IOERR: Final = 10
BLK_STS_AGAIN: Final = 12
BLK_STS_DEV_RESOURCE: Final = 13
BLK_STS_INVAL: Final = 19

STATUS_ERRNO: Final = {
    BLK_STS_NOTSUPP: 95,
    BLK_STS_TIMEOUT: 110,
    BLK_STS_NOSPC: 28,
    BLK_STS_MEDIUM: 61,
    BLK_STS_RESOURCE: 12,
    BLK_STS_IOERR: 5,
    BLK_STS_AGAIN: 11,
    BLK_STS_DEV_RESOURCE: 16,
    BLK_STS_INVAL: 22,
}


@mypyc_attr(allow_interpreted_subclasses=True)
class Bio:
    """One contiguous transfer: op, flags, first sector and length in 512-byte sectors.

    next: links bios of one request, or of a task's pending list. Kernel: struct bio, include/linux/blk_types.h, v6.12.
    """

    def __init__(self) -> None:
        self.op: i64 = REQ_OP_READ
        self.flags: i64 = 0
        self.sector: i64 = 0
        self.nr_sectors: i64 = 0
        self.nr_segments: i64 = 1
        self.status: i64 = BLK_STS_OK
        self.ioprio: i64 = 0
        self.cgroup: Cgroup | None = None
        self.owner: object | None = None
        """The queue that the bio was submitted to; set by submit_bio()."""
        self.next: Bio | None = None
        self.data: bytearray | None = None
        """What is written, or where what is read goes; None for an I/O whose bytes nobody keeps."""
        self.data_at: i64 = 0
        """Where in data this bio's bytes begin."""
        self.parent: Bio | None = None
        """The bio that this one was split from."""
        self.remaining: i64 = 1
        """Parts that must end before end_io() runs: 1 and one for each split."""
        self.trace_slot: object | None = None
        """The tracer's own bookkeeping; nobody else's."""

    def end_io(self) -> None:
        """Run once, when every part of the bio has ended; status is the first error seen."""
        raise NotImplementedError

    def endio(self, status: i64) -> None:
        """End one part of this bio; the last part ends its parent, or calls end_io().

        Kernel: bio_endio(), block/bio.c, v6.12.
        """
        bio = self
        while True:
            if status != BLK_STS_OK and bio.status == BLK_STS_OK:
                bio.status = status
            bio.remaining -= 1
            if bio.remaining > 0:
                return
            parent = bio.parent
            if parent is None:
                bio.end_io()
                return
            status = bio.status
            bio = parent


class SplitBio(Bio):
    """The front part of a bio that was too large for its queue; the parent keeps the rest."""

    def end_io(self) -> None:
        """Never runs: a split part ends its parent instead."""
        raise AssertionError("a split bio has a parent")


def op_is_sync(op: i64, flags: i64) -> bool:
    """Say whether a task waits for the operation: every read, and writes marked so.

    Kernel: op_is_sync(), include/linux/blk_types.h, v6.12.
    """
    return op == REQ_OP_READ or flags & (REQ_SYNC | REQ_FUA | REQ_PREFLUSH) != 0


def rwbs(op: i64, flags: i64) -> str:
    """Return blktrace's letters for op and flags, such as "WS" or "FWFS".

    Kernel: blk_fill_rwbs(), kernel/trace/blktrace.c, v6.12.
    """
    letters = "F" if flags & REQ_PREFLUSH else ""
    if op == REQ_OP_WRITE:
        letters += "W"
    elif op == REQ_OP_DISCARD:
        letters += "D"
    elif op == REQ_OP_FLUSH:
        letters += "F"
    elif op == REQ_OP_READ:
        letters += "R"
    else:
        letters += "N"
    if flags & REQ_FUA:
        letters += "F"
    if flags & REQ_RAHEAD:
        letters += "A"
    if flags & REQ_SYNC:
        letters += "S"
    if flags & REQ_META:
        letters += "M"
    return letters
