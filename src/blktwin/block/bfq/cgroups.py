"""Groups by cgroup: their creation, the moves of processes and queues, weights, and what becomes of a removed cgroup.

Kernel: block/bfq-cgroup.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.busy import activate_queue
from blktwin.block.bfq.coop import pos_tree_remove, pos_tree_update, put_cooperator, release_process_ref
from blktwin.block.bfq.entity import NR_CLASSES, Entity, SchedData
from blktwin.block.bfq.expire import expire
from blktwin.block.bfq.group import ASYNC_QUEUES, BfqGroup
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.log import PREEMPTED
from blktwin.block.bfq.pending import group_of, pending_add, pending_del
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.wf2q import deactivate, deactivate_entity, put_idle_entity
from blktwin.block.cgroup import Cgroup, PolicyData, ServiceStats

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData


class GroupPolicy(PolicyData):
    """What a cgroup tells its group on one device."""

    def __init__(self, bfqd: BfqData, bfqg: BfqGroup) -> None:
        self.bfqd: BfqData = bfqd
        self.bfqg: BfqGroup = bfqg

    def set_weight(self, weight: int) -> None:
        """Set the weight; the device's own is gone."""
        set_group_weight(self.bfqg, weight, 0)

    def set_dev_weight(self, weight: int) -> None:
        """Set the device's own weight; 0 clears it, and the weight in force stays."""
        set_group_weight(self.bfqg, int(self.bfqg.weight), weight)

    def offline(self) -> None:
        """Bring all that is in the group elsewhere."""
        group_offline(self.bfqd, self.bfqg)

    def service_stats(self) -> ServiceStats:
        """Return the group's counters."""
        return self.bfqg.stats


def set_group_weight(bfqg: BfqGroup, weight: int, dev_weight: int) -> None:
    """Set a group's weight, to be in force from its next activation or requeueing on.

    Kernel: bfq_group_set_weight(), block/bfq-cgroup.c, v6.12.
    """
    bfqg.dev_weight = dev_weight
    new_weight: i64 = dev_weight if dev_weight else weight
    if new_weight != bfqg.new_weight:
        bfqg.new_weight = new_weight
        bfqg.prio_changed = True


def find_group(bfqd: BfqData, cgroup: Cgroup) -> BfqGroup:
    """Return the group of the nearest cgroup that is online, made if need be with those above it.

    Kernel: bfq_bio_bfqg() and bfq_link_bfqg(), block/bfq-cgroup.c, v6.12.
    """
    at: Cgroup = cgroup
    while not at.is_online:
        assert at.parent is not None
        at = at.parent
    if at.parent is None:
        if bfqd.q.dev not in at.devices:
            at.devices[bfqd.q.dev] = GroupPolicy(bfqd, bfqd.root_group)
        return bfqd.root_group
    data = at.devices.get(bfqd.q.dev)
    if data is not None:
        assert isinstance(data, GroupPolicy)
        return data.bfqg
    bfqg = BfqGroup(at, find_group(bfqd, at.parent), 0)
    dev_weight = at.dev_weights.get(bfqd.q.dev, 0)
    bfqg.dev_weight = dev_weight
    weight: i64 = dev_weight if dev_weight else at.weight
    bfqg.weight = weight
    bfqg.orig_weight = weight
    bfqg.new_weight = weight
    at.devices[bfqd.q.dev] = GroupPolicy(bfqd, bfqg)
    return bfqg


def update_cgroup(bfqd: BfqData, bic: BfqIoCq, cgroup: Cgroup) -> BfqGroup:
    """Return the group for a process's I/O of a cgroup; a process that has moved takes its queues along.

    Kernel: bfq_bic_update_cgroup() and __bfq_bic_change_cgroup(), block/bfq-cgroup.c, v6.12.
    """
    bfqg = bic.bfqg
    if bic.cgroup is cgroup and bfqg is not None and bfqg.is_online:
        return bfqg
    bfqg = find_group(bfqd, cgroup)
    bic.cgroup = cgroup
    if bic.bfqg is bfqg:
        return bfqg
    bic.bfqg = bfqg
    own_async = bic.async_bfqq
    if own_async is not None and own_async.sched_data is not bfqg.children:
        bic.async_bfqq = None
        release_process_ref(bfqd, own_async)
    sync = bic.sync_bfqq
    if sync is not None:
        move_sync(bfqd, bic, sync, bfqg)
    return bfqg


