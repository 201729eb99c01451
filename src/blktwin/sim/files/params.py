"""What a simulated file is and costs, with defaults; sizes in bytes, times in ns."""

from __future__ import annotations

from typing import Final

from blktwin.errors import ConfigError
from blktwin.sim.files.filesystem import FILE_KINDS, KINDS
from blktwin.sim.hints import near
from blktwin.units import GIB, KIB, MIB, NSEC_PER_SEC

BLOCK: Final = 4096
EIB: Final = 1 << 60
AUTO: Final = -1


class FileParams:
    """One file. Times without another source are estimates within the ranges of spec/loop.md §4.7 and §5.4."""

    def __init__(
        self,
        kind: str = "ext4",
        size_bytes: int = GIB,
        is_sparse: bool = False,
        p_unwritten: float = 0.0,
        p_shared: float = 0.0,
        p_hole: float = 0.0,
        keeps_bytes: bool = False,
    ) -> None:
        self.kind: str = kind
        self.size_bytes: int = size_bytes
        self.is_sparse: bool = is_sparse
        """All holes at first (truncate -s)."""
        self.p_unwritten: float = p_unwritten
        """The share of extents that are allocated but unwritten at first (fallocate)."""
        self.p_shared: float = p_shared
        """The share that another file has too (reflink): a write moves it."""
        self.p_hole: float = p_hole
        """The share of holes; the rest is mapped."""
        self.extent_bytes: int = MIB
        """One draw of the shares above."""
        self.seed: int = 0
        self.keeps_bytes: bool = keeps_bytes
        """Pages hold bytes, and what a power cut may lose is remembered; the device needs a store."""
        self.is_read_only: bool = False
        self.is_nodatacow: bool = False
        """btrfs: writes stay in place unless the extent is shared."""
        self.grow_bytes: int = 0
        """How far it may grow beyond size_bytes."""
        self.spare_bytes: int = AUTO
        """Room for blocks that a write moves; by default as much as the file where writes move blocks, else none."""
        self.free_bytes: int = AUTO
        """What its file system can still allocate to it; -1: no limit."""
        self.dio_align_bytes: int = 0
        """STATX_DIOALIGN; 0: the logical block of the device."""
        self.map_ns: int = 0
        """CPU time of a look-up in the extent map, under its lock shared, for each level of its tree."""
        self.alloc_ns: int = 20_000
        """CPU time of an allocation, under the lock of the extent map."""
        self.alloc_hold_ns: int = 0
        """How long it then sleeps with that lock: start of a transaction, reading of metadata."""
        self.convert_ns: int = 4_000
        """CPU time after the I/O: unwritten becomes written, a moved block is put in place, the size grows."""
        self.falloc_ns: int = 10_000
        """CPU time of a punch or zero range, under the inode lock."""
        self.commit_ns: int = 10_000
        """CPU time of the journal commit in an fsync."""
        self.journal_bytes: int = 8 * KIB
        """What a commit writes before its last block; 0: no journal."""
        self.cache_bytes: int = GIB
        """Page cache; clean pages beyond it go, the oldest first."""
        self.dirty_background_bytes: int = 100 * MIB
        """More dirty pages wake the flusher (vm.dirty_background_bytes)."""
        self.dirty_limit_bytes: int = 200 * MIB
        """A writer sleeps while there are more (vm.dirty_bytes)."""
        self.dirty_expire_ns: int = 30 * NSEC_PER_SEC
        """vm.dirty_expire_centisecs."""
        self.read_ahead_bytes: int = 128 * KIB
        """read_ahead_kb of the device below."""

    def spare_room(self) -> int:
        """Return the room for moved blocks."""
        if self.spare_bytes >= 0:
            return round_up(self.spare_bytes)
        moves = self.p_shared > 0 or (KINDS[self.kind].cow_all and not self.is_nodatacow)
        return 2 * round_up(self.size_bytes + self.grow_bytes) if moves else 0

    def region_bytes(self) -> int:
        """Return how much of the device the file needs: itself, what it may grow, moved blocks, the journal."""
        if KINDS[self.kind].in_memory:
            return 0
        if self.kind == "bdev":
            return self.size_bytes
        return round_up(self.size_bytes + self.grow_bytes) + self.spare_room() + self.journal_room()

    def journal_room(self) -> int:
        """Return the journal's room: 64 commits."""
        return 64 * (round_up(self.journal_bytes) + BLOCK) if self.journal_bytes > 0 else 0


