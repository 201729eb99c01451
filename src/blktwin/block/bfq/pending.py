"""Which queues and groups have something pending, and whether that makes the scenario asymmetric: the seed's subject.

The weights tree counts the weights of queues with requests, queued or in flight, that are not raised. Beside it stands
num_groups_with_pending_reqs, whose meaning is Rules.bfq_groups.
Kernel: bfq_weights_tree_add(), bfq_weights_tree_remove(), block/bfq-iosched.c;
bfq_add_bfqq_in_groups_with_pending_reqs(), block/bfq-wf2q.c, v6.12; the former counts: v6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bfq.entity import CLASS_BE, CLASS_IDLE, CLASS_RT
from blktwin.block.bfq.group import BfqGroup
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED, BFQ_GROUPS_PENDING, BFQ_GROUPS_SERIES

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.entity import Entity
    from blktwin.block.bfq.queue import BfqQueue


class WeightCounter:
    """One weight in the weights tree."""

    def __init__(self, weight: i64) -> None:
        self.weight: i64 = weight
        self.nr_queues: i64 = 0


def group_of(bfqd: BfqData, bfqq: BfqQueue) -> BfqGroup:
    """Return the group that a queue belongs to.

    Kernel: bfqq_group(), block/bfq-cgroup.c, v6.12.
    """
    parent = bfqq.parent
    return bfqd.root_group if parent is None else as_group(parent)


def as_group(entity: Entity) -> BfqGroup:
    """Return an entity that is a group as one."""
    assert isinstance(entity, BfqGroup)
    return entity


# -- the weights tree


def weights_add(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Count the weight of bfqq unless it is counted."""
    if bfqq.weight_counter is not None:
        return
    weight = bfqq.weight
    known = bfqd.last_counter
    if known is not None and known.weight == weight and known.nr_queues > 0:
        counter = known
    else:
        counter = counter_of(bfqd, weight)
        bfqd.last_counter = counter
    counter.nr_queues += 1
    bfqq.weight_counter = counter
    if bfqd.groups_rule == BFQ_GROUPS_SERIES:
        group_of(bfqd, bfqq).nr_counted_queues += 1


def counter_of(bfqd: BfqData, weight: i64) -> WeightCounter:
    """Return the counter of a weight, made at its place if need be."""
    weights = bfqd.weights
    at = 0
    for counter in weights:
        if counter.weight == weight:
            return counter
        if counter.weight > weight:
            break
        at += 1
    counter = WeightCounter(weight)
    weights.insert(at, counter)
    return counter


def weights_drop(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Uncount the weight of bfqq if it is counted."""
    counter = bfqq.weight_counter
    if counter is None:
        return
    bfqq.weight_counter = None
    counter.nr_queues -= 1
    if counter.nr_queues == 0:
        bfqd.weights.remove(counter)
    if bfqd.groups_rule == BFQ_GROUPS_SERIES:
        group_of(bfqd, bfqq).nr_counted_queues -= 1


# -- the groups


def group_activated(bfqd: BfqData, entity: Entity) -> None:
    """See a group's entity activated: until 6.1 that counts it.

    Kernel: __bfq_activate_entity(), block/bfq-wf2q.c, v6.1.
    """
    if bfqd.groups_rule == BFQ_GROUPS_ACTIVATED and not entity.in_groups_with_pending_reqs:
        count_group(bfqd, entity)


def queue_activated(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a queue activated: in the series of March 2022 that counts its group, the root too.

    Kernel: bfq_activate_bfqq(), block/bfq-wf2q.c, v5.17 with the series of March 2022.
    """
    if bfqd.groups_rule == BFQ_GROUPS_SERIES:
        bfqg = group_of(bfqd, bfqq)
        if not bfqg.in_groups_with_pending_reqs:
            count_group(bfqd, bfqg)


def pending_add(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a queue get its first pending request: since 6.2 that counts it in its group, the root too."""
    if bfqd.groups_rule == BFQ_GROUPS_PENDING and not bfqq.in_groups_with_pending_reqs:
        bfqq.in_groups_with_pending_reqs = True
        bfqg = group_of(bfqd, bfqq)
        if bfqg.nr_queues_with_pending_reqs == 0:
            count_group(bfqd, bfqg)
        bfqg.nr_queues_with_pending_reqs += 1


def pending_del(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a queue's last pending request complete."""
    if bfqq.in_groups_with_pending_reqs:
        bfqq.in_groups_with_pending_reqs = False
        bfqg = group_of(bfqd, bfqq)
        bfqg.nr_queues_with_pending_reqs -= 1
        if bfqg.nr_queues_with_pending_reqs == 0:
            uncount_group(bfqd, bfqg)


def no_longer_pending(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a queue that has no request any more, neither queued nor in flight.

    Kernel: bfq_del_bfqq_in_groups_with_pending_reqs(), block/bfq-wf2q.c, v6.12; bfq_weights_tree_remove(), v6.1.
    """
    if bfqd.groups_rule == BFQ_GROUPS_ACTIVATED:
        entity = bfqq.parent
        while entity is not None:
            sd = entity.my_sched_data
            assert sd is not None
            if sd.next_in_service is not None or sd.in_service_entity is not None:
                break
            if entity.in_groups_with_pending_reqs:
                uncount_group(bfqd, entity)
            entity = entity.parent
    else:
        pending_del(bfqd, bfqq)
    weights_drop(bfqd, bfqq)
    if bfqd.groups_rule == BFQ_GROUPS_SERIES:
        bfqg = group_of(bfqd, bfqq)
        if bfqg.nr_counted_queues == 0 and bfqg.in_groups_with_pending_reqs:
            uncount_group(bfqd, bfqg)


def count_group(bfqd: BfqData, entity: Entity) -> None:
    """Count a group."""
    entity.in_groups_with_pending_reqs = True
    bfqd.num_groups_with_pending_reqs += 1
    log = bfqd.log
    if log is not None:
        log.groups(bfqd, entity.path())


def uncount_group(bfqd: BfqData, entity: Entity) -> None:
    """Uncount a group."""
    entity.in_groups_with_pending_reqs = False
    bfqd.num_groups_with_pending_reqs -= 1
    log = bfqd.log
    if log is not None:
        log.groups(bfqd, entity.path())


# -- the question


def weights_vary(bfqd: BfqData, bfqq: BfqQueue | None) -> bool:
    """Say whether pending queues have several weights, and bfqq's is not the smallest."""
    weights = bfqd.weights
    if len(weights) < 2:
        return False
    return bfqq is None or bfqq.weight_counter is None or bfqq.weight_counter is not weights[0]


def classes_vary(bfqd: BfqData) -> bool:
    """Say whether busy queues are of several I/O classes."""
    busy = bfqd.busy_queues
    if busy[CLASS_BE] > 0:
        return busy[CLASS_RT] > 0 or busy[CLASS_IDLE] > 0
    return busy[CLASS_RT] > 0 and busy[CLASS_IDLE] > 0


def asymmetric_scenario(bfqd: BfqData, bfqq: BfqQueue | None) -> bool:
    """Say whether queues must be served unequally, so that the device must idle to keep their shares.

    Kernel: bfq_asymmetric_scenario(), block/bfq-iosched.c, v6.12.
    """
    if bfqd.num_groups_with_pending_reqs > bfqd.group_threshold:
        return True
    return classes_vary(bfqd) or weights_vary(bfqd, bfqq)
