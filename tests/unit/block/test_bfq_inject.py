"""Injection and wakers: what is served while the device is kept for a queue, and how BFQ learns it (spec §4.10)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.inject import (
    WHY_ASYNC,
    WHY_LIMIT,
    WHY_WAKER,
    WHY_WOKEN,
    choose_for_injection,
    reset_inject_limit,
    select_to_inject,
    update_inject_limit,
    watch_service_time,
)
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.waker import check_waker, set_waker

US = 1000


def plugged(rules: str = "6.12", nr_others: int = 2, **options: int) -> tuple[Hand, HandTask, BfqQueue, list[HandTask]]:
    """Build a world that is kept for the queue of /a, whose request is in the driver; others of /b wait."""
    hand = Hand(rules, **options)
    owner = hand.task("/a")
    hand.read(owner, 0)
    others = []
    for at in range(nr_others):
        hand.skip(700 * MS)
        task = hand.task("/b")
        hand.read(task, (at + 1) << 20)
        others.append(task)
    assert hand.give() == 0
    assert hand.give() == -1
    return hand, owner, hand.queue(owner), others


# -- the limit


@pytest.mark.parametrize(
    ("limit", "base_us", "total_us", "injected", "in_driver", "expected"),
    [
        # The first sample, alone in the driver.
        (0, 0, 500, False, 1, (1, 500)),
        (3, 0, 500, False, 1, (3, 500)),
        (0, 0, 500, False, 2, (0, 0)),
        # With injection: up while it takes less than half as long again, else down.
        (1, 500, 749, True, 2, (2, 500)),
        (1, 500, 750, True, 2, (0, 500)),
        (0, 500, 750, True, 2, (0, 500)),
        (8, 500, 600, True, 2, (9, 500)),
        (9, 500, 600, True, 2, (9, 500)),
        # A shorter time is the new base, however it came about.
        (2, 500, 400, True, 3, (3, 400)),
        (2, 500, 400, False, 3, (2, 400)),
        # A longer one only when nothing else was there.
        (2, 500, 600, False, 1, (2, 600)),
        (2, 500, 600, False, 2, (2, 500)),
    ],
)
def test_learning(
    limit: int, base_us: int, total_us: int, injected: bool, in_driver: int, expected: tuple[int, int]
) -> None:
    """Each timed request moves the limit by one at most, never beyond what the driver has had at once."""
    hand, _, mine, _ = plugged()
    bfqd = hand.bfqd
    mine.inject_limit, mine.last_serv_ns = limit, base_us * US
    bfqd.rqs_injected, bfqd.tot_rq_in_driver, bfqd.max_rq_in_driver = injected, in_driver, 8
    bfqd.last_empty_occupied_ns = hand.machine.now - total_us * US
    before = int(mine.decrease_jif)
    hand.skip(8 * MS)
    bfqd.last_empty_occupied_ns += 8 * MS
    update_inject_limit(bfqd, mine)
    assert (mine.inject_limit, mine.last_serv_ns) == (expected[0], expected[1] * US)
    assert (bfqd.waited_rq, bfqd.rqs_injected) == (None, False)
    assert (mine.decrease_jif == bfqd.jif()) == (expected[0] < limit) or before == bfqd.jif()


@pytest.mark.parametrize(("is_short", "limit"), [(True, 0), (False, 1)])
def test_beginning_anew(is_short: bool, limit: int) -> None:
    """From 0, or from 1 for a queue that thinks long."""
    hand, _, mine, _ = plugged()
    mine.inject_limit, mine.last_serv_ns, mine.has_short_ttime = 5, 700, is_short
    reset_inject_limit(hand.bfqd, mine)
    assert (mine.inject_limit, mine.last_serv_ns, mine.decrease_jif) == (limit, 0, hand.bfqd.jif())


@pytest.mark.parametrize(
    ("in_driver", "base", "injected", "pause_ms", "expected"),
    [
        (0, 0, False, 12, True),
        (0, 500, True, 12, True),
        (0, 0, False, 8, False),
        (2, 500, True, 12, True),
        (2, 500, False, 12, False),
        (2, 0, True, 12, False),
    ],
)
def test_when_a_request_is_timed(in_driver: int, base: int, injected: bool, pause_ms: int, expected: bool) -> None:
    """In an empty driver, or among injected ones when there is a base; not within 10 ms after a decrease."""
    hand, _, mine, _ = plugged()
    bfqd = hand.bfqd
    mine.last_serv_ns, mine.decrease_jif = base, bfqd.jif()
    hand.skip(pause_ms * MS)
    bfqd.tot_rq_in_driver, bfqd.rqs_injected, bfqd.wait_dispatch = in_driver, injected, False
    watch_service_time(bfqd, mine)
    assert bfqd.wait_dispatch == expected
    if expected:
        assert bfqd.last_empty_occupied_ns == hand.machine.now
        assert bfqd.rqs_injected == (in_driver > 0)


def test_a_sample_from_insertion_to_completion() -> None:
    """The first one sets the limit to 1; a second later it is learnt anew."""
    hand, owner, mine, _ = plugged(nr_others=1)
    hand.complete()
    hand.skip(MS)
    hand.read(owner, 8)
    assert (hand.bfqd.wait_dispatch, mine.inject_limit) == (True, 0)
    assert hand.give() == 8
    rq = hand.given[0]
    assert hand.bfqd.waited_rq is rq
    hand.skip(MS)
    hand.complete()
    assert (mine.inject_limit, mine.last_serv_ns) == (1, MS)
    hand.skip(MS)
    mine.decrease_jif -= 251
    hand.read(owner, 16)
    assert (mine.inject_limit, mine.last_serv_ns) == (0, 0)


@pytest.mark.parametrize(("rules", "expected"), [("6.12", False), ("5.10", True)])
def test_which_requests_count(rules: str, expected: bool) -> None:
    """Since 5.12 only a process's single request; before, the first in an empty queue."""
    hand, owner, mine, _ = plugged(rules, nr_others=1)
    mine.decrease_jif -= 10
    hand.bfqd.tot_rq_in_driver, mine.last_serv_ns, hand.bfqd.rqs_injected = 1, 500, True
    assert hand.bic(owner).requests == 1
    hand.read(owner, 8)
    assert hand.bfqd.wait_dispatch == expected


