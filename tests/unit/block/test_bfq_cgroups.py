"""Groups: weights for all devices and for one, moves of processes, removal, and shares of the tags (spec §6, §4.13)."""

from __future__ import annotations

import pytest
from bfq_hand import DEV, Hand
from block_world import MS

from blktwin.block.bfq.depth import Depths, is_over_limit, limit_depth, weight_of_classes
from blktwin.block.bfq.entity import ACTIVE, NO_TREE
from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_RT, pack

OTHER_DEV = (8, 32)


def busy(hand: Hand, path: str = "/a") -> tuple[int, int, int]:
    """Let a new process of a group read; return the group's weight, the new one, and the device's own."""
    hand.read(hand.task(path), 0)
    group = hand.group(path)
    return int(group.weight), int(group.new_weight), int(group.dev_weight)


# -- weights


def test_weights_before_the_first_request() -> None:
    """100 by default; the cgroup's, unless the device has its own."""
    assert busy(Hand()) == (100, 100, 0)
    hand = Hand()
    hand.machine.cgroups.get("/a").set_weight(300)
    assert busy(hand) == (300, 300, 0)
    hand = Hand()
    hand.machine.cgroups.get("/a").set_weight(300)
    hand.machine.cgroups.get("/a").set_dev_weight(OTHER_DEV, 50)
    assert busy(hand) == (300, 300, 0)
    hand.machine.cgroups.get("/b").set_dev_weight(DEV, 50)
    assert busy(hand, "/b") == (50, 50, 50)


def test_a_changed_weight_waits_for_the_next_activation() -> None:
    """It is set at once and in force later."""
    hand = Hand(slice_idle=0)
    assert busy(hand) == (100, 100, 0)
    group, cgroup = hand.group("/a"), hand.machine.cgroups.get("/a")
    cgroup.set_weight(250)
    assert (group.weight, group.new_weight, group.prio_changed) == (100, 250, True)
    hand.serve()
    hand.read(hand.task("/a"), 4096)
    assert (group.weight, group.orig_weight) == (250, 250)
    assert [group.prio_changed] == [False]
    cgroup.set_weight(250)
    assert [group.prio_changed] == [False], "nothing new"


def test_the_devices_own_weight() -> None:
    """It wins until the weight for all is written; "default" clears it and keeps what is in force."""
    hand = Hand(slice_idle=0)
    busy(hand)
    group, cgroup = hand.group("/a"), hand.machine.cgroups.get("/a")
    cgroup.set_dev_weight(DEV, 500)
    assert (group.new_weight, group.dev_weight) == (500, 500)
    hand.serve()
    hand.read(hand.task("/a"), 4096)
    assert group.weight == 500
    cgroup.set_dev_weight(DEV, 0)
    assert (group.new_weight, group.dev_weight, cgroup.weight) == (500, 0, 100), "not the cgroup's 100"
    cgroup.set_weight(200)
    assert group.new_weight == 200
    cgroup.set_dev_weight(DEV, 700)
    cgroup.set_weight(300)
    assert (group.new_weight, group.dev_weight, cgroup.dev_weights) == (300, 0, {})
    cgroup.set_dev_weight(OTHER_DEV, 9)
    assert group.new_weight == 300


def test_groups_are_best_effort() -> None:
    """Whatever the class of their processes: a real-time queue in a group does not outrank the root's others."""
    hand = Hand()
    hand.read(hand.task("/", pack(IOPRIO_CLASS_BE, 0)), 4096)
    hand.read(hand.task("/a", pack(IOPRIO_CLASS_RT, 0)), 0)
    group = hand.group("/a")
    assert group.io_class == 1
    assert group.sched_data.be.active.head in (hand.bfqd.queues[0], group)
    assert (group.children.rt.wsum, hand.bfqd.root_group.children.rt.wsum) == (80, 0)


def test_the_tree_of_groups() -> None:
    """Made when first used, with those above; children of the root have no parent entity."""
    hand = Hand()
    busy(hand, "/a/b/c")
    c = hand.group("/a/b/c")
    b, a = c.parent_group, hand.group("/a")
    assert b is hand.group("/a/b")
    assert (c.parent, b.parent, a.parent) == (b, a, None)
    assert (c.sched_data, b.sched_data, a.sched_data) == (b.children, a.children, hand.bfqd.root_group.children)
    assert (c.path(), hand.bfqd.root_group.path()) == ("/a/b/c", "/")


# -- moves


