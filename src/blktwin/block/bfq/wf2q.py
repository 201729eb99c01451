"""B-WF2Q+: activation, requeueing and deactivation of entities up the hierarchy, and the choice of the next one.

The virtual time of a tree moves with service, jumps when nothing would be eligible, and may step back when only idle
entities are left.
Kernel: block/bfq-wf2q.c, v6.12.
Differs: the choice is exact; the kernel's descent may return an eligible entity whose finish is not the least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.entity import (
    ACTIVE,
    CLASS_IDLE,
    IDLE,
    NO_TREE,
    NR_CLASSES,
    Entity,
    SchedData,
    ServiceTree,
    delta,
)
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.pending import group_activated, weights_add, weights_drop
from blktwin.block.bfq.queue import BfqQueue, ioprio_of_weight
from blktwin.block.cgroup import WEIGHT_MAX, WEIGHT_MIN

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData

CLASS_RT_FIRST: Final = 0


def as_queue(entity: Entity) -> BfqQueue:
    """Return an entity that is a queue as one."""
    assert isinstance(entity, BfqQueue)
    return entity


# -- trees


def active_insert(bfqd: BfqData, st: ServiceTree, entity: Entity) -> None:
    """Put entity into the active tree; a queue becomes the first candidate for injection.

    Kernel: bfq_active_insert(), block/bfq-wf2q.c, v6.12.
    """
    st.active.insert(entity)
    entity.tree = ACTIVE
    entity.sched_data.active_entities += 1
    if entity.is_queue:
        bfqq = as_queue(entity)
        head = bfqd.active_head
        if head is not None:
            bfqq.active_next = head
            head.active_prev = bfqq
        bfqd.active_head = bfqq


def active_extract(bfqd: BfqData, st: ServiceTree, entity: Entity) -> None:
    """Take entity out of the active tree.

    Kernel: bfq_active_extract(), block/bfq-wf2q.c, v6.12.
    """
    st.active.remove(entity)
    entity.tree = NO_TREE
    entity.sched_data.active_entities -= 1
    if entity.is_queue:
        bfqq = as_queue(entity)
        before = bfqq.active_prev
        behind = bfqq.active_next
        if before is None:
            bfqd.active_head = behind
        else:
            before.active_next = behind
            bfqq.active_prev = None
        if behind is not None:
            behind.active_prev = before
            bfqq.active_next = None


def idle_extract(st: ServiceTree, entity: Entity) -> None:
    """Take entity out of the idle tree."""
    st.idle.remove(entity)
    entity.tree = NO_TREE


def forget_entity(bfqd: BfqData, st: ServiceTree, entity: Entity) -> None:
    """Let entity leave its tree's weight sum; a queue may end with that.

    Kernel: bfq_forget_entity(), block/bfq-wf2q.c, v6.12.
    """
    entity.on_st_or_in_serv = False
    st.wsum -= entity.weight
    if entity.is_queue and entity.sched_data.in_service_entity is not entity:
        put_queue(bfqd, as_queue(entity))


def put_idle_entity(bfqd: BfqData, st: ServiceTree, entity: Entity) -> None:
    """Drop an entity from the idle tree.

    Kernel: bfq_put_idle_entity(), block/bfq-wf2q.c, v6.12.
    """
    idle_extract(st, entity)
    forget_entity(bfqd, st, entity)


def forget_idle(bfqd: BfqData, st: ServiceTree) -> None:
    """Drop the first idle entity if it is behind the virtual time; with nothing active the time may go back.

    Kernel: bfq_forget_idle(), block/bfq-wf2q.c, v6.12.
    """
    idle = st.idle
    first = idle.head
    if first is None:
        return
    if st.active.head is None:
        last = idle.tail
        if last is not None and last.finish <= st.vtime:
            st.vtime = last.finish
    if first.finish <= st.vtime:
        put_idle_entity(bfqd, st, first)


# -- weights


def update_weight_prio(bfqd: BfqData, old_st: ServiceTree, entity: Entity, may_change_class: bool) -> ServiceTree:
    """Take over a pending change of weight or class, and return the tree that entity belongs to now.

    Kernel: __bfq_entity_update_weight_prio(), block/bfq-wf2q.c, v6.12.
    """
    if not entity.prio_changed:
        return old_st
    bfqq = as_queue(entity) if entity.is_queue else None
    old_st.wsum -= entity.weight
    if entity.new_weight != entity.orig_weight:
        if entity.new_weight < WEIGHT_MIN:
            entity.new_weight = WEIGHT_MIN
        elif entity.new_weight > WEIGHT_MAX:
            entity.new_weight = WEIGHT_MAX
        entity.orig_weight = entity.new_weight
        if bfqq is not None:
            bfqq.ioprio = ioprio_of_weight(entity.orig_weight, bfqd.new_wakers)
    weight = entity.orig_weight
    if bfqq is None:
        entity.prio_changed = False
    else:
        if may_change_class and bfqq.io_class != bfqq.new_io_class:
            change_class(bfqd, bfqq)
        if bfqq.io_class == bfqq.new_io_class:
            entity.prio_changed = False
        weight *= bfqq.wr_coeff
    st = entity.service_tree()
    is_changed = entity.weight != weight
    if is_changed and bfqq is not None:
        was_counted = bfqq.weight_counter is not None
        weights_drop(bfqd, bfqq)
        entity.weight = weight
        if bfqq.wr_coeff == 1 and (was_counted or bfqq.is_busy or bfqq.dispatched > 0):
            weights_add(bfqd, bfqq)
    entity.weight = weight
    st.wsum += weight
    if st is not old_st:
        entity.start = st.vtime
    return st


def change_class(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Take over a new I/O class, in the counts of busy queues too."""
    if bfqq.is_busy:
        bfqd.busy_queues[bfqq.io_class] -= 1
        bfqd.busy_queues[bfqq.new_io_class] += 1
    bfqq.io_class = bfqq.new_io_class


