"""The weights tree and the count of groups with pending requests, step by step, under each of the three rules."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.pending import asymmetric_scenario, classes_vary, weights_vary
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack

BEFORE, SERIES, AFTER = "6.1", "5.17-series", "6.12"
RULES = [BEFORE, SERIES, AFTER]


def make(rules: str) -> Hand:
    """A world without idling: only what is counted is of interest."""
    return Hand(rules, slice_idle=0)


def start(hand: Hand, *paths: str) -> list[HandTask]:
    """Start processes too far apart to be merged, each with a read that has ended."""
    tasks = []
    for at, path in enumerate(paths):
        task = hand.task(path)
        hand.read(task, at << 20)
        hand.serve()
        hand.skip(700 * MS)
        tasks.append(task)
    assert counts(hand) == (0, 0)
    return tasks


def counts(hand: Hand) -> tuple[int, int]:
    """Return the number of groups, and how many weights pending queues have."""
    return int(hand.bfqd.num_groups_with_pending_reqs), len(hand.bfqd.weights)


def is_plugged(hand: Hand, task: HandTask) -> bool:
    """Say whether a queue's weight, class or group make the scenario asymmetric."""
    return asymmetric_scenario(hand.bfqd, hand.queue(task))


TRACE = {
    BEFORE: [(0, False), (1, True), (1, True), (1, True), (0, False), (0, False)],
    SERIES: [(1, False), (2, True), (2, True), (1, False), (1, False), (0, False)],
    AFTER: [(1, False), (2, True), (2, True), (1, False), (1, False), (0, False)],
}
"""num_groups_with_pending_reqs and whether a process of A is plugged, after each step of the specification's table."""


@pytest.mark.parametrize("rules", RULES)
def test_one_in_the_root_two_in_a_and_the_first_stops(rules: str) -> None:
    """The table of spec §5.5: t1 in the root, t2 and t3 in A, t1 stops."""
    hand = make(rules)
    t1, t2, t3 = start(hand, "/", "/a", "/a")
    seen: list[tuple[int, bool]] = []

    def look() -> None:
        seen.append((counts(hand)[0], is_plugged(hand, t2)))

    hand.read(t1, 100)
    look()
    hand.read(t2, 200)
    look()
    hand.read(t3, 300)
    look()
    hand.give_all()
    hand.complete(100)
    hand.exit(t1)
    look()
    hand.complete(200)
    look()
    hand.complete(300)
    look()
    assert seen == TRACE[rules]


def test_the_counts_of_the_groups_in_the_trace() -> None:
    """Since 6.2: n(root) and n(A) of the same trace."""
    hand = make(AFTER)
    t1, t2, t3 = start(hand, "/", "/a", "/a")
    root, a = hand.bfqd.root_group, hand.group("/a")
    seen = []
    for task, sector in ((t1, 100), (t2, 200), (t3, 300)):
        hand.read(task, sector)
        seen.append((int(root.nr_queues_with_pending_reqs), int(a.nr_queues_with_pending_reqs)))
    hand.give_all()
    for sector in (100, 200, 300):
        hand.complete(sector)
        seen.append((int(root.nr_queues_with_pending_reqs), int(a.nr_queues_with_pending_reqs)))
    assert seen == [(1, 0), (1, 1), (1, 2), (0, 2), (0, 1), (0, 0)]


def test_before_the_next_activation_counts_again() -> None:
    """Until 6.1: after the first of A's queues ran dry the scenario is symmetric, until A is activated again."""
    hand = make(BEFORE)
    t2, t3 = start(hand, "/a", "/a")
    hand.read(t2, 200)
    hand.read(t3, 300)
    hand.give_all()
    assert counts(hand)[0] == 1
    hand.complete(200)
    assert counts(hand)[0] == 0, "though a request of t3 is in flight"
    hand.read(t2, 208)
    assert counts(hand)[0] == 1


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/"] * 3, {BEFORE: 0, SERIES: 1, AFTER: 1}),
        (["/a"] * 3, {BEFORE: 1, SERIES: 1, AFTER: 1}),
        (["/c1/c2"] * 3, {BEFORE: 2, SERIES: 1, AFTER: 1}),
        (["/c1/c2/c3"], {BEFORE: 3, SERIES: 1, AFTER: 1}),
        (["/", "/a", "/a"], {BEFORE: 1, SERIES: 2, AFTER: 2}),
        (["/a", "/a", "/b", "/b"], {BEFORE: 2, SERIES: 2, AFTER: 2}),
        (["/a"], {BEFORE: 1, SERIES: 1, AFTER: 1}),
        (["/c1", "/c1/c2"], {BEFORE: 2, SERIES: 2, AFTER: 2}),
        (["/", "/c1/c2", "/c3"], {BEFORE: 3, SERIES: 3, AFTER: 3}),
    ],
)
@pytest.mark.parametrize("rules", RULES)
def test_how_many_groups_count(rules: str, paths: list[str], expected: dict[str, int]) -> None:
    """Spec §5.5: who is counted while all have requests, while all are in flight, and when all have ended."""
    hand = make(rules)
    tasks = start(hand, *paths)
    for at, task in enumerate(tasks):
        hand.read(task, 100 + at * 100)
    assert counts(hand)[0] == expected[rules]
    threshold = 0 if rules == BEFORE else 1
    assert is_plugged(hand, tasks[0]) == (expected[rules] > threshold)
    hand.give_all()
    assert counts(hand)[0] == expected[rules], "requests in flight are pending too"
    while hand.given:
        hand.complete()
    assert counts(hand) == (0, 0)