FLAGS: Final = ("is_sparse", "keeps_bytes", "is_read_only", "is_nodatacow")
SHARES: Final = ("p_unwritten", "p_shared", "p_hole")
WHOLE: Final[dict[str, tuple[int, int]]] = {
    "size_bytes": (BLOCK, EIB),
    "extent_bytes": (BLOCK, EIB),
    "seed": (0, (1 << 62) - 1),
    "grow_bytes": (0, EIB),
    "spare_bytes": (AUTO, EIB),
    "free_bytes": (AUTO, EIB),
    "dio_align_bytes": (0, 64 * KIB),
    "map_ns": (0, NSEC_PER_SEC),
    "alloc_ns": (0, NSEC_PER_SEC),
    "alloc_hold_ns": (0, 100 * NSEC_PER_SEC),
    "convert_ns": (0, NSEC_PER_SEC),
    "falloc_ns": (0, NSEC_PER_SEC),
    "commit_ns": (0, NSEC_PER_SEC),
    "journal_bytes": (0, MIB),
    "cache_bytes": (MIB, EIB),
    "dirty_background_bytes": (BLOCK, EIB),
    "dirty_limit_bytes": (BLOCK, EIB),
    "dirty_expire_ns": (0, 3600 * NSEC_PER_SEC),
    "read_ahead_bytes": (BLOCK, 16 * MIB),
}
"""Least and largest value."""
PARAM_NAMES: Final = ("kind", *FLAGS, *SHARES, *WHOLE)


def round_up(nbytes: int) -> int:
    """Return nbytes in whole blocks."""
    return -(-nbytes // BLOCK) * BLOCK


def make_params(values: dict[str, object], file: str = "", line: int = 0, key: str = "") -> FileParams:
    """Return the parameters that values says, checked; ConfigError names key.name."""
    params = FileParams()
    for name, value in values.items():
        where = f"{key}.{name}" if key else name
        problem = problem_of(name, value)
        if problem:
            raise ConfigError(problem, file=file, line=line, key=where)
        setattr(params, name, float(str(value)) if name in SHARES else value)
    check_params(params, file, line, key)
    return params


def problem_of(name: str, value: object) -> str:
    """Say what is wrong with one parameter, "" for nothing."""
    if name not in PARAM_NAMES:
        return f"no parameter of a file{near(name, PARAM_NAMES)}"
    if name == "kind":
        return "" if isinstance(value, str) else f"{value} is not the name of a file system"
    if name in FLAGS:
        return "" if isinstance(value, bool) else f"{value} is neither true nor false"
    if isinstance(value, bool) or not isinstance(value, int | float if name in SHARES else int):
        return f"{value} is not a {'number from 0 to 1' if name in SHARES else 'whole number'}"
    return ""


def check_params(params: FileParams, file: str = "", line: int = 0, key: str = "") -> None:
    """Raise ConfigError for values that no file can have."""
    where = key + "." if key else ""

    def refuse(name: str, message: str) -> None:
        raise ConfigError(message, file=file, line=line, key=where + name)

    if params.kind not in FILE_KINDS:
        refuse("kind", f"no file system '{params.kind}'{near(params.kind, FILE_KINDS) or f'; one of {FILE_KINDS}'}")
    for name, (low, high) in WHOLE.items():
        value = getattr(params, name)
        if not low <= value <= high:
            refuse(name, f"{value} is not from {low} to {high}")
    for name in SHARES:
        if not 0.0 <= getattr(params, name) <= 1.0:
            refuse(name, f"{getattr(params, name)} is not from 0 to 1")
    if params.p_unwritten + params.p_shared + params.p_hole > 1.0:
        refuse("p_hole", "p_unwritten, p_shared and p_hole are more than 1 together")
    if params.is_sparse and params.p_unwritten + params.p_shared > 0:
        refuse("is_sparse", "a sparse file has neither unwritten nor shared extents")
    if params.p_shared > 0 and not KINDS[params.kind].can_reflink:
        refuse("p_shared", f"{params.kind} has no shared extents")
    align = params.dio_align_bytes
    if align and (align < 512 or align & (align - 1)):
        refuse("dio_align_bytes", f"{align} is not a power of two from 512")
    if params.extent_bytes % BLOCK:
        refuse("extent_bytes", f"{params.extent_bytes} is not a multiple of {BLOCK}")
    if params.dirty_limit_bytes < params.dirty_background_bytes:
        refuse("dirty_limit_bytes", "the flusher must begin before writers have to wait (dirty_background_bytes)")
