"""Queues that become one and are separated again: stable merges, close cooperators, splits (spec §3.3..3.5)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS, HandTask

from blktwin.block.bfq.coop import find_close, may_cooperate, setup_merge, too_late_to_merge
from blktwin.block.bfq.queue import LONG_AGO
from blktwin.block.bfq.saved import resume_state, save_state
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack

AFTER, OLD = "6.12", "5.10"
CREATED, CLOSE = "merge created together", "merge close to each other"


def together(hand: Hand, gap_ms: int, first: tuple[str, int] = ("/", 0), second: tuple[str, int] = ("/", 0)) -> bool:
    """Let two processes begin gap_ms apart; say whether they share a queue."""
    one, other = hand.task(*first), hand.task(*second)
    hand.read(one, 0)
    hand.skip(gap_ms * MS)
    hand.read(other, 1 << 20)
    return hand.queue(one) is hand.queue(other)


@pytest.mark.parametrize(
    ("rules", "gap_ms", "expected"),
    [(AFTER, 0, True), (AFTER, 180, True), (AFTER, 184, False), (AFTER, 700, False), (OLD, 0, False), ("6.1", 0, True)],
)
def test_queues_born_together_are_merged_at_once_on_flash(rules: str, gap_ms: int, expected: bool) -> None:
    """Within 180 ms, since 5.13; the merge is for good."""
    hand = Hand(rules)
    assert together(hand, gap_ms) == expected
    assert hand.log.of("merge") == ([CREATED] if expected else [])
    if expected:
        one, other = hand.history.tasks
        assert isinstance(one, HandTask)
        assert isinstance(other, HandTask)
        shared = hand.queue(one)
        assert (shared.pid, shared.bic, shared.is_coop) == (-1, None, True)
        assert hand.bic(one).stably_merged
        assert hand.bic(other).stably_merged
        assert shared.process_refs == 2


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("/a", 0), ("/a", 0), True),
        (("/a", 0), ("/b", 0), False),
        (("/", 0), ("/a", 0), False),
        (("/", pack(IOPRIO_CLASS_BE, 4)), ("/", 0), True),
        (("/", pack(IOPRIO_CLASS_BE, 4)), ("/", pack(IOPRIO_CLASS_BE, 5)), False),
        (("/", pack(IOPRIO_CLASS_BE, 4)), ("/", pack(IOPRIO_CLASS_RT, 4)), False),
    ],
)
def test_only_alike_queues_of_one_group(first: tuple[str, int], second: tuple[str, int], expected: bool) -> None:
    """Group, priority and class must be the same."""
    assert together(Hand(), 0, first, second) == expected


@pytest.mark.parametrize(
    ("gaps_ms", "merges"),
    [
        ((100, 100), 1),
        ((100, 50), 2),
        ((300, 10), 0),
        ((300, 400), 0),
        ((300, 310, 100), 1),
        ((600, 100), 0),
        ((604, 100), 1),
    ],
)
def test_the_reference_is_renewed_after_600_ms(gaps_ms: tuple[int, ...], merges: int) -> None:
    """Between 180 and 600 ms after the last one that counts nothing happens; later ones are compared with it still."""
    hand = Hand()
    hand.read(hand.task(), 0)
    for at, gap_ms in enumerate(gaps_ms):
        hand.skip(gap_ms * MS)
        hand.read(hand.task(), (at + 1) << 20)
    assert len(hand.log.of(CREATED)) == merges


def test_the_merged_stay_when_they_seek() -> None:
    """A stable merge is never undone."""
    hand = Hand()
    one, other = hand.task(), hand.task()
    hand.read(one, 0)
    hand.read(other, 1 << 20)
    shared = hand.queue(one)
    shared.split_coop = True
    hand.read(one, 4096)
    assert hand.queue(one) is shared
    assert hand.log.of("split") == []


@pytest.mark.parametrize(
    ("later_ms", "boosts", "expected"), [(600, False, False), (604, False, True), (604, True, False)]
)
def test_the_delayed_merge_on_a_disk(later_ms: int, boosts: bool, expected: bool) -> None:
    """At a request 600 ms after its creation, unless idling serves the queue better; it is tried once."""
    hand = Hand(is_rotational=True)
    one, other = hand.task(), hand.task()
    hand.read(one, 0)
    hand.read(other, 1 << 30)
    mine = hand.queue(other)
    assert hand.bic(other).stable_merge_bfqq is hand.queue(one)
    assert hand.queue(one).stable_refs == 1
    hand.skip(later_ms * MS)
    hand.bfqd.hw_tag = 1
    mine.is_io_bound = boosts
    hand.read(other, 1 << 31)
    assert (hand.queue(other) is hand.queue(one)) == expected
    assert (hand.bic(other).stable_merge_bfqq is None) == (later_ms > 600)
    assert hand.bic(other).stably_merged == expected
    if expected:
        assert mine.new_bfqq is hand.queue(one)
        assert mine.nr_queued == 1, "what was queued stays where it is"


def test_an_exit_forgets_the_delayed_merge() -> None:
    """The reference is given back."""
    hand = Hand(is_rotational=True)
    one, other = hand.task(), hand.task()
    hand.read(one, 0)
    hand.read(other, 1 << 30)
    hand.exit(other)
    assert hand.queue(one).stable_refs == 0


# -- close cooperators


def neighbours(distance: int, **options: int) -> tuple[Hand, HandTask, HandTask]:
    """Let two processes of a group read from a disk near each other; with only one queue busy nothing is looked at."""
    hand = Hand(OLD, is_rotational=True, **options)
    one, other = hand.task("/a"), hand.task("/a")
    hand.read(hand.task("/"), 5)
    hand.read(one, 1 << 30)
    hand.read(other, (1 << 30) + distance)
    return hand, one, other


@pytest.mark.parametrize(("distance", "expected"), [(16, True), (8192, True), (8193, False), (-8192, True)])
def test_neighbours_are_merged(distance: int, expected: bool) -> None:
    """By the position of the next request, at most 8192 sectors away."""
    hand, one, other = neighbours(distance)
    assert (hand.queue(one) is hand.queue(other)) == expected
    assert hand.log.of("merge") == ([CLOSE] if expected else [])
    assert not hand.bic(other).stably_merged


def test_requests_of_two_queues_may_become_one() -> None:
    """At the insertion, when the second begins where the first ends; the process keeps its queue."""
    hand, one, other = neighbours(8)
    assert (hand.queue(one).nr_queued, hand.queue(other).nr_queued) == (1, 0)
    assert hand.queue(one).sort_list.requests[0].nr_sectors == 16
    assert hand.queue(other).process_refs == 1


@pytest.mark.parametrize("distance", [100, 8192, 8193])
def test_the_queue_in_service_first(distance: int) -> None:
    """By the position where the last request of its slot ended."""
    hand = Hand(OLD, is_rotational=True)
    one, third, other = hand.task(), hand.task(), hand.task()
    hand.read(one, 1 << 30)
    hand.read(third, 5)
    assert hand.give() in (5, 1 << 30)
    while hand.bfqd.in_service_queue is not hand.queue(one):
        hand.complete()
        hand.wait(9 * MS)
        hand.give()
    end = int(hand.bfqd.in_serv_last_pos)
    hand.read(other, end + distance)
    assert (hand.queue(other) is hand.queue(one)) == (distance <= 8192)


def test_flash_that_queues_has_no_cooperators() -> None:
    """Positions are of no interest there."""
    hand = Hand(OLD)
    one, other = hand.task(), hand.task()
    hand.read(one, 1 << 30)
    hand.read(other, (1 << 30) + 8)
    assert hand.queue(one) is not hand.queue(other)


@pytest.mark.parametrize(
    ("what", "value"),
    [("is_sync", False), ("nr_seeks", 20), ("io_class", 2), ("io_class", 0)],
)
def test_who_cooperates(what: str, value: int) -> None:
    """Only sync queues of one class, not idle, that do not seek."""
    hand, one, other = neighbours(100_000)
    mine, theirs = hand.queue(one), hand.queue(other)
    assert may_cooperate(hand.bfqd, mine, theirs)
    setattr(theirs, what, value)
    assert not may_cooperate(hand.bfqd, mine, theirs)


@pytest.mark.parametrize(("served", "ms", "late"), [(8, 100, False), (8, 104, True), (0, 104, False)])
def test_too_late_to_merge(served: int, ms: int, late: bool) -> None:
    """A queue that has been served for more than 100 ms since it became busy merges no more."""
    hand, one, other = neighbours(100_000)
    theirs = hand.queue(other)
    theirs.service_from_backlogged, theirs.first_io_jif = served, hand.bfqd.jif()
    hand.skip(ms * MS)
    assert too_late_to_merge(hand.bfqd, theirs) == late
    assert may_cooperate(hand.bfqd, hand.queue(one), theirs) != late


def test_positions() -> None:
    """A group's queues stand by their next request; the second at one sector and idle queues do not."""
    hand = Hand(OLD, is_rotational=True)
    tasks = [hand.task("/a") for _ in range(3)]
    for task, sector in zip(tasks, (900_000, 100_000, 500_000), strict=True):
        hand.read(task, sector)
    queues = [hand.queue(task) for task in tasks]
    group = hand.group("/a")
    assert group.pos_queues == [queues[1], queues[2], queues[0]]
    assert find_close(hand.bfqd, queues[0], 500_000) is queues[2]
    assert find_close(hand.bfqd, queues[0], 508_192) is queues[2]
    assert find_close(hand.bfqd, queues[0], 491_808) is queues[2]
    assert find_close(hand.bfqd, queues[0], 300_000) is None
    idle = hand.task("/a", pack(IOPRIO_CLASS_IDLE, 0))
    hand.read(idle, 700_000)
    assert len(group.pos_queues) == 3
    hand.read(tasks[1], 50_000)
    assert group.pos_queues[0] is queues[1]
    assert hand.serve() >= 0


