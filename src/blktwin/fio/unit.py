"""An I/O unit: the bio that a fio thread fills again and again, the file that it goes to, and a list of units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bdev import BlockDevice, OpenFile
from blktwin.block.bio import Bio
from blktwin.fio.random_dist import RankSource
from blktwin.fio.random_map import RandomMap

if TYPE_CHECKING:
    from blktwin.fio.job import IoThread


class FioFile:
    """One file of one thread: a block device, or nothing behind it for the null engine. Bytes everywhere."""

    def __init__(
        self,
        name: str,
        bdev: BlockDevice | None,
        real_bytes: int,
        offset_bytes: int,
        io_bytes: int,
        base_bytes: int = 0,
    ) -> None:
        self.name: str = name
        self.bdev: BlockDevice | None = bdev
        self.handle: OpenFile | None = None if bdev is None else OpenFile(bdev)
        self.real_bytes: i64 = real_bytes
        self.offset_bytes: i64 = offset_bytes
        self.io_bytes: i64 = io_bytes
        """Size of the region that the job uses, from offset_bytes on."""
        self.base_bytes: i64 = base_bytes
        """Where the file begins on its device."""
        self.last_pos: vec[i64] = vec[i64]([offset_bytes] * 3)
        """Per direction, where the last I/O ended."""
        self.last_start: vec[i64] = vec[i64]([-1] * 3)
        self.nr_starts: vec[i64] = vec[i64]([0] * 3)
        """Per direction, how many aligned places an I/O can start at."""
        self.is_done: bool = False
        """True when this pass has no more I/O for the file."""
        self.map: RandomMap | None = None
        self.ranks: RankSource | None = None

    def reset(self) -> None:
        """Start over: positions and map as at first."""
        self.is_done = False
        for ddir in range(3):
            self.last_pos[ddir] = self.offset_bytes
            self.last_start[ddir] = -1
        if self.map is not None:
            self.map.reset()


class IoUnit(Bio):
    """One I/O of a fio thread: direction, place, times in ns; made once per depth slot."""

    def __init__(self, thread: IoThread, file: FioFile) -> None:
        super().__init__()
        self.thread: IoThread = thread
        self.file: FioFile = file
        self.ddir: i64 = 0
        self.offset: i64 = 0
        self.nbytes: i64 = 0
        self.block: i64 = 0
        """What a random draw gave."""
        self.started_ns: i64 = 0
        self.issued_ns: i64 = 0
        self.is_done: bool = False
        self.is_random: bool = False
        self.following: IoUnit | None = None
        """Link of the thread's queue or completion ring."""

    def end_io(self) -> None:
        """Tell the thread."""
        self.is_done = True
        self.thread.unit_done(self)


class UnitFifo:
    """Units in order."""

    def __init__(self) -> None:
        self.head: IoUnit | None = None
        self.tail: IoUnit | None = None
        self.count: i64 = 0

    def append(self, unit: IoUnit) -> None:
        """Put unit last."""
        unit.following = None
        tail = self.tail
        if tail is None:
            self.head = unit
        else:
            tail.following = unit
        self.tail = unit
        self.count += 1

    def pop(self) -> IoUnit:
        """Take the first; there must be one."""
        unit = self.head
        assert unit is not None, "the list is empty"
        self.head = unit.following
        if self.head is None:
            self.tail = None
        unit.following = None
        self.count -= 1
        return unit
