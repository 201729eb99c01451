"""Who makes the dispatcher run again (spec §4.1), and what must be forgotten or handed on when queues change."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.coop import merge_queues, setup_merge
from blktwin.block.bfq.expire import charge_slot_time
from blktwin.block.bfq.inject import reset_inject_limit
from blktwin.block.bfq.log import NO_MORE_REQUESTS
from blktwin.block.bfq.waker import set_waker
from blktwin.block.ioprio import IOPRIO_CLASS_BE, pack


def running() -> tuple[Hand, HandTask, HandTask]:
    """Build a world that runs by itself, kept for the queue of /a while one of /b waits."""
    hand = Hand(is_running=1)
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.read(other, 1 << 20)
    assert held(hand) == [0]
    return hand, one, other


def held(hand: Hand) -> list[int]:
    """Return what the device has."""
    return [int(rq.sector) for rq in hand.device.held]


def end(hand: Hand) -> None:
    """Complete the device's oldest request, and let no work run."""
    rq = hand.device.held.pop(0)
    hand.machine.current = hand.machine.idle[0]
    rq.q.complete_here(rq, 0)
    hand.check()


def test_a_completion_that_must_idle_kicks_nobody() -> None:
    """Nothing runs but the 3 ms of the run that got nothing; the timer ends the slot and kicks."""
    hand, _, _ = running()
    assert len(hand.machine.works) == 1, "K4"
    hand.machine.works[0][2].is_pending = False
    hand.machine.works.clear()
    end(hand)
    assert hand.machine.works == []
    assert len(hand.machine.timers) == 1
    hand.machine.now += 8 * MS
    hand.machine.fire_timers()
    assert len(hand.machine.works) == 1, "K3"
    hand.machine.run_works()
    assert held(hand) == [1 << 20]


def test_a_run_that_got_nothing_comes_again() -> None:
    """K4: after 3 ms, in ticks."""
    hand, _, _ = running()
    due, _, _ = hand.machine.works[0]
    assert 4 * MS <= due - hand.machine.now <= 8 * MS


def test_the_last_completion_kicks() -> None:
    """K3: when nothing is in the driver any more and nobody is waited for."""
    hand = Hand(slice_idle=0)
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    assert hand.give() == 0
    hand.read(other, 1 << 20)
    hand.hctx.is_stopped = False
    hand.complete()
    assert len(hand.machine.works) == 1
    hand.machine.run_works()
    assert held(hand) == [1 << 20]


@pytest.mark.parametrize("has_other", [True, False])
def test_a_completion_with_others_in_flight_ends_only_what_it_may(has_other: bool) -> None:
    """A queue that is empty stays in service while it has requests in flight and is worth waiting for."""
    hand = Hand()
    one = hand.task("/a")
    hand.read(one, 0, 100)
    if has_other:
        hand.read(hand.task("/b"), 1 << 20)
    assert [hand.give(), hand.give()] == [0, 100]
    hand.complete()
    assert hand.bfqd.in_service_queue is hand.queue(one)
    assert hand.log.of("idle") == [], "another one is in flight"
    hand.complete()
    assert len(hand.log.of("idle")) == 1
    hand = Hand(slice_idle=0)
    one = hand.task("/a")
    hand.read(one, 0, 100)
    assert [hand.give(), hand.give()] == [0, 100]
    hand.complete()
    assert hand.bfqd.in_service_queue is None, "not worth it"


def test_the_end_of_a_process_in_service_kicks() -> None:
    """Its slot ends, and somebody else's begins."""
    hand = Hand()
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    assert hand.serve() == 0
    assert hand.queue(one).wait_request
    hand.read(other, 1 << 20)
    assert hand.give() == -1
    hand.hctx.is_stopped = False
    hand.exit(one)
    assert hand.machine.timers == []
    hand.machine.run_works()
    assert held(hand) == [1 << 20]


def test_a_move_kicks_when_nothing_goes_on() -> None:
    """With nothing in service and nothing in flight."""
    for in_flight in (False, True):
        hand = Hand(slice_idle=0)
        task, other = hand.task("/a"), hand.task("/c")
        hand.read(task, 0)
        if in_flight:
            hand.read(other, 1 << 20)
            while hand.give() != 1 << 20:
                pass
            if hand.queue(task).nr_queued == 0:
                hand.read(task, 8)
        hand.hctx.is_stopped = False
        hand.machine.works.clear()
        hand.machine.cgroups.get("/a").go_offline()
        is_kicked = len(hand.machine.works) == 1
        assert is_kicked == (hand.bfqd.in_service_queue is None and hand.bfqd.tot_rq_in_driver == 0)
        assert is_kicked != in_flight


