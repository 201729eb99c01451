"""What the file systems do differently, as data: who answers NOWAIT how, which lock an operation takes, what waits.

Kernel: fs/ext4/file.c, fs/xfs/xfs_file.c and xfs_iomap.c, fs/btrfs/direct-io.c, fs/f2fs/file.c, v6.12 and v7.3.
Differs: compressed and inline extents, layout leases and garbage collection are not modelled.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.drivers.backing import EAGAIN, EOPNOTSUPP


class FileSystem:
    """One kind of file system; what most of them do is the default."""

    def __init__(self, kind: str) -> None:
        self.kind: str = kind
        self.can_nowait: bool = True
        """FMODE_NOWAIT."""
        self.in_memory: bool = False
        """No device below: every operation is a copy."""
        self.is_device: bool = False
        """No file system at all: a block device."""
        self.read_needs_map: bool = False
        """A read takes the lock of the extent map (shared) to look its extents up."""
        self.read_locks: bool = True
        """Direct reads take the inode lock, shared."""
        self.write_is_exclusive: bool = False
        """Direct writes take the inode lock exclusively, not shared."""
        self.extend_waits: bool = False
        """A direct write that extends the file is synchronous."""
        self.cow_all: bool = False
        """Every write goes to a new place."""
        self.hole_errno: i64 = EAGAIN
        """What a NOWAIT direct write into a hole gets."""
        self.write_one_extent: bool = False
        """A NOWAIT direct write must lie within one extent."""
        self.read_one_extent: bool = False
        self.nowait_read_max: i64 = 0
        """The longest NOWAIT direct read in bytes; 0: any."""
        self.nowait_max_bios: i64 = 0
        """How many bios a NOWAIT direct I/O may take; 0: any."""
        self.buffered_nowait_write: bool = False
        """A buffered write can be NOWAIT."""
        self.buffered_read_locks: bool = False
        """A buffered read takes the inode lock, shared."""
        self.falloc_drains: bool = True
        """fallocate() waits for direct I/O in flight."""
        self.can_reflink: bool = False


def make_kinds() -> dict[str, FileSystem]:
    """Return all kinds by name."""
    ext4 = FileSystem("ext4")
    ext4.extend_waits = True
    # It stacks on another file system, and does not pass the flag on: here on ext4.
    overlayfs = FileSystem("overlayfs")
    overlayfs.extend_waits = True
    overlayfs.can_nowait = False
    xfs = FileSystem("xfs")
    xfs.read_needs_map = True
    xfs.write_one_extent = True
    xfs.buffered_nowait_write = True
    xfs.buffered_read_locks = True
    xfs.can_reflink = True
    btrfs = FileSystem("btrfs")
    btrfs.read_needs_map = True
    btrfs.write_one_extent = True
    btrfs.read_one_extent = True
    btrfs.nowait_read_max = 4096
    btrfs.cow_all = True
    btrfs.buffered_nowait_write = True
    btrfs.can_reflink = True
    f2fs = FileSystem("f2fs")
    f2fs.read_locks = False
    f2fs.write_is_exclusive = True
    f2fs.hole_errno = EOPNOTSUPP
    tmpfs = FileSystem("tmpfs")
    tmpfs.can_nowait = False
    tmpfs.in_memory = True
    tmpfs.falloc_drains = False
    bdev = FileSystem("bdev")
    bdev.is_device = True
    bdev.nowait_max_bios = 1
    bdev.falloc_drains = False
    return {fs.kind: fs for fs in (ext4, xfs, btrfs, f2fs, overlayfs, tmpfs, bdev)}


KINDS: Final = make_kinds()
FILE_KINDS: Final = tuple(kind for kind, fs in KINDS.items() if not fs.is_device)