@pytest.mark.parametrize("rules", RULES)
def test_raised_queues(rules: str) -> None:
    """Raised queues are not in the weights tree: the series loses their group with the first that completes."""
    hand = make(rules)
    tasks = start(hand, "/a", "/a", "/b")
    hand.bfq.set_tunable("low_latency", 1)
    hand.skip(3000 * MS)
    for at, task in enumerate(tasks):
        hand.read(task, 100 + at * 100)
    assert [int(hand.queue(task).wr_coeff) for task in tasks] == [30, 30, 30]
    assert counts(hand) == (2, 0)
    hand.give_all()
    hand.complete(100)
    assert counts(hand)[0] == {BEFORE: 1, SERIES: 1, AFTER: 2}[rules], "A has another request in flight"
    while hand.given:
        hand.complete()
    assert counts(hand) == (0, 0)


def test_a_moved_queue_takes_its_count_along() -> None:
    """Since 6.2 a queue with requests counts in its new group at once, and no more in the old one."""
    hand = make(AFTER)
    (task,) = start(hand, "/a")
    hand.read(task, 100)
    task.cgroup = hand.machine.cgroups.get("/b")
    a = hand.group("/a")
    assert (a.nr_queues_with_pending_reqs, counts(hand)[0]) == (1, 1)
    hand.read(task, 400)
    assert hand.queue(task).group_path == "/b"
    assert (a.nr_queues_with_pending_reqs, hand.group("/b").nr_queues_with_pending_reqs) == (0, 1)
    assert counts(hand)[0] == 1
    hand.give_all()
    hand.complete()
    hand.complete()
    assert counts(hand)[0] == 0


def test_a_moved_queue_leaves_its_count_behind() -> None:
    """Until 6.1 the old group stays counted until one of its queues runs dry: here there is none (spec §5.2)."""
    hand = make(BEFORE)
    (task,) = start(hand, "/a")
    hand.read(task, 100)
    task.cgroup = hand.machine.cgroups.get("/b")
    hand.read(task, 400)
    hand.give_all()
    hand.complete()
    hand.complete()
    assert counts(hand)[0] == 1
    assert hand.group("/a").in_groups_with_pending_reqs
    hand.read(task, 500)
    assert is_plugged(hand, task), "for ever asymmetric"


def test_the_weights_tree_is_a_multiset() -> None:
    """Equal weights share a counter; the smallest comes first; a queue stays while a request is in flight."""
    hand = make(AFTER)
    tasks = [hand.task("/", pack(IOPRIO_CLASS_BE, level)) for level in (0, 4, 4, 7)]
    for at, task in enumerate(tasks):
        hand.read(task, at << 20)
        hand.skip(700 * MS)
    assert [(int(one.weight), int(one.nr_queues)) for one in hand.bfqd.weights] == [(10, 1), (40, 2), (80, 1)]
    hand.give_all()
    assert [int(one.nr_queues) for one in hand.bfqd.weights] == [1, 2, 1]
    hand.complete(1 << 20)
    assert [int(one.nr_queues) for one in hand.bfqd.weights] == [1, 1, 1]
    hand.complete(0)
    assert [int(one.weight) for one in hand.bfqd.weights] == [10, 40]


def test_weights_vary_unless_it_is_the_smallest() -> None:
    """Two weights are asymmetric for all but the queue that has the smallest."""
    hand = make(AFTER)
    light, heavy = hand.task("/", pack(IOPRIO_CLASS_BE, 7)), hand.task("/", pack(IOPRIO_CLASS_BE, 0))
    hand.read(light, 0)
    assert not weights_vary(hand.bfqd, hand.queue(light))
    hand.read(heavy, 1000)
    assert not weights_vary(hand.bfqd, hand.queue(light))
    assert weights_vary(hand.bfqd, hand.queue(heavy))
    assert weights_vary(hand.bfqd, None)


@pytest.mark.parametrize(
    ("first", "second", "varies"),
    [
        (IOPRIO_CLASS_BE, IOPRIO_CLASS_BE, False),
        (IOPRIO_CLASS_BE, IOPRIO_CLASS_RT, True),
        (IOPRIO_CLASS_IDLE, IOPRIO_CLASS_BE, True),
        (IOPRIO_CLASS_RT, IOPRIO_CLASS_RT, False),
    ],
)
def test_classes_vary(first: int, second: int, varies: bool) -> None:
    """Busy queues of two I/O classes are asymmetric."""
    hand = make(AFTER)
    hand.read(hand.task("/", pack(first, 4)), 0)
    assert not classes_vary(hand.bfqd)
    hand.read(hand.task("/", pack(second, 4)), 1000)
    assert classes_vary(hand.bfqd) == varies


def test_a_new_priority_changes_the_weight_in_the_tree() -> None:
    """A pending queue whose ioprio changes is counted by its new weight from its next activation on."""
    hand = make(AFTER)
    (task,) = start(hand, "/")
    task.ioprio = pack(IOPRIO_CLASS_BE, 0)
    hand.read(task, 100)
    assert [int(one.weight) for one in hand.bfqd.weights] == [80]
    assert hand.queue(task).ioprio == 0