@pytest.mark.parametrize("place", ["queued", "in service", "in flight", "idle tree", "at rest"])
@pytest.mark.parametrize("target", ["/b", "/", "/a/x"])
def test_a_process_takes_its_queue_along(place: str, target: str) -> None:
    """With its requests, wherever it stands; seen at its next request."""
    hand = Hand(slice_idle=8 if place == "in service" else 0)
    task, other = hand.task("/a"), hand.task("/a")
    hand.read(other, 1 << 30)
    hand.skip(700 * MS)
    hand.read(task, 0)
    bfqq = hand.queue(task)
    if place != "queued":
        while hand.give() != 0:
            hand.complete()
    if place == "idle tree":
        hand.complete(0)
    if place == "at rest":
        hand.complete(0)
        hand.wait(30 * MS)
    task.cgroup = hand.machine.cgroups.get(target)
    hand.read(task, 4096)
    assert hand.queue(task) is bfqq
    assert bfqq.group_path == target
    assert bfqq.sched_data is hand.group(target).children
    assert hand.log.of("move") == ["move /a"]
    assert hand.group("/a").last_bfqq_created is not bfqq
    assert bfqq.is_busy
    assert hand.group("/a").allocated == bfqq.allocated * (target == "/a/x") + hand.queue(other).allocated
    while hand.bfqd.queued or hand.given:
        if hand.give() < 0 and hand.given:
            hand.complete()
        hand.wait(MS)
    assert hand.group(target).allocated == 0


def test_a_queue_in_service_is_preempted_by_its_move() -> None:
    """Its slot ends."""
    hand = Hand()
    task = hand.task("/a")
    hand.read(task, 0)
    hand.give()
    task.cgroup = hand.machine.cgroups.get("/b")
    hand.read(task, 8)
    assert hand.log.of("end") == ["end 1@/a PREEMPTED 0"]
    assert hand.bfqd.in_service_queue is None


def test_async_requests_go_to_the_new_groups_queue() -> None:
    """The shared queue stays behind."""
    hand = Hand()
    task = hand.task("/a")
    hand.write(task, 0, flags=0)
    old = hand.async_queue(task)
    task.cgroup = hand.machine.cgroups.get("/b")
    hand.write(task, 4096, flags=0)
    assert hand.async_queue(task) is not old
    assert (old.group_path, old.process_refs, old.nr_queued) == ("/a", 1, 1)
    assert hand.async_queue(task).group_path == "/b"


def test_only_the_process_leaves_a_shared_queue() -> None:
    """It gets a new one; the others stay."""
    hand = Hand()
    one, other = hand.task("/a"), hand.task("/a")
    hand.read(one, 0)
    hand.read(other, 1 << 30)
    shared = hand.queue(one)
    assert hand.queue(other) is shared
    other.cgroup = hand.machine.cgroups.get("/b")
    hand.read(other, 4096)
    assert hand.queue(other) is not shared
    assert (shared.group_path, shared.process_refs) == ("/a", 1)
    assert hand.log.of("move") == []


def test_a_cgroup_that_is_the_same_group() -> None:
    """Without a change of group nothing moves."""
    hand = Hand()
    task = hand.task("/a")
    hand.read(task, 0)
    hand.read(task, 4096)
    assert hand.log.of("move") == []


# -- removal


@pytest.mark.parametrize("place", ["queued", "in service", "in flight", "idle"])
@pytest.mark.parametrize("path", ["/a", "/a/x"])
def test_a_removed_cgroup(place: str, path: str) -> None:
    """Its queues go to the root with their requests; the group stands nowhere any more."""
    hand = Hand(slice_idle=8)
    task = hand.task(path)
    hand.read(task, 0)
    hand.write(task, 1 << 20, flags=0)
    bfqq, shared = hand.queue(task), hand.async_queue(task)
    if place != "queued":
        while hand.give() != 0:
            assert hand.given
    if place == "idle":
        hand.complete()
        hand.wait(10 * MS)
    group = hand.group(path)
    hand.machine.cgroups.get(path).go_offline()
    hand.check()
    assert (group.tree, group.on_st_or_in_serv, group.is_online) == (NO_TREE, False, False)
    assert (group.children.next_in_service, group.children.in_service_entity) == (None, None)
    assert shared.is_freed or shared.group_path == "/"
    assert group.async_queues == [None] * 17
    if place in ("queued", "in service"):
        assert bfqq.group_path == "/"
    hand.read(task, 4096)
    bfqq = hand.queue(task)
    assert bfqq.group_path == ("/" if path == "/a" else "/a"), "the nearest that is left"
    assert bfqq.is_busy
    done = 0
    while (hand.bfqd.queued or hand.given) and done < 100:
        if hand.give() < 0 and hand.given:
            hand.complete()
        hand.wait(MS)
        done += 1
    assert (hand.bfqd.queued, hand.given) == (0, [])
    assert group.allocated == 0


