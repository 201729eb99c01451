"""Weight raising (low_latency) and bursts: who is raised, for how long, and by what (spec §4.9, §3.6)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.raising import (
    end_or_go_back,
    end_wr,
    is_soft_rt,
    softrt_next_start,
    update_wr,
    wr_duration,
)
from blktwin.block.ioprio import IOPRIO_CLASS_BE, pack

SEC = 1000 * MS


def started(
    pause_ms: int = 3000, rules: str = "6.12", ioprio: int = 0, **options: int
) -> tuple[Hand, HandTask, BfqQueue]:
    """Build a world with a queue that has had one request, and nothing for a while since."""
    hand = Hand(rules, **options)
    task = hand.task("/", ioprio)
    hand.read(task, 0)
    hand.serve()
    hand.wait(20 * MS)
    hand.bfq.set_tunable("low_latency", 1)
    hand.skip(pause_ms * MS - 20 * MS)
    hand.queue(task).max_budget = 16384
    return hand, task, hand.queue(task)


@pytest.mark.parametrize("is_rotational", [False, True])
def test_how_long_an_interactive_queue_is_raised(is_rotational: bool) -> None:
    """3.75 s on flash and 10.5 s on disks to begin with; then by the peak rate, within 3..25 s."""
    hand = Hand(is_rotational=is_rotational)
    bfqd = hand.bfqd
    assert wr_duration(bfqd) == (2625 if is_rotational else 937)
    ref = 14000 * 7 if is_rotational else 33000 * 2.5
    for rate, seconds in ((ref / 5, 5), (ref / 20, 20), (ref / 2, 3), (ref / 100, 25)):
        bfqd.peak_rate = int(rate)
        assert abs(int(wr_duration(bfqd)) - seconds * 250) <= 1


@pytest.mark.parametrize(
    ("pause_ms", "ioprio", "rules", "coeff"),
    [
        (2100, 0, "6.12", 30),
        (1900, 0, "6.12", 1),
        (2100, pack(IOPRIO_CLASS_BE, 3), "6.12", 1),
        (2100, pack(IOPRIO_CLASS_BE, 3), "5.10", 30),
    ],
)
def test_who_is_interactive(pause_ms: int, ioprio: int, rules: str, coeff: int) -> None:
    """Who had no request for 2 s; since 5.12 only with the default weight."""
    hand, task, bfqq = started(pause_ms, rules, ioprio)
    bfqq.soft_rt_next_start_jif = 1 << 40
    hand.read(task, 4096)
    assert bfqq.wr_coeff == coeff
    if coeff > 1:
        assert bfqq.wr_cur_max_jif == wr_duration(hand.bfqd)
        assert bfqq.service_from_wr == 0
        assert bfqq.budget == 1024, "twice the least"
        assert bfqq.weight == bfqq.orig_weight * 30
        assert hand.bfqd.wr_busy_queues == 1
        assert hand.bfqd.weights == [], "raised queues are not in the weights tree"


def test_a_new_queue_is_interactive() -> None:
    """Its first request finds it without requests for as long as anybody knows."""
    hand = Hand(low_latency=1)
    task = hand.task()
    hand.read(task, 0)
    assert hand.log.of("raise") == ["raise 1@/ 1->30"]
    assert hand.give() == 0
    assert hand.queue(task).budget_timeout_jif == hand.bfqd.jif() + 31 * 30


def test_nobody_is_raised_without_low_latency() -> None:
    """Nor is an async queue at its first request."""
    hand = Hand()
    hand.read(hand.task(), 0)
    hand = Hand(low_latency=1)
    hand.write(hand.task(), 0, flags=0)
    assert hand.log.of("raise") == []


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("", 0, True),
        ("dispatched", 1, False),
        ("in_large_burst", True, False),
        ("nr_seeks", 32, False),
        ("nr_seeks", 31, True),
        ("new_weight", 30, False),
    ],
)
def test_who_is_soft_real_time(field: str, value: int, expected: bool) -> None:
    """Who asks later than soft_rt_next_start, has nothing in flight, is no part of a burst, and seeks not always."""
    hand, _, bfqq = started(500)
    jif = int(hand.bfqd.jif())
    bfqq.soft_rt_next_start_jif = jif - 1
    if field:
        setattr(bfqq, field, value)
    assert is_soft_rt(hand.bfqd, bfqq, jif) == expected
    assert not is_soft_rt(hand.bfqd, bfqq, jif - 1), "strictly later"


def test_a_soft_real_time_queue_is_raised_more() -> None:
    """3000 times, for 300 ms since its last arrival."""
    hand, task, bfqq = started(500)
    bfqq.soft_rt_next_start_jif = hand.bfqd.jif() - 1
    hand.read(task, 4096)
    assert (bfqq.wr_coeff, bfqq.wr_cur_max_jif, bfqq.weight) == (3000, 75, 120000)
    hand.serve()
    hand.wait(100 * MS)
    bfqq.soft_rt_next_start_jif = hand.bfqd.jif() - 1
    hand.read(task, 8192)
    assert bfqq.last_wr_start_finish_jif == hand.bfqd.jif(), "each arrival begins the time anew"
    assert hand.give() == 8192
    for ticks, coeff in ((75, 3000), (1, 1)):
        bfqq.last_wr_start_finish_jif -= ticks
        update_wr(hand.bfqd, bfqq)
        assert (bfqq.wr_coeff, bfqq.weight) == (coeff, 40 * coeff)


def test_waiting_is_no_soft_real_time() -> None:
    """The time since its last slot is added to the begin of its raising."""
    hand, task, bfqq = started(500)
    bfqq.soft_rt_next_start_jif = hand.bfqd.jif() - 1
    hand.read(task, 4096)
    began = int(bfqq.last_wr_start_finish_jif)
    hand.serve()
    hand.wait(100 * MS)
    assert bfqq.budget_timeout_jif == began + 5, "idle since its timer of 20 ms fired"
    bfqq.soft_rt_next_start_jif = 1 << 40
    hand.read(task, 8192)
    assert hand.give() == 8192
    assert bfqq.last_wr_start_finish_jif == began + 25 - 5


def test_soft_real_time_inside_an_interactive_time() -> None:
    """It goes back to what is left of that."""
    hand, task, bfqq = started()
    hand.read(task, 4096)
    began = int(bfqq.last_wr_start_finish_jif)
    hand.serve()
    hand.wait(200 * MS)
    bfqq.soft_rt_next_start_jif = hand.bfqd.jif() - 1
    hand.read(task, 8192)
    assert (bfqq.wr_coeff, bfqq.wr_start_at_switch_to_srt_jif) == (3000, began)
    assert hand.give() == 8192
    bfqq.last_wr_start_finish_jif -= 76
    update_wr(hand.bfqd, bfqq)
    assert (bfqq.wr_coeff, bfqq.last_wr_start_finish_jif) == (30, began)
    assert hand.log.of("raise")[-3:] == ["raise 1@/ 1->30", "raise 1@/ 30->3000", "raise 1@/ 3000->30"]


@pytest.mark.parametrize(
    ("since_s", "service", "burst", "coeff"),
    [(3, 8, False, 30), (4, 8, False, 1), (1, 120000, False, 30), (1, 120001, False, 1), (1, 8, True, 1)],
)
def test_when_raising_ends(since_s: int, service: int, burst: bool, coeff: int) -> None:
    """After its time, after 120000 sectors, or as a part of a large burst; its weight follows at once."""
    hand, task, bfqq = started()
    hand.read(task, 4096)
    assert hand.give() == 4096
    hand.skip(since_s * SEC)
    bfqq.service_from_wr, bfqq.in_large_burst = service, burst
    update_wr(hand.bfqd, bfqq)
    assert (bfqq.wr_coeff, bfqq.weight) == (coeff, 40 * coeff)
    assert hand.bfqd.wr_busy_queues == (coeff > 1)
    if coeff == 1:
        assert (bfqq.wr_cur_max_jif, bfqq.last_wr_start_finish_jif) == (0, hand.bfqd.jif())
        assert bfqq.soft_rt_next_start_jif == hand.bfqd.jif(), "an interactive one may be soft real-time from now on"
    hand.check()


def test_soft_real_time_that_only_seeks_is_none() -> None:
    """It ends with the 32nd seek in a row, or goes back to the interactive time."""
    for began_ago, coeff in ((20 * SEC, 1), (1 * SEC, 30)):
        hand, task, bfqq = started(500)
        bfqq.soft_rt_next_start_jif = hand.bfqd.jif() - 1
        hand.read(task, 4096)
        bfqq.wr_start_at_switch_to_srt_jif = hand.bfqd.jif() - began_ago // (4 * MS)
        end_or_go_back(hand.bfqd, bfqq, int(hand.bfqd.jif()))
        assert bfqq.wr_coeff == coeff


def test_when_the_next_request_is_soft_real_time() -> None:
    """Not before what was served fits 7000 sectors a second, nor within slice_idle and four ticks."""
    hand, _, bfqq = started(500)
    jif = int(hand.bfqd.jif())
    bfqq.soft_rt_next_start_jif, bfqq.last_idle_bklogged_jif = 0, jif - 100
    bfqq.service_from_backlogged = 100
    assert softrt_next_start(hand.bfqd, bfqq) == jif + 2 + 4
    bfqq.service_from_backlogged = 7000
    assert softrt_next_start(hand.bfqd, bfqq) == jif - 100 + 250
    bfqq.soft_rt_next_start_jif = jif + 1000
    assert softrt_next_start(hand.bfqd, bfqq) == jif + 1000


def test_an_async_queue_that_writes_rarely_is_raised() -> None:
    """While it is busy, 500 ms after the last time; at its next activation the weight follows."""
    hand = Hand(low_latency=1)
    task = hand.task()
    hand.write(task, 0, flags=0)
    hand.write(task, 100, flags=0)
    assert hand.async_queue(task).wr_coeff == 1
    hand.skip(504 * MS)
    hand.write(task, 200, flags=0)
    assert hand.async_queue(task).wr_coeff == 30
    assert hand.bfqd.wr_busy_queues == 1


def test_low_latency_off_ends_all_raising() -> None:
    """Of busy and idle queues."""
    hand = Hand(low_latency=1)
    one, two = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.read(two, 5000)
    assert hand.bfqd.wr_busy_queues == 2
    hand.bfq.set_tunable("low_latency", 0)
    assert [hand.queue(task).wr_coeff for task in (one, two)] == [1, 1]
    assert hand.bfqd.wr_busy_queues == 0
    hand.check()


def test_the_end_of_raising_twice_counts_once() -> None:
    """A queue that is not busy is not uncounted."""
    hand, _, bfqq = started()
    bfqq.wr_coeff = 30
    end_wr(hand.bfqd, bfqq)
    assert hand.bfqd.wr_busy_queues == 0


# -- bursts


def burst(hand: Hand, nr: int, gap_ms: int = 0, path: str = "/") -> list[HandTask]:
    """Let nr processes begin, one after another; the first has ended when the others come."""
    tasks = []
    for at in range(nr):
        task = hand.task(path)
        hand.read(task, at << 20)
        hand.skip(gap_ms * MS)
        tasks.append(task)
    return tasks


def test_eight_queues_are_a_large_burst() -> None:
    """Seven are none; the eighth marks all; more are marked as they come."""
    hand = Hand("5.10", low_latency=1)
    tasks = burst(hand, 7)
    bfqd = hand.bfqd
    assert (len(bfqd.burst_list), bfqd.burst_size, bfqd.large_burst) == (7, 7, False)
    tasks += burst(hand, 1)
    assert (bfqd.burst_list, bfqd.large_burst) == ([], True)
    assert all(hand.queue(task).in_large_burst for task in tasks)
    tasks += burst(hand, 1)
    assert hand.queue(tasks[-1]).in_large_burst
    assert [int(hand.queue(task).wr_coeff) for task in tasks] == [30] * 7 + [1, 1]


@pytest.mark.parametrize(("gap_ms", "size"), [(180, 7), (184, 0)])
def test_a_burst_is_of_queues_at_most_180_ms_apart(gap_ms: int, size: int) -> None:
    """A later one begins a new burst, with itself only if nothing else goes on."""
    hand = Hand("5.10", low_latency=1)
    burst(hand, 7, gap_ms)
    assert hand.bfqd.burst_size == size


def test_a_burst_is_of_one_group() -> None:
    """The queue of another group begins a new one."""
    hand = Hand("5.10", low_latency=1)
    burst(hand, 7)
    tasks = burst(hand, 1, path="/a")
    assert hand.bfqd.burst_parent is hand.group("/a")
    assert hand.bfqd.burst_size == 0, "others are busy"
    assert not hand.queue(tasks[0]).in_large_burst


def test_leaving_a_burst() -> None:
    """Ten seconds without requests make it a queue like others; the end of its process makes the burst smaller."""
    hand = Hand("5.10", low_latency=1)
    tasks = burst(hand, 8)
    assert len(hand.give_all()) > 0
    while hand.given or hand.bfqd.queued:
        if hand.given:
            hand.complete()
        hand.give_all()
        hand.wait(20 * MS)
    bfqq = hand.queue(tasks[0])
    assert (bfqq.in_large_burst, bfqq.wr_coeff) == (True, 1)
    hand.skip(9 * SEC)
    hand.read(tasks[0], 64)
    assert bfqq.in_large_burst
    hand.serve()
    hand.wait(20 * MS)
    hand.skip(11 * SEC)
    hand.read(tasks[0], 128)
    assert not bfqq.in_large_burst


def test_the_end_of_a_process_makes_the_burst_smaller() -> None:
    """If it ends in it, without anything in flight."""
    hand = Hand("5.10", slice_idle=0)
    tasks = burst(hand, 3)
    hand.give_all()
    for _ in tasks:
        hand.complete()
    assert hand.bfqd.burst_size == 3
    hand.exit(tasks[1])
    hand.bfqd.root_group.children.be.vtime += 1 << 40
    hand.read(tasks[0], 64)
    hand.serve()
    assert (hand.bfqd.burst_size, len(hand.bfqd.burst_list)) == (2, 2)


def test_a_large_burst_ends_raising_even_after_long_idling() -> None:
    """A raised queue that a burst has marked is raised no more at its next request, which also makes it leave."""
    hand, task, bfqq = started()
    hand.read(task, 4096)
    hand.serve()
    hand.wait(25 * MS)
    bfqq.in_large_burst = True
    hand.skip(12 * SEC)
    hand.read(task, 8192)
    assert (bfqq.wr_coeff, bfqq.in_large_burst) == (1, False)
