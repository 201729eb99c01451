"""B-WF2Q+: virtual times, trees, the choice of the next entity, and weights that change (spec §2)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS

from blktwin.block.bfq.entity import ACTIVE, IDLE, NO_TREE, SERVICE_SHIFT, Entity, EntityList, SchedData, delta
from blktwin.block.bfq.group import BfqGroup
from blktwin.block.bfq.queue import ioprio_of_weight, weight_of_ioprio
from blktwin.block.bfq.wf2q import (
    activate_entity,
    deactivate_entity,
    forget_idle,
    get_next_queue,
    lookup_next,
    may_preempt,
    requeue_entity,
    served,
    update_next_in_service,
)
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack


def units(sectors: int, weight: int = 100) -> int:
    """Return sectors in virtual time."""
    return (sectors << SERVICE_SHIFT) // weight


class Tree:
    """A world whose root has groups that the test schedules by hand: entities without requests."""

    def __init__(self, *weights: int) -> None:
        self.hand = Hand()
        self.bfqd = self.hand.bfqd
        self.sd: SchedData = self.bfqd.root_group.children
        self.st = self.sd.be
        self.groups: list[BfqGroup] = []
        for at, weight in enumerate(weights):
            group = self.hand.group(f"/g{at}")
            group.weight = group.orig_weight = group.new_weight = weight
            group.budget = 1000
            self.groups.append(group)

    def activate(self, at: int, is_recovering: bool = False) -> Entity:
        """Activate one."""
        activate_entity(self.bfqd, self.groups[at], is_recovering)
        return self.groups[at]


@pytest.mark.parametrize(
    ("service", "weight", "expected"), [(1, 1, 1 << 22), (3, 7, 1797558), (16384, 100, 687194767), (0, 40, 0)]
)
def test_delta(service: int, weight: int, expected: int) -> None:
    """(service << 22) / weight, truncated."""
    assert delta(service, weight) == expected


@pytest.mark.parametrize("level", range(8))
def test_weights_of_priorities(level: int) -> None:
    """80 for level 0 down to 10; the way back until 5.11 was 80 - weight."""
    weight = (8 - level) * 10
    assert weight_of_ioprio(level) == weight
    assert ioprio_of_weight(weight, True) == level
    assert ioprio_of_weight(weight, False) == max(0, 80 - weight)


def test_a_list_is_sorted_by_finish() -> None:
    """Equal ones stand in the order of insertion; the first eligible one has the least finish."""
    sd = SchedData(None, 0)
    entities = [Entity(sd, None, False) for _ in range(4)]
    trees = EntityList()
    for entity, start, finish in zip(entities, [5, 0, 9, 1], [20, 30, 10, 20], strict=True):
        entity.start, entity.finish = start, finish
        trees.insert(entity)
    order = []
    at = trees.head
    while at is not None:
        order.append(entities.index(at))
        at = at.next
    assert order == [2, 0, 3, 1]
    assert trees.min_start() == 0
    assert trees.first_eligible(0) is entities[1]
    assert trees.first_eligible(1) is entities[3]
    assert trees.first_eligible(5) is entities[0]
    assert trees.first_eligible(9) is entities[2]
    trees.remove(entities[0])
    trees.remove(entities[1])
    assert (trees.head, trees.tail) == (entities[2], entities[3])
    assert trees.first_eligible(0) is None


def test_activation() -> None:
    """A new entity starts now, and finishes when its budget is served at its weight."""
    tree = Tree(100, 200)
    tree.st.vtime = units(500)
    one, two = tree.activate(0), tree.activate(1)
    assert (one.start, one.finish) == (units(500), units(500) + units(1000, 100))
    assert (two.start, two.finish) == (units(500), units(500) + units(1000, 200))
    assert (tree.st.wsum, tree.sd.active_entities) == (300, 2)
    assert one.on_st_or_in_serv
    assert one.tree == ACTIVE


def test_activation_from_the_idle_tree() -> None:
    """An entity that comes back early starts where it finished, a late one now."""
    tree = Tree(100, 100)
    for at, vtime in enumerate((300, 900)):
        one = tree.groups[at]
        tree.activate(at)
        one.start, one.service = 0, 500
        assert deactivate_entity(tree.bfqd, one, True)
        assert (one.finish, one.tree) == (units(500), IDLE)
        tree.st.vtime = units(vtime)
        tree.activate(at)
        assert one.start == units(max(500, vtime))
        assert tree.st.wsum == 100
        one.service = 0
        deactivate_entity(tree.bfqd, one, False)
        tree.st.vtime = 0
        assert (one.tree, tree.st.wsum) == (NO_TREE, 0)


def test_a_recovering_entity_is_shifted_back() -> None:
    """It starts where it had finished, and is pushed forward only by how late that makes it finish."""
    tree = Tree(100)
    one = tree.groups[0]
    one.finish = units(400)
    tree.st.vtime = units(900)
    tree.activate(0, True)
    assert (one.start, one.finish) == (units(400), units(1400)), "its budget reaches beyond now"
    deactivate_entity(tree.bfqd, one, False)
    one.finish, one.budget = units(400), 100
    tree.activate(0, True)
    assert (one.start, one.finish) == (units(800), units(900)), "shifted until it finishes now"
    deactivate_entity(tree.bfqd, one, False)
    one.finish = units(1200)
    tree.activate(0, True)
    assert one.start == units(900), "nothing to recover"


def test_a_raised_queue_is_shifted_back_by_its_share() -> None:
    """The shift is divided by the coefficient."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 0)
    hand.serve()
    bfqq = hand.queue(task)
    hand.wait(20 * MS)
    assert bfqq.tree == NO_TREE
    st = bfqq.sched_data.be
    bfqq.finish, bfqq.budget, bfqq.wr_coeff = 0, 40, 30
    st.vtime = units(1000, 40)
    activate_entity(hand.bfqd, bfqq, True)
    shift = (units(1000, 40) - units(40, 40)) // 30
    assert (bfqq.start, bfqq.finish) == (shift, shift + units(40, 40))