def test_a_slot_looks_at_its_fifo_once_and_the_next_one_again() -> None:
    """The flag is cleared when a slot begins."""
    hand = Hand(slice_idle=0)
    task = hand.task()
    hand.read(task, 0, 100)
    bfqq = hand.queue(task)
    bfqq.fifo_expire = True
    assert hand.give() == 0
    assert bfqq.fifo_expire, "set by the look for the next request"
    hand = Hand(slice_idle=0)
    task = hand.task()
    hand.read(task, 9000)
    hand.skip(130 * MS)
    hand.read(task, 100, 200)
    bfqq = hand.queue(task)
    bfqq.next_rq = bfqq.sort_list.requests[0]
    bfqq.fifo_expire = True
    assert [hand.give(), hand.give()] == [100, 9000]


def test_a_larger_next_request_raises_the_budget_of_a_waiting_queue() -> None:
    """And moves its finish."""
    hand = Hand()
    one, other = hand.task("/", pack(IOPRIO_CLASS_BE, 4)), hand.task("/", pack(IOPRIO_CLASS_BE, 0))
    hand.read(one, 1 << 20)
    assert hand.give() == 1 << 20
    hand.skip(700 * MS)
    hand.read(other, 5000)
    bfqq = hand.queue(other)
    assert bfqq is not hand.bfqd.in_service_queue
    bfqq.max_budget = 100
    hand.bfqd.last_position = 0
    before = int(bfqq.finish)
    hand.read(other, 64, nr=1024)
    assert bfqq.next_rq is bfqq.sort_list.requests[0]
    assert bfqq.budget == 1024
    assert bfqq.finish != before
    hand.read(other, 8)
    assert bfqq.budget == 100


def test_the_fifo_of_a_merged_request() -> None:
    """It takes the place of the earlier one, before those between."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 1016)
    hand.read(task, 90_000)
    hand.skip(10 * MS)
    hand.read(task, 1000)
    hand.read(task, 1008)
    bfqq = hand.queue(task)
    first = bfqq.fifo.head
    assert first is not None
    assert (first.sector, first.nr_sectors) == (1000, 24)
    assert first.fifo_next is not None
    assert first.fifo_next.sector == 90_000


def test_a_merge_hands_on_the_waker() -> None:
    """If the other queue has none, and it is not the waker itself; until 5.11 not at all."""
    for rules, own, expected in (("6.12", "", "waker"), ("5.10", "", ""), ("6.12", "own", "own"), ("6.12", "self", "")):
        hand = Hand(rules, slice_idle=0)
        tasks = [hand.task() for _ in range(4)]
        for at, task in enumerate(tasks):
            hand.read(task, at << 30)
            hand.skip(700 * MS)
        one, into, waker, another = (hand.queue(task) for task in tasks)
        set_waker(hand.bfqd, one, into if own == "self" else waker)
        if own == "own":
            set_waker(hand.bfqd, into, another)
        assert setup_merge(one, into) is into
        merge_queues(hand.bfqd, hand.bic(tasks[0]), one, "by hand")
        assert into.waker is {"waker": waker, "own": another, "": None}[expected]
        assert one.bic is None
        hand.check()


def test_nobody_waits_for_a_tentative_waker_that_is_gone() -> None:
    """The next sighting begins anew."""
    hand = Hand(slice_idle=0)
    tasks = [hand.task("/a"), hand.task("/b")]
    hand.read(tasks[0], 0)
    hand.read(tasks[1], 1 << 20)
    mine, gone = hand.queue(tasks[0]), hand.queue(tasks[1])
    hand.give_all()
    while hand.given:
        hand.complete()
    mine.tentative_waker = gone
    hand.group("/b").children.be.vtime += 1 << 50
    hand.exit(tasks[1])
    hand.read(hand.task("/b"), 2 << 20)
    hand.serve()
    assert gone.is_freed
    assert [mine.tentative_waker] == [None]
    assert hand.bfqd.last_completed_rq_bfqq is not gone


def test_a_reset_forgets_the_request_that_is_timed() -> None:
    """What it would have told is of no use any more."""
    hand = Hand()
    task = hand.task("/a")
    hand.read(task, 0)
    hand.give()
    hand.bfqd.waited_rq = hand.given[0]
    reset_inject_limit(hand.bfqd, hand.queue(task))
    assert hand.bfqd.waited_rq is None


@pytest.mark.parametrize(("us", "ms"), [(999, 8), (1000, 1)])
def test_a_slot_of_a_millisecond(us: int, ms: int) -> None:
    """Shorter ones count as 8 ms on a disk."""
    hand = Hand(is_rotational=True)
    task = hand.task()
    hand.read(task, 0)
    hand.give()
    bfqq = hand.queue(task)
    bfqq.seek_history, bfqq.nr_seeks = 0xFFFFFFFF, 32
    hand.skip(us * 1000)
    assert charge_slot_time(hand.bfqd, bfqq, False, NO_MORE_REQUESTS) == 16384 * ms // 124 - 8
