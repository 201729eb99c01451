"""Every structural invariant of BFQ (spec §8.1), checked between events: audit(bfqd) raises what it finds broken.

Numbers in the complaints are those of the specification: 1 trees, 2 path in service, 3 active groups, 4 budgets of
groups, 5 busy queues, 6 requests, 7 weights, 8 pending groups, 9 raised queues and tags, 10 order, 12 the idle timer.
R: references of processes, requests, wakers and lists, so that no queue is lost or freed too soon.
"""

from __future__ import annotations

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.cgroups import GroupPolicy
from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.entity import ACTIVE, IDLE, NO_TREE, Entity, EntityList, SchedData, delta
from blktwin.block.bfq.group import BfqGroup
from blktwin.block.bfq.pending import group_of
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bio import REQ_META
from blktwin.block.cgroup import Cgroup
from blktwin.block.iocontext import Icq
from blktwin.block.machine import Task
from blktwin.block.request import MQ_RQ_IDLE, Request
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED, BFQ_GROUPS_PENDING, BFQ_GROUPS_SERIES


def groups_of(bfqd: BfqData) -> list[BfqGroup]:
    """Return all groups of a device, those of removed cgroups included, the root first."""
    found = [bfqd.root_group]
    waiting: list[Cgroup] = [bfqd.root_group.cgroup]
    while waiting:
        at = waiting.pop()
        waiting += at.children
        data = at.devices.get(bfqd.q.dev)
        if data is not None:
            assert isinstance(data, GroupPolicy)
            if data.bfqg is not bfqd.root_group:
                found.append(data.bfqg)
    return found


class History:
    """What a world remembers for the audit, because BFQ itself does not tell it any more."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.bics: list[BfqIoCq] = []
        """Process contexts, those of processes that have exited included."""
        self.bounced: list[Request] = []
        """Requests that came back from the driver and are to be started again."""
        self.bypassing: list[BfqQueue] = []
        """Queues of which a request that came back went past the queues: the kernel does not count these as pending."""
        self.has_moved = False
        """Queues have moved between groups, which the count of the series does not survive, nor that before 6.2."""
        self.has_raised = False
        """Queues were raised: the series does not see these, and forgets their group too soon (spec §5.4-5a)."""

    def update(self, bfqd: BfqData) -> None:
        """Look for new contexts, and forget queues that are at rest again."""
        for task in self.tasks:
            icq = task.io_context.head
            while icq is not None:
                self.meet(bfqd, icq)
                icq = icq.next
        for hctx in bfqd.q.hctxs:
            for rq in hctx.requests:
                if rq.elv is not None and rq.icq is not None:
                    self.meet(bfqd, rq.icq)
        for rq in self.bounced:
            if isinstance(rq.elv, BfqQueue):
                self.bypassing.append(rq.elv)
        self.bypassing = [one for one in self.bypassing if one.is_busy or one.nr_requests > 0]

    def meet(self, bfqd: BfqData, icq: Icq) -> None:
        """Remember a context of this device."""
        if icq.elevator is bfqd.q.elevator and not any(one is icq for one in self.bics):
            assert isinstance(icq, BfqIoCq)
            self.bics.append(icq)

    def is_bypassing(self, bfqq: BfqQueue) -> bool:
        """Say whether a request of bfqq went past the queues."""
        return any(one is bfqq for one in self.bypassing)


def audit(bfqd: BfqData, history: History) -> None:
    """Check everything."""
    groups = groups_of(bfqd)
    queues = bfqd.queues
    history.update(bfqd)
    counted = [one for one in queues if not history.is_bypassing(one)]
    audit_trees(bfqd, groups, queues)
    audit_service(bfqd, groups)
    audit_busy(bfqd, queues)
    audit_requests(bfqd, groups, queues)
    audit_weights(bfqd, queues, counted)
    if bfqd.groups_rule == BFQ_GROUPS_PENDING:
        audit_pending(groups, queues, counted, bfqd)
    elif not history.has_moved:
        audit_activated(bfqd, groups, queues, history.has_raised)
    audit_idling(bfqd, queues)
    audit_lists(bfqd, groups, queues)
    audit_processes(bfqd, groups, queues, history.bics)
    audit_contexts(bfqd, history.bics)


# -- 1, 10: the trees


def audit_trees(bfqd: BfqData, groups: list[BfqGroup], queues: list[BfqQueue]) -> None:
    """Each container's trees hold what says so, in order, and weigh what their entities weigh."""
    entities: dict[int, list[Entity]] = {}
    for entity in [*queues, *groups[1:]]:
        entities.setdefault(id(entity.sched_data), []).append(entity)
        assert isinstance(entity, BfqQueue) or entity.io_class == 1, f"1: {entity.path()} is a group and not BE"
    for group in groups:
        sd = group.children
        mine = entities.pop(id(sd), [])
        nr_active = 0
        for io_class in range(3):
            st = sd.tree_of(io_class)
            members = [one for one in mine if one.io_class == io_class]
            wsum = sum(int(one.weight) for one in members if one.on_st_or_in_serv)
            assert st.wsum == wsum, f"1: {group.path()} class {io_class}: wsum {st.wsum}, the weights {wsum}"
            active = in_order(st.active, group.path())
            idle = in_order(st.idle, group.path())
            assert {id(one) for one in active} == {id(one) for one in members if one.tree == ACTIVE}, "1: active tree"
            assert {id(one) for one in idle} == {id(one) for one in members if one.tree == IDLE}, "1: idle tree"
            nr_active += len(active)
        assert sd.active_entities == nr_active, f"1: {group.path()}: {sd.active_entities} active, {nr_active} in trees"
        for one in mine:
            audit_entity(one, sd)
    assert not entities, "1: entities stand in a container that is nobody's"