def test_requeueing() -> None:
    """What is in service goes on from what it was served; what is active keeps its start."""
    tree = Tree(100, 100)
    one, two = tree.activate(0), tree.activate(1)
    tree.sd.in_service_entity = one
    one.service = 300
    requeue_entity(tree.bfqd, one)
    assert (one.start, one.finish) == (units(300), units(1300))
    assert one.service == 300, "not cleared: requeued again in the slot it is charged again"
    requeue_entity(tree.bfqd, one)
    assert one.start == units(600)
    two.budget = 500
    requeue_entity(tree.bfqd, two)
    assert (two.start, two.finish) == (0, units(500))


def test_deactivation() -> None:
    """To the idle tree only while its finish lies ahead; else it is forgotten."""
    tree = Tree(100, 100, 100)
    for at, (service, to_idle, place) in enumerate([(500, True, IDLE), (500, False, NO_TREE), (100, True, NO_TREE)]):
        one = tree.activate(at)
        one.start, one.service = 0, service
        tree.st.vtime = units(200)
        assert deactivate_entity(tree.bfqd, one, to_idle)
        assert (one.tree, one.on_st_or_in_serv) == (place, place == IDLE)
        assert one.service == 0
        assert not deactivate_entity(tree.bfqd, one, to_idle) or place == IDLE
        tree.st.vtime = 0
    assert tree.st.wsum == sum(one.weight for one in tree.groups if one.on_st_or_in_serv)