# -- the choice


@pytest.mark.parametrize(("limit", "in_driver", "expected"), [(0, 0, False), (1, 0, True), (1, 1, False), (3, 2, True)])
def test_the_limit_is_one_of_the_driver(limit: int, in_driver: int, expected: bool) -> None:
    """Fewer requests than the limit must be in the driver, the owner's included."""
    hand, _, mine, others = plugged()
    mine.inject_limit, hand.bfqd.tot_rq_in_driver = limit, in_driver
    chosen = choose_for_injection(hand.bfqd, mine)
    assert chosen is (hand.queue(others[-1]) if expected else None), "the last that became active"
    assert hand.bfqd.rqs_injected == expected


def test_the_limit_while_the_timer_runs_is_dead_code() -> None:
    """ns are added to jiffies: with 8 ms it never comes true; with 0 ns it would."""
    hand, owner, mine, others = plugged(nr_others=1)
    hand.complete()
    assert mine.wait_request
    hand.skip(7 * MS)
    assert choose_for_injection(hand.bfqd, mine) is None
    hand.bfqd.slice_idle_ns = 1
    assert choose_for_injection(hand.bfqd, mine) is hand.queue(others[0])
    assert hand.queue(owner) is mine


def test_what_is_not_injected() -> None:
    """What its budget does not cover; a large request beside others on flash; beside raised queues only such."""
    hand, _, mine, others = plugged()
    bfqd = hand.bfqd
    mine.inject_limit = 4
    first, second = hand.queue(others[1]), hand.queue(others[0])
    assert choose_for_injection(bfqd, mine) is first
    first.service = first.budget - 7
    assert choose_for_injection(bfqd, mine) is second
    rq = second.next_rq
    assert rq is not None
    rq.nr_sectors = 64
    assert choose_for_injection(bfqd, mine) is None
    bfqd.tot_rq_in_driver = 0
    assert choose_for_injection(bfqd, mine) is second
    mine.wr_coeff = 30
    assert choose_for_injection(bfqd, mine) is None
    mine.has_short_ttime = False
    assert choose_for_injection(bfqd, mine) is second
    mine.has_short_ttime, second.wr_coeff = True, 30
    assert choose_for_injection(bfqd, mine) is second