def in_order(tree: EntityList, name: str) -> list[Entity]:
    """List a tree, and check its links and the order by finish."""
    out: list[Entity] = []
    before: Entity | None = None
    at = tree.head
    while at is not None:
        assert at.prev is before, f"10: {name}: a broken link"
        assert before is None or before.finish <= at.finish, f"10: {name}: {before.finish} before {at.finish}"
        out.append(at)
        before = at
        at = at.next
    assert tree.tail is before, f"10: {name}: a wrong tail"
    return out


def audit_entity(one: Entity, sd: SchedData) -> None:
    """An entity counts where it stands, and its times fit its budget."""
    in_service = sd.in_service_entity is one
    assert one.on_st_or_in_serv == (one.tree != NO_TREE or in_service), f"1: {one.path()} counts, and is nowhere"
    assert not (in_service and one.tree == IDLE), f"1: {one.path()} is in service and idle"
    assert one.service >= 0, f"6: {one.path()}: a service of {one.service}"
    assert one.weight >= 1, f"1: {one.path()}: a weight of {one.weight}"
    if one.tree == ACTIVE:
        assert one.start <= one.finish, f"10: {one.path()}: {one.start}..{one.finish}"
        if isinstance(one, BfqQueue):
            span = delta(one.budget, one.weight)
            assert one.finish - one.start == span, f"10: {one.path()}: {one.finish - one.start} for its budget, {span}"


# -- 2, 3, 4: who is in service, and which groups are active


def audit_service(bfqd: BfqData, groups: list[BfqGroup]) -> None:
    """One path leads to the queue in service; a group is active while it has anything to serve."""
    path: list[Entity] = []
    entity = bfqd.root_group.children.in_service_entity
    while entity is not None:
        path.append(entity)
        entity = None if entity.my_sched_data is None else entity.my_sched_data.in_service_entity
    end = path[-1] if path else None
    assert end is bfqd.in_service_queue, "2: the path does not end in the queue in service"
    on_path = {id(bfqd.root_group)} | {id(one) for one in path}
    for group in groups:
        sd = group.children
        assert sd.in_service_entity is None or id(group) in on_path, f"2: {group.path()} serves, beside the path"
        following = sd.next_in_service
        if following is not None:
            assert following.sched_data is sd, f"3: what is next in {group.path()} stands elsewhere"
            assert following.on_st_or_in_serv, f"3: {following.path()} is next and not there"
        if group.is_root():
            continue
        is_active = group.tree == ACTIVE or group.sched_data.in_service_entity is group
        has_any = following is not None or sd.in_service_entity is not None
        assert is_active == has_any, f"3: {group.path()}: active {is_active}, has any {has_any}"
        if following is not None:
            # A group's budget that grows is not told to the levels above: they follow at their own next choice.
            assert group.budget <= following.budget, f"4: {group.path()}: {group.budget}, next {following.budget}"
            is_exact = group.budget == following.budget or not following.is_queue
            assert is_exact, f"4: {group.path()}: {group.budget}, next {following.budget}"


