"""The cgroup tree as the block layer sees it: paths, depth, BFQ weights, and who must hear of a change.

Kernel: struct blkcg, block/blk-cgroup.h; struct bfq_group_data, block/bfq-iosched.h, v6.12.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import REQ_OP_DISCARD, op_is_sync

WEIGHT_MIN: Final = 1
WEIGHT_MAX: Final = 1000
WEIGHT_DEFAULT: Final = 100

STAT_KINDS: Final = ("Read", "Write", "Sync", "Async", "Discard")
"""What a group's I/O is counted by, in the order of the files; each I/O counts twice, by operation and by sync."""
STAT_READ: Final = 0
STAT_WRITE: Final = 1
STAT_DISCARD: Final = 4
PAIR_READ: Final = 0
PAIR_WRITE: Final = 2
PAIR_DISCARD: Final = 4
"""An operation's async I/Os; the sync ones stand behind them."""
NR_PAIRS: Final = 6


class ServiceStats:
    """Bytes and I/Os of one cgroup on one device, by STAT_KINDS.

    Kernel: struct blkg_rwstat, block/blk-cgroup-rwstat.h, v6.12.
    """

    def __init__(self) -> None:
        self.nr_bytes: vec[i64] = vec[i64]([0] * NR_PAIRS)
        self.nr_ios: vec[i64] = vec[i64]([0] * NR_PAIRS)
        """By operation and sync, as add() has it: each I/O is counted once here."""

    @property
    def bytes(self) -> list[int]:
        """The bytes by STAT_KINDS."""
        return by_kind(self.nr_bytes)

    @property
    def ios(self) -> list[int]:
        """The I/Os by STAT_KINDS."""
        return by_kind(self.nr_ios)

    def add(self, op: i64, flags: i64, nbytes: i64) -> None:
        """Count one request.

        Kernel: blkg_rwstat_add(), block/blk-cgroup-rwstat.h, v6.12.
        """
        pair: i64 = PAIR_READ
        if op == REQ_OP_DISCARD:
            pair = PAIR_DISCARD
        elif op & 1:
            pair = PAIR_WRITE
        if op_is_sync(op, flags):
            pair += 1
        self.nr_bytes[pair] += nbytes
        self.nr_ios[pair] += 1


def by_kind(counts: vec[i64]) -> list[int]:
    """Return counters of pairs by STAT_KINDS."""
    read, read_sync, write, write_sync, discard, discard_sync = list(counts)
    is_async = read + write + discard
    is_sync = read_sync + write_sync + discard_sync
    return [read + read_sync, write + write_sync, is_sync, is_async, discard + discard_sync]


@mypyc_attr(allow_interpreted_subclasses=True)
class PolicyData:
    """What a policy keeps for one pair of cgroup and device; it hears of changes to the cgroup.

    Kernel: struct blkg_policy_data, block/blk-cgroup.h, v6.12.
    """

    def set_weight(self, weight: int) -> None:
        """Take the cgroup's weight, and forget the device's own."""

    def set_dev_weight(self, weight: int) -> None:
        """Take a weight for this device only; 0 forgets it and leaves the weight that is in force."""

    def offline(self) -> None:
        """See the cgroup go: move what is queued to the parent's care."""

    def service_stats(self) -> ServiceStats:
        """Return the counters behind the statistics files (cgroup_files.py); zeros when the policy keeps none."""
        return ServiceStats()


class Cgroup:
    """One cgroup; path is absolute, "/" for the root. Weights are 1..1000."""

    def __init__(self, path: str, parent: Cgroup | None, serial: int) -> None:
        self.path: str = path
        self.parent: Cgroup | None = parent
        self.serial: int = serial
        """Order of creation; a stable identity for maps and traces."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.is_online: bool = True
        self.weight: int = WEIGHT_DEFAULT
        """io.bfq.weight, blkio.bfq.weight."""
        self.dev_weights: dict[tuple[int, int], int] = {}
        """Weights of single devices, by (major, minor)."""
        self.devices: dict[tuple[int, int], PolicyData] = {}
        """A policy's data by device, made when the cgroup first does I/O there."""
        self.children: list[Cgroup] = []
        """In the order of creation, those that are gone included."""
        if parent is not None:
            parent.children.append(self)

    def set_weight(self, weight: int) -> None:
        """Write the weight for all devices; it clears those of single devices.

        Kernel: bfq_io_set_weight_legacy(), block/bfq-cgroup.c, v6.12.
        """
        assert WEIGHT_MIN <= weight <= WEIGHT_MAX, f"a weight of {weight}"
        self.weight = weight
        self.dev_weights.clear()
        for data in self.devices.values():
            data.set_weight(weight)

    def set_dev_weight(self, dev: tuple[int, int], weight: int) -> None:
        """Write the weight for one device; 0 stands for "default".

        Kernel: bfq_io_set_device_weight(), block/bfq-cgroup.c, v6.12.
        """
        if weight:
            assert WEIGHT_MIN <= weight <= WEIGHT_MAX, f"a weight of {weight}"
            self.dev_weights[dev] = weight
        else:
            self.dev_weights.pop(dev, None)
        data = self.devices.get(dev)
        if data is not None:
            data.set_dev_weight(weight)

    def go_offline(self) -> None:
        """Remove the cgroup: I/O of tasks that are still in it counts for the nearest ancestor that is left."""
        assert self.parent is not None, "the root cgroup stays"
        if self.is_online:
            self.is_online = False
            for data in self.devices.values():
                data.offline()


class CgroupTree:
    """All cgroups of one machine, created on demand by path."""

    def __init__(self) -> None:
        self.root: Cgroup = Cgroup("/", None, 0)
        self.by_path: dict[str, Cgroup] = {"/": self.root}

    def get(self, path: str) -> Cgroup:
        """Return the cgroup at path ("/a/b" or "a/b"), making it and its parents if they are missing."""
        parts = [part for part in path.split("/") if part]
        group = self.root
        name = ""
        for part in parts:
            name = name + "/" + part
            child = self.by_path.get(name)
            if child is None:
                child = Cgroup(name, group, len(self.by_path))
                self.by_path[name] = child
            group = child
        return group
