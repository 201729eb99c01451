"""The seam between the loop driver and the file behind it: one operation in flight, and what a file can do.

sim/files/ has simulated files; a live server puts a real one here.
Kernel: struct kiocb, include/linux/fs.h; struct file_operations; v6.12.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from blktwin.block.machine import Task

if TYPE_CHECKING:
    from blktwin.block.cgroup import Cgroup

FILE_READ: Final = 0
FILE_WRITE: Final = 1
FILE_FSYNC: Final = 2
FILE_PUNCH: Final = 3
"""fallocate(PUNCH_HOLE | KEEP_SIZE)."""
FILE_ZERO: Final = 4
"""fallocate(ZERO_RANGE | KEEP_SIZE)."""

IOCB_DIRECT: Final = 1 << 0
IOCB_NOWAIT: Final = 1 << 1

EIOCBQUEUED: Final = 529
EIO: Final = 5
EAGAIN: Final = 11
ENOMEM: Final = 12
EBUSY: Final = 16
EINVAL: Final = 22
ENOSPC: Final = 28
EOPNOTSUPP: Final = 95

NO_LOWER: Final = ""


@mypyc_attr(allow_interpreted_subclasses=True)
class FileCall:
    """One file operation: a kiocb, an fsync or a fallocate; the owner subclasses it and overrides ki_complete().

    pos, nbytes: the range in bytes. data: nbytes of payload, to write or to be filled; None when nobody keeps bytes.
    """

    def __init__(self) -> None:
        self.op: i64 = FILE_READ
        self.pos: i64 = 0
        self.nbytes: i64 = 0
        self.flags: i64 = 0
        self.ioprio: i64 = 0
        self.cgroup: Cgroup | None = None
        """Whose I/O this is, for the device below."""
        self.task: Task | None = None
        """Who executes it."""
        self.data: bytearray | None = None
        self.result: i64 = 0
        """What advance() returned: bytes, 0, -errno, or -EIOCBQUEUED."""
        self.step: i64 = 0
        """The backing's own; 0 before the first advance()."""
        self.state: object | None = None
        """The backing's own."""

    def ki_complete(self, result: i64) -> None:
        """Learn the result (bytes or -errno) of an operation that returned -EIOCBQUEUED; from any context, once."""
        raise NotImplementedError

    def lower_queued(self) -> None:
        """Learn that the first bio goes to the device below, in any context."""

    def lower_ended(self) -> None:
        """Learn that the last bio below has ended; ki_complete() may come later (work of the file system)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Backing:
    """A file open for the loop driver; sizes in bytes.

    Kernel: vfs_statx(), fs/stat.c, vfs_fallocate(), fs/open.c, and vfs_fsync(), fs/sync.c, v6.12, say what it can.
    """

    def __init__(self) -> None:
        self.name: str = ""
        self.kind: str = ""
        """The file system ("ext4", "xfs", ...), or "bdev" for a block device."""
        self.is_block_device: bool = False
        self.is_read_only: bool = False
        self.can_nowait: bool = True
        """FMODE_NOWAIT."""
        self.can_direct: bool = True
        """It can be opened with O_DIRECT."""
        self.dio_align_bytes: i64 = 512
        """STATX_DIOALIGN's alignment of offset and length."""
        self.can_fsync: bool = True
        self.can_fallocate: bool = True
        self.block_bytes: i64 = 4096
        """f_bsize, or the discard granularity of a device."""
        self.max_zeroes_sectors: i64 = 0
        """For a block device: its own limit of write-zeroes; 0: none."""
        self.is_rotational: bool = False

    @abstractmethod
    def size_bytes(self) -> i64:
        """Return the size now (a fresh getattr)."""

    @abstractmethod
    def advance(self, call: FileCall) -> bool:
        """Go on with call for call.task: True when it has returned; False: the task sleeps, and goes on when it runs.

        call.result is then bytes (0 for fsync and fallocate), -errno, or -EIOCBQUEUED: ki_complete() comes later, but
        never before advance() has returned. With IOCB_NOWAIT it never sleeps and says -EAGAIN instead; the I/O that it
        queued may still end in -EAGAIN.
        """

    def lower_queue_name(self) -> str:
        """Return the name of the device that this file is on, "" for memory."""
        return NO_LOWER