# -- 5, 9: busy queues


def audit_busy(bfqd: BfqData, queues: list[BfqQueue]) -> None:
    """Busy queues are those to be served, and are counted by class, and as raised."""
    busy = [0, 0, 0]
    raised = 0
    for bfqq in queues:
        is_served = bfqq is bfqd.in_service_queue
        assert bfqq.is_busy == (bfqq.tree == ACTIVE or is_served), f"5: {bfqq.path()}: busy {bfqq.is_busy}"
        assert bfqq.is_busy or bfqq.nr_queued == 0, f"5: {bfqq.path()} has requests and is not busy"
        if bfqq.is_busy:
            busy[int(bfqq.io_class)] += 1
            raised += bfqq.wr_coeff > 1
    assert [int(one) for one in bfqd.busy_queues] == busy, f"5: busy {list(bfqd.busy_queues)}, found {busy}"
    assert bfqd.tot_busy_queues == sum(busy), f"5: {bfqd.tot_busy_queues} busy, found {sum(busy)}"
    assert bfqd.wr_busy_queues == raised, f"9: {bfqd.wr_busy_queues} raised and busy, found {raised}"


# -- 6, 9: requests


def audit_requests(bfqd: BfqData, groups: list[BfqGroup], queues: list[BfqQueue]) -> None:
    """Every request stands in its queue once, or in the driver, and all are counted at every level."""
    requests = [rq for hctx in bfqd.q.hctxs for rq in hctx.requests if rq.elv is not None]
    owned: dict[int, int] = {}
    for rq in requests:
        owned[id(rq.elv)] = owned.get(id(rq.elv), 0) + 1
    nr_queued = nr_dispatched = 0
    for bfqq in queues:
        audit_queued(bfqq)
        nr_queued += int(bfqq.nr_queued)
        nr_dispatched += int(bfqq.dispatched)
        mine = owned.pop(id(bfqq), 0)
        assert bfqq.nr_requests == mine, f"6: {bfqq.path()} counts {bfqq.nr_requests} requests, has {mine}"
        assert bfqq.allocated == mine, f"9: {bfqq.path()} has allocated {bfqq.allocated}, has {mine}"
        assert 0 <= bfqq.dispatched <= mine - bfqq.nr_queued, f"6: {bfqq.path()}: {bfqq.dispatched} in the driver"
    assert not owned, "6: requests of a queue that is gone"
    assert bfqd.queued == nr_queued, f"6: {bfqd.queued} queued, found {nr_queued}"
    assert bfqd.tot_rq_in_driver == nr_dispatched, f"6: {bfqd.tot_rq_in_driver} in the driver, found {nr_dispatched}"
    waited = bfqd.waited_rq
    assert waited is None or waited.elv is not None, "6: a request is waited for that is gone"
    for group in groups[1:]:
        below = sum(int(one.allocated) for one in queues if one.parent is group)
        below += sum(int(one.allocated) for one in groups if one.parent is group)
        assert group.allocated == below, f"9: {group.path()} has allocated {group.allocated}, below {below}"