def test_merges_follow_the_chain() -> None:
    """Into its end; a loop, a queue without processes, and one of another group are refused."""
    hand = Hand(OLD, slice_idle=0)
    tasks = [hand.task(path) for path in ("/", "/", "/", "/a")]
    for at, task in enumerate(tasks):
        hand.read(task, at << 30)
    one, two, three, far = (hand.queue(task) for task in tasks)
    assert setup_merge(one, far) is None
    assert setup_merge(one, two) is two
    assert two.process_refs == 2
    assert setup_merge(two, one) is None, "a loop"
    assert setup_merge(three, one) is two, "the end of the chain"
    assert two.process_refs == 3
    hand.check()
    hand.read(tasks[0], 8)
    assert (hand.queue(tasks[0]), one.process_refs) == (two, 0)
    assert setup_merge(far, one) is None


def test_what_a_merge_hands_on() -> None:
    """Weight raising and being I/O-bound go over; counters of raised queues follow."""
    hand, one, other = neighbours(100_000, low_latency=1)
    mine, theirs = hand.queue(other), hand.queue(one)
    assert (mine.wr_coeff, theirs.wr_coeff) == (30, 30)
    theirs.wr_coeff, theirs.is_io_bound = 1, False
    theirs.prio_changed = True
    hand.bfqd.wr_busy_queues -= 1
    mine.is_io_bound = True
    hand.check()
    assert setup_merge(mine, theirs) is theirs
    hand.read(other, (1 << 30) + 100_016)
    assert (mine.wr_coeff, theirs.wr_coeff, theirs.is_io_bound, mine.is_io_bound) == (1, 30, True, False)
    assert hand.bfqd.wr_busy_queues == 2, "and a third one"


