"""A BFQ group: one cgroup's queues and groups on one device.

Kernel: struct bfq_group, block/bfq-iosched.h; block/bfq-cgroup.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.entity import CLASS_BE, Entity, SchedData
from blktwin.block.bfq.queue import LONG_AGO, BfqQueue
from blktwin.block.cgroup import ServiceStats

if TYPE_CHECKING:
    from blktwin.block.cgroup import Cgroup

ASYNC_QUEUES: Final = 17
"""Eight levels of real time, eight of best effort, one idle."""


class BfqGroup(Entity):
    """One group; the root's own entity is never scheduled."""

    def __init__(self, cgroup: Cgroup, parent: BfqGroup | None, root_jif: i64) -> None:
        sd = SchedData(None, root_jif if parent is None else LONG_AGO)
        super().__init__(sd if parent is None else parent.children, None, False)
        self.io_class = CLASS_BE
        self.cgroup: Cgroup = cgroup
        self.children: SchedData = sd
        self.my_sched_data = sd
        self.parent_group: BfqGroup | None = parent
        if parent is not None and parent.parent_group is not None:
            self.parent = parent
        self.is_online: bool = True
        self.async_queues: list[BfqQueue | None] = [None] * ASYNC_QUEUES
        self.pos_queues: list[BfqQueue] = []
        """Queues by the position of their next request (coop.py)."""
        self.nr_queues_with_pending_reqs: i64 = 0
        """Queues right here with requests, queued or in flight (since 6.2)."""
        self.nr_counted_queues: i64 = 0
        """Queues right here that stand in the weights tree (the series of March 2022)."""
        self.last_bfqq_created: BfqQueue | None = None
        self.stats: ServiceStats = ServiceStats()
        if parent is not None:
            # Last: what sees an object before it is complete must check each of its attributes.
            sd.owner = self

    def is_root(self) -> bool:
        """Say whether it is the root group."""
        return self.parent_group is None

    def entity_or_none(self) -> Entity | None:
        """Return what is the parent of the entities in it: nothing for the root."""
        return None if self.parent_group is None else self

    def path(self) -> str:
        """Return the cgroup's path."""
        return self.cgroup.path