def audit_queued(bfqq: BfqQueue) -> None:
    """A queue's order, fifo and counters hold the same requests."""
    requests = bfqq.sort_list.requests
    fifo: list[Request] = []
    at = bfqq.fifo.head
    while at is not None:
        fifo.append(at)
        at = at.fifo_next
    assert bfqq.nr_queued == len(requests) == len(fifo) == bfqq.fifo.count, f"6: {bfqq.path()}: {bfqq.nr_queued} queued"
    assert {id(rq) for rq in requests} == {id(rq) for rq in fifo}, f"6: {bfqq.path()}: another order, another fifo"
    sectors = [int(rq.sector) for rq in requests]
    assert sectors == sorted(sectors), f"6: {bfqq.path()}: {sectors}"
    for rq in requests:
        assert rq.elv is bfqq, f"6: {bfqq.path()}: a request of another queue"
        assert rq.state == MQ_RQ_IDLE, f"6: {bfqq.path()}: a request that is started"
    following = bfqq.next_rq
    assert (following is None) == (not requests), f"6: {bfqq.path()}: next {following} of {len(requests)}"
    assert following is None or any(rq is following for rq in requests), f"6: {bfqq.path()}: next is not queued"
    assert bfqq.nr_queued_sync == sum(rq.is_sync() for rq in requests), f"6: {bfqq.path()}: sync"
    assert bfqq.meta_pending == sum(rq.flags & REQ_META != 0 for rq in requests), f"6: {bfqq.path()}: metadata"
    assert bfqq.nr_seeks == bin(bfqq.seek_history).count("1"), f"6: {bfqq.path()}: seeks"


# -- 7, 8: the seed's subject


def audit_weights(bfqd: BfqData, queues: list[BfqQueue], exact: list[BfqQueue]) -> None:
    """The weights tree is the multiset of the weights of pending queues that are not raised.

    A change of weight or raising that waits for its turn (prio_changed) may leave a queue where it was.
    """
    counted: dict[int, int] = {}
    for bfqq in queues:
        counter = bfqq.weight_counter
        is_pending = bfqq.is_busy or bfqq.dispatched > 0
        if counter is not None:
            counted[id(counter)] = counted.get(id(counter), 0) + 1
            assert is_pending, f"7: {bfqq.path()} weighs, and has nothing pending"
            assert counter.weight == bfqq.weight, f"7: {bfqq.path()} weighs {bfqq.weight}, counts {counter.weight}"
            assert bfqq.wr_coeff == 1 or bfqq.prio_changed, f"7: {bfqq.path()} is raised, and weighs"
        else:
            is_excused = bfqq.wr_coeff > 1 or bfqq.prio_changed or not any(one is bfqq for one in exact)
            assert is_excused or not is_pending, f"7: {bfqq.path()} has something pending, and no weight"
    weights = [int(one.weight) for one in bfqd.weights]
    assert weights == sorted(set(weights)), f"7: the weights are {weights}"
    for counter in bfqd.weights:
        nr = counted.pop(id(counter), 0)
        assert counter.nr_queues == nr > 0, f"7: {counter.nr_queues} queues of weight {counter.weight}, found {nr}"
    assert not counted, "7: a queue has a counter that is not in the tree"


def audit_flags(bfqd: BfqData, groups: list[BfqGroup]) -> None:
    """num_groups_with_pending_reqs is how many groups say that they are counted."""
    flagged = sum(group.in_groups_with_pending_reqs for group in groups)
    assert bfqd.num_groups_with_pending_reqs == flagged, f"8: {bfqd.num_groups_with_pending_reqs}, flagged {flagged}"


def audit_pending(groups: list[BfqGroup], queues: list[BfqQueue], exact: list[BfqQueue], bfqd: BfqData) -> None:
    """Since 6.2 those groups count that directly own a queue with requests, queued or in flight (spec §5.3)."""
    audit_flags(bfqd, groups)
    pending: dict[int, int] = {}
    for bfqq in exact:
        is_pending = bfqq.is_busy or bfqq.dispatched > 0
        assert bfqq.in_groups_with_pending_reqs == is_pending, f"8: {bfqq.path()}: pending {is_pending}"
    for bfqq in queues:
        if bfqq.in_groups_with_pending_reqs:
            owner = id(group_of(bfqd, bfqq))
            pending[owner] = pending.get(owner, 0) + 1
    for group in groups:
        nr = pending.get(id(group), 0)
        assert group.nr_queues_with_pending_reqs == nr, f"8: {group.path()}: {group.nr_queues_with_pending_reqs}"
        assert group.in_groups_with_pending_reqs == (nr > 0), f"8: {group.path()} has {nr} pending queues"