# -- splits


def split_world() -> tuple[Hand, HandTask, HandTask]:
    """Let two processes share a queue that has turned out to seek."""
    hand, one, other = neighbours(16)
    shared = hand.queue(one)
    assert hand.queue(other) is shared
    hand.bic(other).saved_inject_limit = 7
    shared.seek_history, shared.nr_seeks = 0xFFFFFFFF, 32
    while not shared.split_coop:
        hand.serve()
        hand.wait(9 * MS)
    return hand, one, other


def test_a_seeky_shared_queue_is_split() -> None:
    """At the next request of each process: the first gets a new queue, the last keeps the shared one."""
    hand, one, other = split_world()
    shared = hand.queue(one)
    hand.read(other, 1 << 28)
    mine = hand.queue(other)
    assert mine is not shared
    assert (mine.split_jif, mine.is_coop, mine.inject_limit) == (hand.bfqd.jif(), False, 7)
    assert mine.bic is hand.bic(other)
    assert shared.process_refs == 1
    hand.read(one, 1 << 29)
    assert hand.queue(one) is shared
    assert (shared.is_coop, shared.split_coop, shared.pid, shared.bic) == (False, False, one.pid, hand.bic(one))
    assert hand.log.of("split") == ["split", "split"]


def test_what_is_saved_and_given_back() -> None:
    """Think time, intensity, injection and weight; raising only with low_latency, and only while it lasts."""
    hand = Hand(OLD, low_latency=1)
    task = hand.task()
    hand.read(task, 0)
    bfqq, bic = hand.queue(task), hand.bic(task)
    bfqq.has_short_ttime, bfqq.is_io_bound = False, False
    bfqq.ttime_samples, bfqq.ttime_mean_ns, bfqq.last_serv_ns, bfqq.inject_limit = 200, 5000, 77, 3
    bfqq.wr_coeff, bfqq.wr_cur_max_jif, bfqq.service_from_wr = 30, 900, 4711
    save_state(hand.bfqd, bfqq)
    bfqq.has_short_ttime, bfqq.is_io_bound = True, True
    bfqq.ttime_samples, bfqq.ttime_mean_ns, bfqq.last_serv_ns, bfqq.inject_limit = 0, 0, 0, 0
    bfqq.wr_coeff, bfqq.service_from_wr = 1, 0
    resume_state(hand.bfqd, bfqq, bic, False)
    assert bfqq.service_from_wr == 4711
    assert (bfqq.has_short_ttime, bfqq.is_io_bound) == (False, False)
    assert (bfqq.ttime_samples, bfqq.ttime_mean_ns, bfqq.last_serv_ns, bfqq.inject_limit) == (200, 5000, 77, 3)
    assert (bfqq.wr_coeff, bfqq.prio_changed) == (30, True)
    hand.skip(4000 * MS)
    resume_state(hand.bfqd, bfqq, bic, False)
    assert bfqq.wr_coeff == 1, "its time is over"
    bic.saved_wr_coeff, bic.saved_wr_cur_max_jif = 3000, int(hand.bfqd.wr_rt_max_jif)
    bic.saved_wr_start_at_switch_to_srt_jif = int(hand.bfqd.jif()) - 10
    resume_state(hand.bfqd, bfqq, bic, False)
    assert bfqq.wr_coeff == 30, "back to the interactive time that it interrupted"
    hand.bfqd.low_latency = False
    bic.saved_wr_coeff, bfqq.wr_coeff = 30, 1
    resume_state(hand.bfqd, bfqq, bic, False)
    assert bfqq.wr_coeff == 1


def test_a_queue_merged_at_birth_is_saved_as_interactive() -> None:
    """Alone it would have been raised by its first request."""
    hand = Hand(low_latency=1)
    one, other = hand.task(), hand.task()
    hand.read(one, 0)
    hand.read(other, 1 << 30)
    bic = hand.bic(other)
    assert (bic.saved_wr_coeff, bic.saved_wr_start_at_switch_to_srt_jif) == (30, LONG_AGO)
    assert bic.saved_last_wr_start_finish_jif == hand.bfqd.jif()


def test_the_end_of_a_process_in_a_pending_merge() -> None:
    """It comes to none of the queues of the chain."""
    hand = Hand(OLD, slice_idle=0)
    tasks = [hand.task() for _ in range(3)]
    for at, task in enumerate(tasks):
        hand.read(task, at << 30)
    one, two, _ = (hand.queue(task) for task in tasks)
    assert setup_merge(one, two) is two
    hand.exit(tasks[0])
    assert (one.process_refs, two.process_refs) == (0, 1)
