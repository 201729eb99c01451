"""Slots: how they begin and end, the next budget (spec §4.7), the charge of time, and the recovery of a hole."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.expire import budget_timed_out, charge_slot_time, expire, may_time_out, recalc_budget
from blktwin.block.bfq.insert import budget_for_activation, has_higher_class_or_weight
from blktwin.block.bfq.log import BUDGET_EXHAUSTED, BUDGET_TIMEOUT, NO_MORE_REQUESTS, PREEMPTED, TOO_IDLE
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_RT, pack

MIN, MAX = 16384 // 32, 16384


def serving(rules: str = "6.12", path: str = "/", **options: int) -> tuple[Hand, HandTask, BfqQueue]:
    """Build a world with one queue in service, its one request in the driver."""
    hand = Hand(rules, **options)
    task = hand.task(path)
    hand.read(task, 0)
    assert hand.give() == 0
    return hand, task, hand.queue(task)


TABLE = [
    # reason, budget, service, dispatched, the next one
    (TOO_IDLE, 4000, 8, 1, 8000),
    (TOO_IDLE, 10000, 8, 1, MAX),
    (TOO_IDLE, 4000, 8, 0, 4000 - 4 * MIN),
    (TOO_IDLE, 5 * MIN + 1, 8, 0, MIN + 1),
    (TOO_IDLE, 5 * MIN, 8, 0, MIN),
    (TOO_IDLE, MIN, 8, 0, MIN),
    (BUDGET_TIMEOUT, 4000, 8, 1, 8000),
    (BUDGET_TIMEOUT, 10000, 8, 0, MAX),
    (BUDGET_EXHAUSTED, 3000, 3000, 0, 12000),
    (BUDGET_EXHAUSTED, 5000, 5000, 0, MAX),
    (NO_MORE_REQUESTS, 4000, 3000, 0, 3000),
    (NO_MORE_REQUESTS, 4000, 8, 1, MIN),
    (PREEMPTED, 4000, 3000, 0, 4000),
]


@pytest.mark.parametrize(("reason", "budget", "service", "dispatched", "expected"), TABLE)
def test_the_next_budget(reason: int, budget: int, service: int, dispatched: int, expected: int) -> None:
    """The feedback table of spec §4.7, for a sync queue that is not raised."""
    hand, _, bfqq = serving()
    bfqq.max_budget, bfqq.service, bfqq.dispatched = budget, service, dispatched
    recalc_budget(hand.bfqd, bfqq, reason)
    assert bfqq.max_budget == expected


@pytest.mark.parametrize("reason", [TOO_IDLE, BUDGET_TIMEOUT, BUDGET_EXHAUSTED, NO_MORE_REQUESTS, PREEMPTED])
def test_the_next_budget_of_raised_and_async_queues(reason: int) -> None:
    """Raised: twice the least. Async: the most. Whatever the reason."""
    hand, _, bfqq = serving()
    bfqq.wr_coeff = 30
    recalc_budget(hand.bfqd, bfqq, reason)
    assert bfqq.max_budget == 2 * MIN
    bfqq.wr_coeff, bfqq.is_sync = 1, False
    recalc_budget(hand.bfqd, bfqq, reason)
    assert bfqq.max_budget == MAX


def test_a_known_device_caps_budgets() -> None:
    """From 194 budgets on the device's own maximum holds, unless the user has set one; the least follows it."""
    hand, _, bfqq = serving()
    bfqd = hand.bfqd
    bfqd.max_budget, bfqd.budgets_assigned = 6400, 193
    assert (bfqd.assigned_max_budget(), bfqd.assigned_min_budget()) == (MAX, MIN)
    bfqd.budgets_assigned = 194
    assert (bfqd.assigned_max_budget(), bfqd.assigned_min_budget()) == (6400, 200)
    bfqq.max_budget, bfqq.service = 3000, 9000
    recalc_budget(bfqd, bfqq, NO_MORE_REQUESTS)
    assert bfqq.max_budget == 6400
    bfqd.user_max_budget = 6400
    recalc_budget(bfqd, bfqq, NO_MORE_REQUESTS)
    assert bfqq.max_budget == 9000


def test_a_waiting_request_must_fit_the_next_budget() -> None:
    """The entity's budget covers the next request; without one it stays as it was."""
    hand, task, bfqq = serving()
    bfqq.max_budget, bfqq.service, bfqq.budget = 100, 8, 777
    recalc_budget(hand.bfqd, bfqq, NO_MORE_REQUESTS)
    assert bfqq.budget == 777
    hand.read(task, 5000, nr=1024)
    bfqq.service = 8
    recalc_budget(hand.bfqd, bfqq, NO_MORE_REQUESTS)
    assert (bfqq.max_budget, bfqq.budget) == (MIN, 1024)