def audit_activated(bfqd: BfqData, groups: list[BfqGroup], queues: list[BfqQueue], has_raised: bool) -> None:
    """Until 6.1 active groups count, and some that are not; in the series owners of queues that weigh (§5.2, 5.4)."""
    audit_flags(bfqd, groups)
    if bfqd.groups_rule == BFQ_GROUPS_ACTIVATED:
        assert not bfqd.root_group.in_groups_with_pending_reqs, "8: the root is never counted"
        for group in groups[1:]:
            is_active = group.tree == ACTIVE or group.sched_data.in_service_entity is group
            assert group.in_groups_with_pending_reqs or not is_active, f"8: {group.path()} is active, not counted"
        return
    assert bfqd.groups_rule == BFQ_GROUPS_SERIES
    for group in groups:
        nr = sum(one.weight_counter is not None and group_of(bfqd, one) is group for one in queues)
        assert group.nr_counted_queues == nr, f"8: {group.path()} counts {group.nr_counted_queues}, found {nr}"
        is_counted = group.in_groups_with_pending_reqs or has_raised
        assert is_counted or nr == 0, f"8: {group.path()}: {nr} pending, not counted"


# -- 12: idling


def audit_idling(bfqd: BfqData, queues: list[BfqQueue]) -> None:
    """The timer runs exactly while the queue in service is waited for, and that has nothing but small requests."""
    is_armed = getattr(bfqd.idle_timer.slot, "expires_ns", -1) >= 0
    served = bfqd.in_service_queue
    assert is_armed == (served is not None and served.wait_request), f"12: the timer is armed: {is_armed}"
    for bfqq in queues:
        assert not bfqq.wait_request or bfqq is served, f"12: {bfqq.path()} is waited for, and not in service"
        if bfqq.wait_request:
            assert bfqq.nr_queued_sync <= 1, f"12: {bfqq.path()} is waited for with {bfqq.nr_queued_sync} requests"
            assert bfqq.nr_queued - bfqq.nr_queued_sync <= 1, f"12: {bfqq.path()} is waited for"


# -- R: what refers to a queue


def audit_lists(bfqd: BfqData, groups: list[BfqGroup], queues: list[BfqQueue]) -> None:
    """No list or pointer holds a queue that is gone, and those that must hold one do."""
    active: list[BfqQueue] = []
    at = bfqd.active_head
    while at is not None:
        assert at.active_prev is (active[-1] if active else None), "R: a broken link in the active list"
        active.append(at)
        at = at.active_next
    assert {id(one) for one in active} == {id(one) for one in queues if one.tree == ACTIVE}, "R: the active list"
    for bfqq in queues:
        assert not bfqq.is_freed, f"R: {bfqq.path()} is gone, and listed"
        holders = bfqq.process_refs + bfqq.nr_requests + bfqq.stable_refs
        assert holders or bfqq.on_st_or_in_serv or bfqq.weight_counter, f"R: {bfqq.path()} is held by nobody"
        # Nobody follows the merge of a queue that has no process any more.
        into = bfqq.new_bfqq if bfqq.process_refs else None
        for other in (bfqq.waker, bfqq.tentative_waker, into):
            assert other is None or not other.is_freed, f"R: {bfqq.path()} knows a queue that is gone"
        waker = bfqq.waker
        nr = 0 if waker is None else sum(one is bfqq for one in waker.woken_list)
        assert nr == (waker is not None), f"R: {bfqq.path()} is {nr} times in its waker's list"
        assert all(one.waker is bfqq for one in bfqq.woken_list), f"R: {bfqq.path()} wakes whom it does not know"
        if bfqq.new_bfqq is not None:
            assert bfqq.new_bfqq is not bfqq, f"R: {bfqq.path()} merges into itself"
    last = bfqd.last_completed_rq_bfqq
    assert last is None or not last.is_freed, "R: the last that completed is gone"
    burst = bfqd.burst_list
    assert len({id(one) for one in burst}) == len(burst), "R: twice in the burst"
    assert {id(one) for one in burst} == {id(one) for one in queues if one.in_burst_list}, "R: the burst list"
    for group in groups:
        assert group.last_bfqq_created is None or not group.last_bfqq_created.is_freed, "R: last_bfqq_created is gone"
        if not bfqd.nonrot_with_queueing:
            audit_positions(bfqd, group)