def test_injected_service_is_the_other_queues() -> None:
    """It is charged and, when it runs empty, is no longer busy; the owner stays in service."""
    hand, _, mine, others = plugged(nr_others=1)
    mine.inject_limit = 2
    other = hand.queue(others[0])
    assert hand.give() == 1 << 20
    assert hand.log.of("inject") == [f"inject {other.path()} {WHY_LIMIT}"]
    assert hand.bfqd.in_service_queue is mine
    assert (other.is_busy, other.dispatched, other.budget, other.service) == (False, 1, 0, 0)
    assert hand.group("/b").service == 0, "inactive"


def test_the_order_of_choices() -> None:
    """Its own async requests, its waker, whom it wakes, then whoever the limit allows."""
    hand, owner, mine, others = plugged()
    waker, woken = hand.queue(others[0]), hand.queue(others[1])
    mine.inject_limit = 4
    set_waker(hand.bfqd, mine, waker)
    set_waker(hand.bfqd, woken, mine)
    hand.write(owner, 9 << 20, flags=0)
    seen = []
    for expected in (hand.async_queue(owner), waker, woken):
        assert select_to_inject(hand.bfqd, mine) is expected
        assert hand.give() >= 0
        seen.append(int(hand.log.of("inject")[-1][-1]))
    assert seen == [WHY_ASYNC, WHY_WAKER, WHY_WOKEN]
    assert select_to_inject(hand.bfqd, mine) is None
    hand.check()


def test_another_processs_async_requests_are_not_its_own() -> None:
    """The async queue is shared: the next request there must be this process's."""
    hand, owner, mine, _ = plugged(nr_others=1)
    stranger = hand.task("/a")
    hand.write(stranger, 9 << 20, flags=0)
    hand.write(owner, 10 << 20, flags=0)
    assert hand.async_queue(owner) is hand.async_queue(stranger)
    assert select_to_inject(hand.bfqd, mine) is None


def test_nothing_is_injected_where_idling_pays() -> None:
    """On a disk, for a sequential reader."""
    hand, _, mine, _ = plugged(is_rotational=True)
    mine.inject_limit = 8
    assert select_to_inject(hand.bfqd, mine) is None
    mine.is_io_bound = False
    assert select_to_inject(hand.bfqd, mine) is not None


# -- wakers


def pair(rules: str) -> tuple[Hand, BfqQueue, BfqQueue, BfqQueue]:
    """Build three queues; the first thinks long."""
    hand = Hand(rules, slice_idle=8)
    tasks = [hand.task(path) for path in ("/a", "/b", "/c")]
    for at, task in enumerate(tasks):
        hand.read(task, at << 20)
    mine, one, two = (hand.queue(task) for task in tasks)
    mine.has_short_ttime = False
    return hand, mine, one, two


def see(hand: Hand, mine: BfqQueue, last: BfqQueue, since_ns: int = MS) -> None:
    """See a request of mine since_ns after a completion of last."""
    hand.bfqd.last_completed_rq_bfqq = last
    hand.bfqd.last_completion_ns = hand.machine.now - since_ns
    check_waker(hand.bfqd, mine, hand.machine.now)