def move_sync(bfqd: BfqData, bic: BfqIoCq, sync: BfqQueue, bfqg: BfqGroup) -> None:
    """Move a process's own queue to its new group; of a shared queue there, only the process leaves.

    Kernel: bfq_sync_bfqq_move(), block/bfq-cgroup.c, v6.12.
    """
    if sync.new_bfqq is None and not sync.is_coop:
        move_queue(bfqd, sync, bfqg)
        return
    bfqq: BfqQueue | None = sync
    while bfqq is not None and bfqq.sched_data is bfqg.children:
        bfqq = bfqq.new_bfqq
    if bfqq is not None:
        put_cooperator(bfqd, sync)
        bic.sync_bfqq = None
        release_process_ref(bfqd, sync)


def move_queue(bfqd: BfqData, bfqq: BfqQueue, bfqg: BfqGroup) -> None:
    """Move a queue with its requests to another group.

    Kernel: bfq_bfqq_move(), block/bfq-cgroup.c, v6.12.
    Differs: allocated requests are counted in the new group from now on; the kernel leaves the counts behind.
    """
    old = group_of(bfqd, bfqq)
    if old is bfqg:
        return
    bfqq.stable_refs += 1
    if bfqq is bfqd.in_service_queue:
        expire(bfqd, bfqq, False, PREEMPTED)
    was_pending = bfqq.in_groups_with_pending_reqs
    if was_pending:
        pending_del(bfqd, bfqq)
    if bfqq.is_busy:
        deactivate(bfqd, bfqq, False, False)
    elif bfqq.on_st_or_in_serv:
        put_idle_entity(bfqd, bfqq.service_tree(), bfqq)
    pos_tree_remove(bfqd, bfqq)
    if old.last_bfqq_created is bfqq:
        old.last_bfqq_created = None
    count_below(bfqq.parent, -bfqq.allocated)
    bfqq.parent = bfqg.entity_or_none()
    bfqq.sched_data = bfqg.children
    bfqq.group_path = bfqg.cgroup.path
    count_below(bfqq.parent, bfqq.allocated)
    if was_pending:
        pending_add(bfqd, bfqq)
    log = bfqd.log
    if log is not None:
        log.moved(bfqd, bfqq, old.cgroup.path)
    if bfqq.is_busy:
        if not bfqd.nonrot_with_queueing:
            pos_tree_update(bfqd, bfqq)
        activate_queue(bfqd, bfqq)
    bfqq.stable_refs -= 1
    if bfqd.in_service_queue is None and bfqd.tot_rq_in_driver == 0:
        bfqd.schedule_dispatch()
    put_queue(bfqd, bfqq)


def count_below(entity: Entity | None, by: i64) -> None:
    """Change the count of allocated requests of a group and all above it."""
    while entity is not None:
        entity.allocated += by
        entity = entity.parent


def group_offline(bfqd: BfqData, bfqg: BfqGroup) -> None:
    """Move every queue of a group that goes away to the root, and take the group out of the schedule.

    Kernel: bfq_pd_offline(), block/bfq-cgroup.c, v6.12.
    """
    for io_class in range(NR_CLASSES):
        leaf = some_leaf(bfqg.children, io_class)
        while leaf is not None:
            move_queue(bfqd, leaf, bfqd.root_group)
            leaf = some_leaf(bfqg.children, io_class)
    for io_class in range(NR_CLASSES):
        st = bfqg.children.tree_of(io_class)
        first = st.idle.head
        while first is not None:
            put_idle_entity(bfqd, st, first)
            first = st.idle.head
    deactivate_entity(bfqd, bfqg, False)
    for at in range(ASYNC_QUEUES):
        shared = bfqg.async_queues[at]
        if shared is not None:
            bfqg.async_queues[at] = None
            move_queue(bfqd, shared, bfqd.root_group)
            release_process_ref(bfqd, shared)
    bfqg.is_online = False


def some_leaf(sd: SchedData, io_class: i64) -> BfqQueue | None:
    """Return a queue below a container that is active or in service, in trees of one class; None when there is none."""
    entity = sd.tree_of(io_class).active.head
    if entity is None:
        entity = sd.in_service_entity
        if entity is None or entity.io_class != io_class:
            return None
    while True:
        children = entity.my_sched_data
        if children is None:
            assert isinstance(entity, BfqQueue)
            return entity
        below: Entity | None = None
        for kind in range(NR_CLASSES):
            if below is None:
                below = children.tree_of(kind).active.head
        if below is None:
            below = children.in_service_entity
        if below is None:
            return None
        entity = below