def test_virtual_time_goes_with_service() -> None:
    """By service over the sum of all weights, at each level."""
    hand = Hand(slice_idle=0)
    one, two = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.read(two, 5000)
    hand.machine.cgroups.get("/b").set_weight(300)
    root = hand.bfqd.root_group.children.be
    a = hand.group("/a").children.be
    before, before_a = int(root.vtime), int(a.vtime)
    served(hand.bfqd, hand.queue(one), 120)
    assert root.wsum == 200, "the new weight waits for the next activation"
    assert root.vtime - before == delta(120, 200)
    assert a.vtime - before_a == delta(120, 40)
    assert (hand.queue(one).service, hand.group("/a").service) == (120, 120)


def test_idle_entities_are_forgotten_one_by_one() -> None:
    """The first that virtual time has passed; with nothing active the time steps back to the last one's finish."""
    tree = Tree(100, 100, 100)
    for at, service in enumerate((200, 300, 400)):
        one = tree.activate(at)
        one.start, one.service = 0, service
        tree.st.vtime = 0
        deactivate_entity(tree.bfqd, one, True)
    tree.activate(0)
    tree.st.vtime = units(350)
    forget_idle(tree.bfqd, tree.st)
    assert [int(one.tree) for one in tree.groups] == [ACTIVE, NO_TREE, IDLE]
    assert tree.st.vtime == units(350)
    deactivate_entity(tree.bfqd, tree.groups[0], False)
    tree.st.vtime = units(1000)
    forget_idle(tree.bfqd, tree.st)
    assert tree.st.vtime == units(400), "back"
    assert tree.st.wsum == 0


def test_the_next_is_the_eligible_one_that_finishes_first() -> None:
    """Not the one that finishes first of all; and when none is eligible the time jumps, but only if it may."""
    tree = Tree(100, 100, 100)
    for at, (start, finish) in enumerate([(0, 900), (100, 700), (500, 600)]):
        one = tree.activate(at)
        tree.st.active.remove(one)
        one.start, one.finish = units(start), units(finish)
        tree.st.active.insert(one)
    for vtime, expected in ((0, 0), (99, 0), (100, 1), (499, 1), (500, 2)):
        tree.st.vtime = units(vtime)
        assert lookup_next(tree.bfqd, tree.sd, False) is tree.groups[expected]
    tree.groups[0].start, tree.st.vtime = units(300), units(50)
    tree.sd.in_service_entity = tree.groups[2]
    assert lookup_next(tree.bfqd, tree.sd, False) is tree.groups[1]
    assert tree.st.vtime == units(50), "somebody is in service"
    assert lookup_next(tree.bfqd, tree.sd, True) is tree.groups[1]
    assert tree.st.vtime == units(100), "an expiration"
    tree.st.vtime, tree.sd.in_service_entity = units(50), None
    assert lookup_next(tree.bfqd, tree.sd, False) is tree.groups[1]
    assert tree.st.vtime == units(100)


def test_a_newcomer_takes_the_place_without_a_look_around() -> None:
    """If it is eligible and finishes before the one that was to be next; a lower budget is told upward."""
    tree = Tree(100, 100, 100)
    one = tree.activate(0)
    assert update_next_in_service(tree.bfqd, tree.sd, one, False), "the first"
    assert tree.sd.next_in_service is one
    tree.groups[1].budget = 500
    two = tree.activate(1)
    assert not update_next_in_service(tree.bfqd, tree.sd, two, False), "the root has no budget"
    assert tree.sd.next_in_service is two
    tree.groups[2].budget = 2000
    three = tree.activate(2)
    update_next_in_service(tree.bfqd, tree.sd, three, False)
    assert tree.sd.next_in_service is two


def test_classes_go_first_and_the_idle_class_has_its_turn() -> None:
    """RT before BE before IDLE; but after 200 ms of lookups without one the idle class comes first, once."""
    hand = Hand(slice_idle=0)
    tasks = [hand.task("/", pack(kind, 4)) for kind in (IOPRIO_CLASS_IDLE, IOPRIO_CLASS_BE, IOPRIO_CLASS_RT)]
    for task in tasks:
        hand.read(task, 0, 100, 200, 300)
        hand.skip(700 * MS)
    sd = hand.bfqd.root_group.children
    sd.idle_class_last_service = hand.bfqd.jif()
    queues = [hand.queue(task) for task in tasks]
    assert lookup_next(hand.bfqd, sd, False) is queues[2]
    hand.skip(200 * MS)
    assert lookup_next(hand.bfqd, sd, False) is queues[2]
    hand.skip(4 * MS)
    assert lookup_next(hand.bfqd, sd, False) is queues[0]
    assert lookup_next(hand.bfqd, sd, False) is queues[2]