# -- activation, requeueing, deactivation


def activate_entity(bfqd: BfqData, entity: Entity, is_recovering: bool) -> None:
    """Activate an entity that is neither active nor in service; is_recovering: it comes back to the rest of its budget.

    Kernel: __bfq_activate_entity(), block/bfq-wf2q.c, v6.12.
    """
    st = entity.service_tree()
    vtime = st.vtime
    is_backshifted = False
    if is_recovering and vtime > entity.finish:
        is_backshifted = True
        vtime = entity.finish
    if entity.tree == IDLE:
        idle_extract(st, entity)
        entity.start = vtime if vtime > entity.finish else entity.finish
    else:
        entity.start = vtime
        st.wsum += entity.weight
        entity.on_st_or_in_serv = True
    if not entity.is_queue:
        group_activated(bfqd, entity)
    enqueue(bfqd, entity, st, is_backshifted)


def enqueue(bfqd: BfqData, entity: Entity, st: ServiceTree, is_backshifted: bool) -> None:
    """Set the finish for the assigned budget and put entity into the active tree.

    Kernel: bfq_update_fin_time_enqueue(), block/bfq-wf2q.c, v6.12.
    """
    if entity.prio_changed:
        st = update_weight_prio(bfqd, st, entity, True)
    entity.finish = entity.start + delta(entity.budget, entity.weight)
    if is_backshifted and st.vtime > entity.finish:
        # It finds itself late by what it did not use, but a raised queue only by its share of that.
        shift = st.vtime - entity.finish
        if entity.is_queue:
            shift = shift // as_queue(entity).wr_coeff
        entity.start += shift
        entity.finish += shift
    active_insert(bfqd, st, entity)