def test_budgets_assigned() -> None:
    """The count of slots is an average in fixed point: 194 at the 11th, 249 in the end."""
    hand, task, bfqq = serving(slice_idle=0)
    seen = [int(hand.bfqd.budgets_assigned)]
    hand.complete()
    for at in range(40):
        hand.read(task, 8 + 8 * at)
        hand.serve()
        seen.append(int(hand.bfqd.budgets_assigned))
    assert seen[0] == 32
    assert (seen[9] < 194, seen[10] >= 194, seen[-1]) == (True, True, 249)


@pytest.mark.parametrize(
    ("us", "is_rotational", "is_seeky", "service", "reason", "total"),
    [
        (900, False, True, 8, NO_MORE_REQUESTS, MAX * 2 // 124),
        (900, True, True, 8, NO_MORE_REQUESTS, MAX * 8 // 124),
        (900, False, False, 8, NO_MORE_REQUESTS, -1),
        (3999, False, True, 8, NO_MORE_REQUESTS, MAX * 3 // 124),
        (20_000, False, False, 8, NO_MORE_REQUESTS, -1),
        (20_001, False, False, 8, NO_MORE_REQUESTS, MAX * 20 // 124),
        (20_001, False, True, MAX // 2, NO_MORE_REQUESTS, -1),
        (50_000, False, True, MAX // 2 - 1, NO_MORE_REQUESTS, MAX // 2 - 1),
        (124_000, False, False, 8, BUDGET_TIMEOUT, MAX),
        (400_000, False, True, 8, BUDGET_TIMEOUT, MAX),
        (10_000, False, False, 8, BUDGET_TIMEOUT, MAX * 10 // 124),
        (10_000, False, False, 9000, BUDGET_TIMEOUT, -1),
    ],
)
def test_the_charge_of_time(
    us: int, is_rotational: bool, is_seeky: bool, service: int, reason: int, total: int
) -> None:
    """A slow queue is charged max_budget for a full slot; what slow is depends on the slot's length."""
    hand, _, bfqq = serving(is_rotational=is_rotational)
    if is_seeky:
        bfqq.seek_history, bfqq.nr_seeks = 0xFFFFFFFF, 32
    bfqq.service, bfqq.budget = service, 10922
    hand.skip(us * 1000)
    added = charge_slot_time(hand.bfqd, bfqq, False, reason)
    if total < 0:
        assert (added, bfqq.service, bfqq.budget) == (-1, service, 10922)
    else:
        assert (added, bfqq.service) == (total - service, total)
        assert bfqq.budget == max(total, 10922), "raised first, if need be"


@pytest.mark.parametrize(("coeff", "is_sync"), [(30, True), (1, False)])
def test_raised_and_async_queues_pay_for_service_only(coeff: int, is_sync: bool) -> None:
    """Except an async queue at a time-out that has left much of its budget."""
    hand, _, bfqq = serving()
    bfqq.wr_coeff, bfqq.is_sync, bfqq.service, bfqq.budget = coeff, is_sync, 8, 10922
    hand.skip(100 * MS)
    assert charge_slot_time(hand.bfqd, bfqq, False, NO_MORE_REQUESTS) == -1
    expected = -1 if is_sync else 0
    assert charge_slot_time(hand.bfqd, bfqq, False, BUDGET_TIMEOUT) == expected


def test_the_idling_at_the_end_does_not_count() -> None:
    """TOO_IDLE: the slot is measured up to the moment when the timer was started."""
    hand, _, bfqq = serving()
    bfqq.seek_history, bfqq.nr_seeks = 0xFFFFFFFF, 32
    hand.skip(5 * MS)
    hand.complete()
    hand.skip(8 * MS)
    assert charge_slot_time(hand.bfqd, bfqq, True, TOO_IDLE) == MAX * 5 // 124 - 8


def test_the_charge_ignores_timeout_sync() -> None:
    """It knows the default time-out only (a patch of 2021 was never applied)."""
    hand, _, bfqq = serving(timeout_sync=500)
    bfqq.seek_history, bfqq.nr_seeks = 0xFFFFFFFF, 32
    hand.bfqd.max_budget = MAX
    hand.skip(10 * MS)
    assert charge_slot_time(hand.bfqd, bfqq, False, NO_MORE_REQUESTS) == MAX * 10 // 124 - 8


@pytest.mark.parametrize(("hz", "ms"), [(100, 120), (250, 124), (1000, 125)])
def test_the_slot_is_an_eighth_of_a_second_in_jiffies(hz: int, ms: int) -> None:
    """124 ms with 250 ticks a second; it ends up to a tick early."""
    hand, _, bfqq = serving(hz=hz)
    tick = 1_000_000_000 // hz
    assert bfqq.budget_timeout_jif == hand.machine.now // tick + ms * hz // 1000
    hand.skip(ms * MS - 1)
    assert not budget_timed_out(hand.bfqd, bfqq)
    hand.skip(1)
    assert budget_timed_out(hand.bfqd, bfqq)


@pytest.mark.parametrize(
    ("waits", "left", "expected"), [(False, 0, True), (True, 999, False), (True, 1000, True), (True, 3000, True)]
)
def test_a_slot_may_outlast_its_time_while_waiting(waits: bool, left: int, expected: bool) -> None:
    """Only with less than a third of its budget left."""
    hand, _, bfqq = serving()
    hand.skip(200 * MS)
    bfqq.wait_request, bfqq.budget, bfqq.service = waits, 3000, 3000 - left
    assert may_time_out(hand.bfqd, bfqq) == expected


@pytest.mark.parametrize(("coeff", "cur_max", "factor"), [(1, 0, 1), (30, 900, 30), (3000, 75, 1)])
def test_an_interactive_queue_has_longer_slots(coeff: int, cur_max: int, factor: int) -> None:
    """By its coefficient; a soft real-time one has not."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 0)
    bfqq = hand.queue(task)
    hand.bfqd.weights[0].nr_queues -= 1
    bfqq.weight_counter = None
    hand.bfqd.weights.clear()
    bfqq.wr_coeff, bfqq.wr_cur_max_jif, bfqq.weight = coeff, cur_max, 40 * coeff
    now_jif = hand.machine.now * 250 // 1_000_000_000
    assert hand.bfq.dispatch_request(hand.hctx) is not None
    assert bfqq.budget_timeout_jif == now_jif + 31 * factor


def test_where_an_expired_queue_goes() -> None:
    """With requests it is requeued; without it is idle, and may recover its hole unless time or budget ran out."""
    for reason, recovers in ((TOO_IDLE, True), (NO_MORE_REQUESTS, True), (PREEMPTED, True), (BUDGET_TIMEOUT, False)):
        hand, _, bfqq = serving(slice_idle=8)
        expire(hand.bfqd, bfqq, False, reason)
        # Alone it needs idling, so it stays busy when it is preempted.
        assert bfqq.is_busy == (reason == PREEMPTED)
        assert bfqq.non_blocking_wait_rq == (recovers and not bfqq.is_busy)
        assert (bfqq.service == 0) == (not bfqq.non_blocking_wait_rq)
        assert hand.bfqd.in_service_queue is None
        hand.check()
    hand, task, bfqq = serving()
    hand.read(task, 8)
    expire(hand.bfqd, bfqq, False, NO_MORE_REQUESTS)
    assert bfqq.is_busy
    assert not bfqq.non_blocking_wait_rq
    hand.check()


def test_every_ancestor_begins_anew() -> None:
    """The service of all groups above is cleared when a slot ends."""
    hand, _, bfqq = serving(path="/a/b")
    groups = [hand.group("/a/b"), hand.group("/a")]
    assert [int(group.service) for group in groups] == [8, 8]
    expire(hand.bfqd, bfqq, False, NO_MORE_REQUESTS)
    assert [int(group.service) for group in groups] == [0, 0]


@pytest.mark.parametrize(
    ("flag", "in_time", "left", "max_budget", "expected"),
    [
        (True, True, 3000, 10000, (3000, True)),
        (True, True, 3000, 2000, (2000, True)),
        (True, True, 0, 2000, (2000, False)),
        (True, False, 3000, 10000, (10000, False)),
        (False, True, 3000, 10000, (10000, False)),
        (False, True, 3000, 4, (8, False)),
    ],
)
def test_recovering_the_hole(flag: bool, in_time: bool, left: int, max_budget: int, expected: tuple[int, bool]) -> None:
    """A queue that comes back in time goes on with what is left of its budget, and wants its turn."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 0)
    bfqq = hand.queue(task)
    bfqq.non_blocking_wait_rq, bfqq.budget, bfqq.service, bfqq.max_budget = flag, 5000, 5000 - left, max_budget
    assert (budget_for_activation(hand.bfqd, bfqq, in_time), bfqq.budget) == (expected[1], expected[0])
    assert bfqq.service == 0


@pytest.mark.parametrize(("pause_ms", "recovers"), [(23, True), (24, True), (25, False)])
def test_in_time_is_three_times_slice_idle(pause_ms: int, recovers: bool) -> None:
    """24 ms after its last completion a queue may still find the rest of its budget."""
    hand, task, bfqq = serving("6.12", slice_idle=8)
    hand.complete()
    expire(hand.bfqd, bfqq, False, NO_MORE_REQUESTS)
    assert bfqq.max_budget == MIN
    bfqq.max_budget = MAX
    hand.skip(pause_ms * MS)
    hand.read(task, 4096)
    assert bfqq.budget == (10922 - 8 if recovers else MAX)


def test_a_back_shifted_queue_takes_over() -> None:
    """It preempts a queue of another group, and finds its old place in virtual time."""
    hand = Hand("5.10")
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.serve()
    mine = hand.queue(one)
    expire(hand.bfqd, mine, False, NO_MORE_REQUESTS)
    hand.read(other, 5000)
    assert hand.give() == 5000
    hand.read(one, 8)
    assert hand.log.of("end")[-1] == "end 2@/b PREEMPTED 0"
    assert hand.give() == 8
    assert not mine.non_blocking_wait_rq


@pytest.mark.parametrize(
    ("rules", "first", "second", "preempts"),
    [
        ("6.12", ("/", 4), ("/", 4), True),
        ("5.10", ("/", 4), ("/", 4), False),
        ("5.10", ("/", 4), ("/", 0), True),
        ("5.10", ("/", 4), ("/a", 7), True),
        ("5.10", ("/a", 0), ("/", 0), False),
        ("6.12", ("/a", 4), ("/a", 4), False),
        ("6.12", ("/a", 4), ("/b", 4), False),
    ],
)
def test_who_preempts_an_empty_queue(
    rules: str, first: tuple[str, int], second: tuple[str, int], preempts: bool
) -> None:
    """Class and weight; since 5.12 also anybody, when the one in service needs no idling; never inside one group."""
    hand = Hand(rules)
    one = hand.task(first[0], pack(IOPRIO_CLASS_BE, first[1]))
    other = hand.task(second[0], pack(IOPRIO_CLASS_BE, second[1]))
    hand.read(one, 0)
    assert hand.give() == 0
    hand.skip(700 * MS)
    hand.read(other, 5000)
    assert bool(hand.log.of("end")) == preempts


def test_class_and_weight_are_compared_where_they_compete() -> None:
    """Classes first; weights of siblings, else those of the groups that own them."""
    hand = Hand(slice_idle=0)
    places = {"/": 40, "/a": 100, "/b": 300}
    queues = {}
    for path in places:
        hand.machine.cgroups.get(path).set_weight(places[path])
        for kind, level in ((IOPRIO_CLASS_BE, 0), (IOPRIO_CLASS_BE, 4), (IOPRIO_CLASS_RT, 7)):
            task = hand.task(path, pack(kind, level))
            hand.read(task, 0)
            queues[path, kind, level] = hand.queue(task)
            hand.skip(700 * MS)
    be, rt = IOPRIO_CLASS_BE, IOPRIO_CLASS_RT
    for higher, lower in (
        (("/", be, 0), ("/", be, 4)),
        (("/a", be, 4), ("/", be, 0)),
        (("/b", be, 4), ("/a", be, 0)),
        (("/b", rt, 7), ("/a", be, 0)),
    ):
        assert has_higher_class_or_weight(queues[higher], queues[lower])
        assert not has_higher_class_or_weight(queues[lower], queues[higher])
    assert has_higher_class_or_weight(queues["/", rt, 7], queues["/b", be, 4]), "by class"
    assert has_higher_class_or_weight(queues["/b", be, 4], queues["/", rt, 7]), "by the weight of its group"


def test_the_idle_class_gives_way_after_each_request() -> None:
    """With anybody else busy its slot ends with one request."""
    hand = Hand()
    last, other = hand.task("/", pack(3, 0)), hand.task("/", pack(IOPRIO_CLASS_BE, 4))
    hand.read(last, 0, 100, 200)
    assert [hand.give(), hand.give()] == [0, 100], "alone"
    hand.read(other, 5000)
    assert hand.give() == 5000


def test_a_request_that_does_not_fit_ends_the_slot() -> None:
    """Spec §8.2-6: a budget is never exceeded."""
    hand = Hand(max_budget=64)
    task = hand.task()
    hand.read(task, 0, 100, 200, 300, 400, nr=24)
    bfqq = hand.queue(task)
    bfqq.budget = 64
    assert [hand.give(), hand.give()] == [0, 100]
    assert bfqq.service == 48
    assert hand.give() == 200
    assert hand.log.of("end") == ["end 1@/ BUDGET_EXHAUSTED 0"]
    assert bfqq.budget == 64