def test_a_removed_parent_takes_its_children_first() -> None:
    """From the bottom up, as rmdir demands."""
    hand = Hand()
    inner, outer = hand.task("/a/x"), hand.task("/a")
    hand.read(inner, 0)
    hand.read(outer, 1 << 20)
    for path in ("/a/x", "/a"):
        hand.machine.cgroups.get(path).go_offline()
        hand.check()
    assert [hand.queue(task).group_path for task in (inner, outer)] == ["/", "/"]
    assert hand.bfqd.root_group.children.be.active.head is not None
    assert hand.bfqd.queues[0].tree == ACTIVE


def test_a_weight_written_to_a_group_that_is_gone() -> None:
    """Does nothing to what is left."""
    hand = Hand()
    hand.read(hand.task("/a"), 0)
    cgroup = hand.machine.cgroups.get("/a")
    cgroup.go_offline()
    cgroup.set_weight(1000)
    hand.check()


# -- tags


@pytest.mark.parametrize(
    ("rules", "nr", "depths"),
    [
        ("6.12", 128, [64, 96, 24, 48]),
        ("6.12", 4, [4, 4, 4, 4]),
        ("7.2", 128, [64 * 2 // 3, 64, 16, 32]),
        ("6.1", 256, [128, 192, 48, 96]),
        ("5.10", 64, [32, 48, 12, 24]),
    ],
)
def test_depths(rules: str, nr: int, depths: list[int]) -> None:
    """Half and three quarters of each word, less than half of that with raised queues; in 7.2 of the driver's depth."""
    hand = Hand(rules, depth=64, nr_requests=nr)
    assert [int(depth) for depth in hand.bfq.depths.table] == depths


def test_async_depth() -> None:
    """7.0: a, two thirds, a half and a quarter of it."""
    hand = Hand("7.2")
    table = Depths()
    table.update(hand.bfqd, 128, 96)
    assert [int(depth) for depth in table.table] == [64, 96, 24, 48]


@pytest.mark.parametrize(
    ("op", "flags", "raised", "expected"),
    [
        (REQ_OP_READ, 0, 0, 0),
        (REQ_OP_READ, 0, 2, 0),
        (REQ_OP_WRITE, REQ_SYNC, 0, 96),
        (REQ_OP_WRITE, 0, 0, 64),
        (REQ_OP_WRITE, REQ_SYNC, 1, 48),
        (REQ_OP_WRITE, 0, 1, 24),
    ],
)
def test_limits_by_kind(op: int, flags: int, raised: int, expected: int) -> None:
    """Reads have all tags."""
    hand = Hand(depth=64)
    hand.bfqd.wr_busy_queues = raised
    assert limit_depth(hand.bfqd, hand.bfq.depths, None, op, flags) == expected


def test_shares_of_the_tags() -> None:
    """Down the tree by weight, rounded; who has as many gets the least depth, unless anything on the path is idle."""
    hand = Hand(slice_idle=0, nr_requests=100)
    hand.machine.cgroups.get("/a").set_weight(100)
    hand.machine.cgroups.get("/b").set_weight(300)
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.read(other, 1 << 20)
    mine = hand.queue(one)
    a = hand.group("/a")
    for have, is_over in ((24, False), (25, True)):
        mine.allocated = a.allocated = have
        assert is_over_limit(mine, 100) == is_over
        depth = limit_depth(hand.bfqd, hand.bfq.depths, hand.bic(one), REQ_OP_READ, 0)
        assert depth == (hand.bfq.depths.least if is_over else 0)
    a.allocated, mine.allocated = 24, 30
    assert is_over_limit(mine, 100), "its own share is the group's"
    mine.on_st_or_in_serv = False
    assert not is_over_limit(mine, 100)
    mine.on_st_or_in_serv, a.on_st_or_in_serv = True, False
    assert not is_over_limit(mine, 100)


@pytest.mark.parametrize(("rules", "depth"), [("5.10", 0), ("5.17", 1), ("6.12", 1), ("7.2", 1)])
def test_since_when_groups_have_shares(rules: str, depth: int) -> None:
    """5.17."""
    hand = Hand(rules, slice_idle=0, nr_requests=1)
    task = hand.task("/a")
    hand.read(task, 0)
    assert limit_depth(hand.bfqd, hand.bfq.depths, hand.bic(task), REQ_OP_READ, 0) == depth


def test_the_weight_of_the_classes() -> None:
    """For the queue itself: all classes down to its own, each eight times the next."""
    hand = Hand(slice_idle=0)
    sd = hand.bfqd.root_group.children
    hand.read(hand.task("/"), 0)
    sd.rt.wsum, sd.idle.wsum = 10, 20
    assert weight_of_classes(hand.bfqd.queues[0]) == 10 * 8 + 40
    sd.rt.wsum = sd.idle.wsum = 0