def requeue_entity(bfqd: BfqData, entity: Entity) -> None:
    """Put an entity back that is in service, or reposition an active one.

    Kernel: __bfq_requeue_entity(), block/bfq-wf2q.c, v6.12.
    """
    st = entity.service_tree()
    if entity.sched_data.in_service_entity is entity:
        entity.finish = entity.start + delta(entity.service, entity.weight)
        entity.start = entity.finish
        if entity.tree == ACTIVE:
            active_extract(bfqd, st, entity)
    else:
        active_extract(bfqd, st, entity)
    enqueue(bfqd, entity, st, False)


def activate_requeue(bfqd: BfqData, bfqq: BfqQueue, is_recovering: bool, is_requeue: bool, is_expiration: bool) -> None:
    """Activate or requeue a queue and, as far as it matters to them, its ancestors.

    Kernel: bfq_activate_requeue_entity(), block/bfq-wf2q.c, v6.12.
    """
    if not activate_or_requeue(bfqd, bfqq, is_recovering, is_expiration) and not is_requeue:
        return
    above = bfqq.parent
    while above is not None:
        if not activate_or_requeue(bfqd, above, is_recovering, is_expiration) and not is_requeue:
            return
        above = above.parent


def activate_or_requeue(bfqd: BfqData, entity: Entity, is_recovering: bool, is_expiration: bool) -> bool:
    """Do the same for one entity; True: its parent may now stand elsewhere.

    Kernel: __bfq_activate_requeue_entity(), block/bfq-wf2q.c, v6.12.
    """
    sd = entity.sched_data
    if entity.tree == ACTIVE or sd.in_service_entity is entity:
        requeue_entity(bfqd, entity)
    else:
        activate_entity(bfqd, entity, is_recovering)
    return update_next_in_service(bfqd, sd, entity, is_expiration)


def deactivate_entity(bfqd: BfqData, entity: Entity, to_idle_tree: bool) -> bool:
    """Take one entity out of the schedule; False if it was not in it.

    Kernel: __bfq_deactivate_entity(), block/bfq-wf2q.c, v6.12.
    """
    if not entity.on_st_or_in_serv:
        return False
    st = entity.service_tree()
    sd = entity.sched_data
    is_in_service = sd.in_service_entity is entity
    entity.finish = entity.start + delta(entity.service, entity.weight)
    if not is_in_service:
        entity.service = 0
    if entity.tree == ACTIVE:
        active_extract(bfqd, st, entity)
    elif not is_in_service and entity.tree == IDLE:
        idle_extract(st, entity)
    if not to_idle_tree or entity.finish <= st.vtime:
        # Still in service while it is forgotten: whoever expires it puts the queue.
        forget_entity(bfqd, st, entity)
    else:
        st.idle.insert(entity)
        entity.tree = IDLE
    if is_in_service:
        sd.in_service_entity = None
    return True


def deactivate(bfqd: BfqData, bfqq: BfqQueue, to_idle_tree: bool, is_expiration: bool) -> None:
    """Take a queue out of the schedule, and every ancestor that has nothing left.

    Kernel: bfq_deactivate_entity(), block/bfq-wf2q.c, v6.12.
    """
    entity: Entity | None = bfqq
    owner: Entity | None = None
    while entity is not None:
        sd = entity.sched_data
        owner = entity.parent
        if not deactivate_entity(bfqd, entity, to_idle_tree):
            return
        if sd.next_in_service is entity:
            update_next_in_service(bfqd, sd, None, is_expiration)
        if sd.next_in_service is not None or sd.in_service_entity is not None:
            break
        to_idle_tree = True
        entity = owner
    entity = owner
    while entity is not None:
        requeue_entity(bfqd, entity)
        if not update_next_in_service(bfqd, entity.sched_data, entity, is_expiration) and not is_expiration:
            break
        entity = entity.parent


# -- the choice