def test_three_sightings_make_a_waker() -> None:
    """Of the same queue in a row; another one begins anew."""
    hand, mine, one, two = pair("6.12")
    for last in (one, one, two, two):
        see(hand, mine, last)
    assert (mine.waker, mine.tentative_waker, mine.nr_waker_detections) == (None, two, 2)
    see(hand, mine, two)
    assert (mine.waker, mine.tentative_waker) == (two, None)
    assert two.woken_list == [mine]
    for _ in range(3):
        see(hand, mine, one)
    assert (mine.waker, two.woken_list, one.woken_list) == (one, [], [mine])
    assert hand.log.of("waker") == ["waker 3@/c", "waker 2@/b"]


@pytest.mark.parametrize(
    ("what", "counts"), [("", True), ("short", False), ("itself", False), ("late", False), ("nobody", False)]
)
def test_what_is_a_sighting(what: str, counts: bool) -> None:
    """Within 4 ms of another's completion, by a queue that thinks long."""
    hand, mine, one, _ = pair("6.12")
    mine.has_short_ttime = what == "short"
    if what == "nobody":
        hand.bfqd.last_completed_rq_bfqq = None
        check_waker(hand.bfqd, mine, hand.machine.now)
    else:
        see(hand, mine, mine if what == "itself" else one, 4 * MS - (what != "late"))
    assert mine.nr_waker_detections == counts


@pytest.mark.parametrize(("ms", "found"), [(1024, True), (1025, False)])
def test_the_sightings_must_be_near_each_other(ms: int, found: bool) -> None:
    """Within 128 times slice_idle of the first."""
    hand, mine, one, _ = pair("6.12")
    see(hand, mine, one)
    see(hand, mine, one)
    hand.skip(ms * MS)
    see(hand, mine, one)
    assert (mine.waker is one) == found


def test_wakers_until_5_11() -> None:
    """Within 0.2 ms; the first sighting names it, the second confirms it."""
    hand, mine, one, two = pair("5.10")
    see(hand, mine, one, 200 * US)
    assert hand.log.of("waker") == []
    see(hand, mine, one, 199 * US)
    assert (mine.waker, mine.has_waker) == (one, False)
    see(hand, mine, one, 10 * US)
    assert mine.has_waker
    see(hand, mine, two, 10 * US)
    assert (mine.waker, mine.has_waker) == (two, False)
    see(hand, mine, mine, 10 * US)
    assert mine.waker is two


@pytest.mark.parametrize(
    ("rules", "confirmed", "expected"), [("5.10", False, False), ("5.10", True, True), ("6.12", False, True)]
)
def test_a_waker_must_be_confirmed(rules: str, confirmed: bool, expected: bool) -> None:
    """Until 5.11, before anything of it is injected."""
    hand, _, mine, others = plugged(rules, nr_others=1)
    waker = hand.queue(others[0])
    set_waker(hand.bfqd, mine, waker)
    mine.has_waker = confirmed
    assert select_to_inject(hand.bfqd, mine) is (waker if expected else None)


def test_the_last_to_become_busy_is_the_first_to_be_woken() -> None:
    """A waker's list is in that order."""
    hand, mine, one, two = pair("6.12")
    set_waker(hand.bfqd, one, mine)
    set_waker(hand.bfqd, two, mine)
    assert mine.woken_list == [two, one]
    hand.bfqd.slice_idle_ns = 0
    hand.give_all()
    while hand.given:
        hand.complete()
    task = hand.history.tasks[1]
    assert isinstance(task, HandTask)
    hand.read(task, 64)
    assert mine.woken_list == [one, two]


def test_the_end_of_a_waker() -> None:
    """Whoever waited for it waits for nobody."""
    hand, mine, one, _ = pair("6.12")
    set_waker(hand.bfqd, mine, one)
    hand.bfqd.slice_idle_ns = 0
    hand.give_all()
    while hand.given:
        hand.complete()
    task = hand.history.tasks[1]
    assert isinstance(task, HandTask)
    hand.exit(task)
    if not one.is_freed:
        hand.group("/b").children.be.vtime += 1 << 50
        for other in ("/b", "/c"):
            hand.read(hand.task(other), 5 << 20)
            hand.serve()
    assert one.is_freed
    assert mine.waker is None