def audit_positions(bfqd: BfqData, group: BfqGroup) -> None:
    """Queues by position are of this group, and sorted by the sector of their next request."""
    sectors = []
    for bfqq in group.pos_queues:
        assert group_of(bfqd, bfqq) is group, f"R: {bfqq.path()} has a place in another group"
        assert bfqq.next_rq is not None, f"R: {bfqq.path()} is empty and has a place"
        sectors.append(int(bfqq.next_rq.sector))
    assert sectors == sorted(set(sectors)), f"R: places at {sectors}"


def audit_processes(bfqd: BfqData, groups: list[BfqGroup], queues: list[BfqQueue], bics: list[BfqIoCq]) -> None:
    """A queue has as many processes as point at it, now or after the merges that are arranged; async slots count."""
    refs: dict[int, int] = {}
    later: dict[int, int] = {}
    for bic in bics:
        for bfqq in (bic.sync_bfqq, bic.async_bfqq):
            at = bfqq
            while at is not None:
                refs[id(at)] = refs.get(id(at), 0) + 1
                at = at.new_bfqq
        if bic.stable_merge_bfqq is not None:
            later[id(bic.stable_merge_bfqq)] = later.get(id(bic.stable_merge_bfqq), 0) + 1
    for group in groups:
        for bfqq in group.async_queues:
            if bfqq is not None:
                assert group_of(bfqd, bfqq) is group, f"R: {bfqq.path()} is an async queue of another group"
                assert not bfqq.is_sync, f"R: {bfqq.path()} is sync, in the place of an async queue"
                refs[id(bfqq)] = refs.get(id(bfqq), 0) + 1
    for bfqq in queues:
        nr = refs.pop(id(bfqq), 0)
        assert bfqq.process_refs == nr, f"R: {bfqq.path()} has {bfqq.process_refs} processes, found {nr}"
        nr = later.pop(id(bfqq), 0)
        assert bfqq.stable_refs == nr, f"R: {bfqq.path()} is remembered {bfqq.stable_refs} times, found {nr}"
    assert refs == later == {}, "R: a process points at a queue that is gone"


def audit_contexts(bfqd: BfqData, bics: list[BfqIoCq]) -> None:
    """Each process knows how many requests it has."""
    counts: dict[int, int] = {}
    for hctx in bfqd.q.hctxs:
        for rq in hctx.requests:
            if rq.elv is not None:
                counts[id(rq.icq)] = counts.get(id(rq.icq), 0) + 1
    for bic in bics:
        assert bic.requests == counts.get(id(bic), 0), f"R: a process has {bic.requests} requests"


def audit_drained(bfqd: BfqData, history: History) -> None:
    """Nothing is left when all has completed."""
    assert bfqd.queued == bfqd.tot_rq_in_driver == 0
    assert bfqd.dispatch.count == 0
    assert all(bfqq.nr_requests == 0 for bfqq in bfqd.queues)
    assert all(group.allocated == 0 for group in groups_of(bfqd))
    if bfqd.tot_busy_queues == 0:
        assert bfqd.weights == [], "7: something weighs, and nothing is pending"
        is_exact = bfqd.groups_rule == BFQ_GROUPS_PENDING or not history.has_moved
        assert bfqd.num_groups_with_pending_reqs == 0 or not is_exact, "8: groups pend, and nothing does"