def update_next_in_service(bfqd: BfqData, sd: SchedData, new: Entity | None, is_expiration: bool) -> bool:
    """Choose who is next in a container, given that `new` has just come in; True: the owner may now stand elsewhere.

    Kernel: bfq_update_next_in_service(), block/bfq-wf2q.c, v6.12.
    """
    before = sd.next_in_service
    following = before
    is_direct = False
    if new is not None and new is not before:
        if before is None:
            is_direct = True
        elif new.io_class == before.io_class:
            vtime = sd.tree_of(new.io_class).vtime
            is_direct = new.start <= vtime and before.finish > new.finish
        if is_direct:
            following = new
    if not is_direct:
        following = lookup_next(bfqd, sd, is_expiration)
    may_change = False
    if following is not None:
        may_change = before is None
        owner = sd.owner
        if owner is not None:
            if owner.budget > following.budget:
                may_change = True
            owner.budget = following.budget
    sd.next_in_service = following
    return may_change


def lookup_next(bfqd: BfqData, sd: SchedData, is_expiration: bool) -> Entity | None:
    """Return the eligible entity of the best class that finishes first; the idle class has its turn now and then.

    Kernel: bfq_lookup_next_entity(), block/bfq-wf2q.c, v6.12.
    """
    first: i64 = CLASS_RT_FIRST
    now_jif = bfqd.jif()
    if sd.idle_class_last_service + bfqd.idle_class_timeout_jif < now_jif:
        if sd.idle.active.head is not None:
            first = CLASS_IDLE
        sd.idle_class_last_service = now_jif
    may_jump = sd.in_service_entity is None or is_expiration
    for io_class in range(first, NR_CLASSES):
        st = sd.tree_of(io_class)
        active = st.active
        head = active.head
        if head is None:
            continue
        vtime = st.vtime
        found = head if head.start <= vtime else active.first_eligible(vtime)
        if found is None:
            vtime = active.min_start()
            found = active.first_eligible(vtime)
        if may_jump and vtime > st.vtime:
            st.vtime = vtime
            forget_idle(bfqd, st)
        return found
    return None


def get_next_queue(bfqd: BfqData) -> BfqQueue | None:
    """Descend to the next queue to serve and put the path in service.

    Kernel: bfq_get_next_queue(), block/bfq-wf2q.c, v6.12.
    """
    if bfqd.tot_busy_queues == 0:
        return None
    sd: SchedData | None = bfqd.root_group.children
    chosen: Entity | None = None
    while sd is not None:
        chosen = sd.next_in_service
        assert chosen is not None, "queues are busy, but none is next"
        sd.in_service_entity = chosen
        children = chosen.my_sched_data
        # A group with more than one active child may well be next again.
        if children is None or children.active_entities == 1:
            active_extract(bfqd, chosen.service_tree(), chosen)
        sd = children
    assert chosen is not None
    above: Entity | None = chosen
    while above is not None and update_next_in_service(bfqd, above.sched_data, None, False):
        above = above.parent
    return as_queue(chosen)


def may_preempt(bfqd: BfqData) -> bool:
    """Say whether another entity than the one in service is next at the top.

    Kernel: next_queue_may_preempt(), block/bfq-wf2q.c, v6.12.
    """
    sd = bfqd.root_group.children
    return sd.next_in_service is not sd.in_service_entity


def served(bfqd: BfqData, bfqq: BfqQueue, sectors: i64) -> None:
    """Charge service to a queue and its ancestors, and move their trees' virtual times.

    Kernel: bfq_bfqq_served(), block/bfq-wf2q.c, v6.12.
    """
    if bfqq.service_from_backlogged == 0:
        bfqq.first_io_jif = bfqd.jif()
    if bfqq.wr_coeff > 1:
        bfqq.service_from_wr += sectors
    bfqq.service_from_backlogged += sectors
    serve(bfqd, bfqq, sectors)
    above = bfqq.parent
    while above is not None:
        serve(bfqd, above, sectors)
        above = above.parent


def serve(bfqd: BfqData, entity: Entity, sectors: i64) -> None:
    """Charge service to one entity."""
    st = entity.service_tree()
    entity.service += sectors
    st.vtime += delta(sectors, st.wsum)
    if st.idle.head is not None:
        forget_idle(bfqd, st)