def test_a_group_is_as_large_as_its_next_child() -> None:
    """Its budget is that of the child which is next, at every level."""
    hand = Hand()
    one = hand.task("/a/b")
    hand.read(one, 0)
    assert hand.group("/a/b").budget == hand.group("/a").budget == hand.queue(one).budget == 10922


def test_descending() -> None:
    """A group with one child leaves the active tree while it is served, one with more stays."""
    hand = Hand()
    tasks = [hand.task("/a"), hand.task("/a"), hand.task("/b")]
    for at, task in enumerate(tasks):
        hand.read(task, at << 20)
        hand.skip(700 * MS)
    bfqd = hand.bfqd
    a, b = hand.group("/a"), hand.group("/b")
    assert get_next_queue(bfqd) is hand.queue(tasks[0])
    assert (a.tree, b.tree) == (ACTIVE, ACTIVE)
    assert bfqd.root_group.children.in_service_entity is a
    assert bfqd.root_group.children.next_in_service is a
    assert not may_preempt(bfqd), "inside one group nobody preempts"
    assert a.children.next_in_service is hand.queue(tasks[1])


def test_a_single_child_is_taken_out() -> None:
    """Then another group is next at the top, and may preempt."""
    hand = Hand()
    tasks = [hand.task("/a"), hand.task("/b")]
    for at, task in enumerate(tasks):
        hand.read(task, at << 20)
    a = hand.group("/a")
    assert get_next_queue(hand.bfqd) is hand.queue(tasks[0])
    assert (a.tree, a.on_st_or_in_serv) == (NO_TREE, True)
    assert a.children.next_in_service is None
    assert hand.bfqd.root_group.children.next_in_service is a, "the early stop leaves the name"
    update_next_in_service(hand.bfqd, hand.bfqd.root_group.children, None, False)
    assert may_preempt(hand.bfqd)


def test_a_change_of_class_moves_to_another_tree() -> None:
    """With its weight, at the next activation; busy queues are counted by the new class."""
    hand = Hand(slice_idle=0)
    task = hand.task("/", pack(IOPRIO_CLASS_BE, 4))
    hand.read(task, 0, 100)
    bfqq = hand.queue(task)
    sd = hand.bfqd.root_group.children
    assert (sd.be.wsum, sd.rt.wsum) == (40, 0)
    task.ioprio = pack(IOPRIO_CLASS_RT, 1)
    hand.read(task, 200)
    assert (sd.be.wsum, sd.rt.wsum) == (40, 0), "not yet"
    assert [bfqq.prio_changed] == [True]
    hand.give_all()
    while hand.given:
        hand.complete()
    hand.read(task, 300)
    assert (sd.be.wsum, sd.rt.wsum) == (0, 70)
    assert not bfqq.prio_changed
    assert [int(nr) for nr in hand.bfqd.busy_queues] == [1, 0, 0]


@pytest.mark.parametrize(("wish", "weight"), [(300, 300), (0, 1), (5000, 1000)])
def test_a_new_weight_counts_from_the_next_activation(wish: int, weight: int) -> None:
    """And is kept within 1..1000."""
    tree = Tree(100)
    one = tree.groups[0]
    one.new_weight, one.prio_changed = wish, True
    assert one.weight == 100
    tree.activate(0)
    assert (one.weight, one.orig_weight, tree.st.wsum) == (weight, weight, weight)
    assert one.finish - one.start == units(1000, weight)
    assert not one.prio_changed
