"""What an arriving request tells of its process, its queue, and which request is next (spec §3.1, §4.2 to §4.5)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS

from blktwin.block.bfq.assign import ASYNC_BE, ASYNC_IDLE, async_slot
from blktwin.block.bfq.insert import update_io_intensity, update_short_ttime, update_thinktime
from blktwin.block.bfq.position import choose_req, distance_cost, find_next_rq
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.rate import is_seek
from blktwin.block.bio import REQ_META, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack
from blktwin.block.request import Request

SEEN = 0xFFFFFFFF


def one_queue(rules: str = "6.12", **options: int) -> tuple[Hand, BfqQueue]:
    """Build a world with one queue whose only request has completed, at rest."""
    hand = Hand(rules, **options)
    task = hand.task()
    hand.read(task, 0)
    hand.serve()
    hand.wait(20 * MS)
    return hand, hand.queue(task)


# -- which queue


@pytest.mark.parametrize(
    ("op", "flags", "is_sync"),
    [
        (REQ_OP_READ, 0, True),
        (REQ_OP_WRITE, REQ_SYNC, True),
        (REQ_OP_WRITE, 0, False),
        (REQ_OP_DISCARD, 0, False),
    ],
)
def test_sync_and_async(op: int, flags: int, is_sync: bool) -> None:
    """Reads, and writes that somebody waits for, go to the process's own queue."""
    hand = Hand()
    task = hand.task()
    hand.submit(task, 0, 8, op, flags)
    bic = hand.bic(task)
    assert ((bic.sync_bfqq is not None), (bic.async_bfqq is not None)) == (is_sync, not is_sync)


@pytest.mark.parametrize(
    ("ioprio", "slot", "weight", "io_class"),
    [
        (0, ASYNC_BE + 4, 40, 1),
        (pack(IOPRIO_CLASS_BE, 0), ASYNC_BE, 80, 1),
        (pack(IOPRIO_CLASS_BE, 7), ASYNC_BE + 7, 10, 1),
        (pack(IOPRIO_CLASS_RT, 3), 3, 50, 0),
        (pack(IOPRIO_CLASS_IDLE, 2), ASYNC_IDLE, 10, 2),
    ],
)
def test_priorities(ioprio: int, slot: int, weight: int, io_class: int) -> None:
    """Class and level make the weight, and the place among the group's async queues; without one it is BE 4."""
    hand = Hand()
    task = hand.task("/a", ioprio)
    hand.write(task, 0, flags=0)
    hand.read(task, 4096)
    shared = hand.async_queue(task)
    assert async_slot(ioprio) == slot
    assert hand.group("/a").async_queues[slot] is shared
    for bfqq in (hand.queue(task), shared):
        assert (bfqq.weight, bfqq.io_class) == (weight, io_class)
    assert hand.queue(task).has_short_ttime == (io_class != 2)
    stranger = hand.task("/a", ioprio)
    hand.write(stranger, 64, flags=0)
    assert hand.async_queue(stranger) is shared
    assert shared.process_refs == 3, "two processes and the group"


def test_a_new_priority() -> None:
    """The sync queue takes it over at its next activation; async requests go to another queue at once."""
    hand = Hand(slice_idle=0)
    task = hand.task("/", pack(IOPRIO_CLASS_BE, 4))
    hand.write(task, 0, flags=0)
    hand.read(task, 4096)
    old = hand.async_queue(task)
    task.ioprio = pack(IOPRIO_CLASS_BE, 1)
    hand.read(task, 8192)
    assert hand.async_queue(task) is not old
    assert (hand.queue(task).new_weight, hand.queue(task).weight) == (70, 40)
    assert old.process_refs == 1


@pytest.mark.parametrize("op", [REQ_OP_READ, REQ_OP_WRITE])
def test_a_request_that_comes_back(op: int) -> None:
    """It goes past the queues, and kblockd, which inserts it, does not lend it its priority."""
    hand = Hand()
    task = hand.task("/a", pack(IOPRIO_CLASS_RT, 2))
    hand.submit(task, 0, 8, op)
    assert hand.give() == 0
    hand.bounce()
    assert hand.bic(task).ioprio == task.ioprio
    assert (hand.bfqd.dispatch.count, hand.bfqd.queued, hand.bfqd.tot_rq_in_driver) == (1, 0, 0)
    hand.read(task, 4096)
    assert hand.give() == 0
    assert hand.give() == 4096 or op == REQ_OP_WRITE
    assert hand.bfqd.tot_rq_in_driver >= 1
    while hand.given:
        hand.complete()
    assert hand.queue(task).io_class == 0


def test_a_new_queue() -> None:
    """What it begins with (spec §3.2)."""
    hand = Hand()
    task = hand.task()
    now = hand.machine.now
    hand.read(task, 0)
    bfqq = hand.queue(task)
    assert (bfqq.max_budget, bfqq.budget) == (10922, 10922)
    assert (bfqq.last_end_request_ns, bfqq.io_start_ns) == (now + 1, now)
    assert (bfqq.wr_coeff, bfqq.inject_limit, bfqq.last_serv_ns) == (1, 0, 0)
    assert (bfqq.is_sync, bfqq.has_short_ttime, bfqq.is_io_bound, bfqq.just_created) == (True, True, True, False)
    assert bfqq.creation_jif == bfqq.decrease_jif == hand.bfqd.jif()


# -- think time, seeks, intensity


def test_think_time() -> None:
    """A mean of the last pauses in fixed point: 256 a sample, decaying by an eighth, each at most 2 slice_idle."""
    hand, bfqq = one_queue()
    bfqq.ttime_samples = bfqq.ttime_total_ns = bfqq.ttime_mean_ns = 0
    samples = total = 0
    for pause in (MS, 3 * MS, 16 * MS, 500 * MS):
        bfqq.last_end_request_ns = hand.machine.now - pause
        update_thinktime(hand.bfqd, bfqq)
        samples = (7 * samples + 256) // 8
        total = (7 * total + 256 * min(pause, 16 * MS)) // 8
        assert (bfqq.ttime_samples, bfqq.ttime_total_ns) == (samples, total)
        assert bfqq.ttime_mean_ns == (total + 128) // samples
    for spoil in ("dispatched", "is_busy"):
        setattr(bfqq, spoil, True)
        update_thinktime(hand.bfqd, bfqq)
        assert bfqq.ttime_samples == samples, "only of a queue at rest"
        setattr(bfqq, spoil, False)


def test_the_first_sample_is_the_longest() -> None:
    """The first request comes "before" the last completion, and the difference is unsigned."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 0)
    assert hand.queue(task).ttime_mean_ns == (16 * MS * 32 + 128) // 32


@pytest.mark.parametrize(
    ("samples", "mean", "slice_idle", "expected"),
    [(81, 4 * MS, 8, True), (81, 4 * MS + 1, 8, False), (80, 9 * MS, 8, True), (200, 9 * MS, 20, True)],
)
def test_short_think_time(samples: int, mean: int, slice_idle: int, expected: bool) -> None:
    """At most half of slice_idle; until the third sample everybody is taken for quick."""
    hand, bfqq = one_queue(slice_idle=slice_idle)
    for was in (False, True):
        bfqq.ttime_samples, bfqq.ttime_mean_ns, bfqq.has_short_ttime = samples, mean, was
        update_short_ttime(hand.bfqd, bfqq)
        assert bfqq.has_short_ttime == expected


def test_when_think_time_is_not_looked_at() -> None:
    """Without idling, for async and idle queues, and for 2 s after a split."""
    hand, bfqq = one_queue()
    bfqq.ttime_samples, bfqq.ttime_mean_ns = 200, 100 * MS
    bfqq.split_jif = hand.bfqd.jif() - 500
    update_short_ttime(hand.bfqd, bfqq)
    assert bfqq.has_short_ttime
    bfqq.split_jif -= 1
    hand.bfqd.slice_idle_ns = 0
    update_short_ttime(hand.bfqd, bfqq)
    hand.bfqd.slice_idle_ns = 8 * MS
    bfqq.is_sync = False
    update_short_ttime(hand.bfqd, bfqq)
    bfqq.is_sync, bfqq.io_class = True, 2
    update_short_ttime(hand.bfqd, bfqq)
    assert [bfqq.has_short_ttime] == [True]
    bfqq.io_class = 1
    update_short_ttime(hand.bfqd, bfqq)
    assert [bfqq.has_short_ttime] == [False]


@pytest.mark.parametrize(
    ("base", "was_short", "pause_ms", "limit"),
    [(0, True, 0, 1), (500, True, 0, 5), (0, False, 96, 5), (0, False, 100, 0)],
)
def test_a_change_of_think_time_resets_injection(base: int, was_short: bool, pause_ms: int, limit: int) -> None:
    """If nothing was learnt; back to short only 100 ms after the last decrease."""
    hand, bfqq = one_queue()
    bfqq.has_short_ttime, bfqq.last_serv_ns, bfqq.inject_limit = was_short, base, 5
    bfqq.ttime_samples, bfqq.ttime_mean_ns = 200, 100 * MS if was_short else 0
    bfqq.decrease_jif = hand.bfqd.jif()
    hand.skip(pause_ms * MS)
    update_short_ttime(hand.bfqd, bfqq)
    assert bfqq.inject_limit == limit


@pytest.mark.parametrize(
    ("last", "sector", "nr", "is_rotational", "expected"),
    [
        (0, 1 << 20, 8, False, False),
        (1000, 1800, 8, False, False),
        (1000, 1801, 8, False, True),
        (2000, 1199, 8, False, True),
        (1000, 1 << 20, 63, False, True),
        (1000, 1 << 20, 64, False, False),
        (1000, 1 << 20, 64, True, True),
    ],
)
def test_what_is_a_seek(last: int, sector: int, nr: int, is_rotational: bool, expected: bool) -> None:
    """More than 800 sectors away; on flash only small requests seek; the first one never does."""
    hand = Hand(is_rotational=is_rotational)
    hand.read(hand.task(), sector, nr=nr)
    rq = hand.bfqd.queues[0].next_rq
    assert rq is not None
    assert is_seek(hand.bfqd, last, rq) == expected


def test_the_history_of_seeks() -> None:
    """32 requests; seeky from the 20th on, totally with all."""
    hand, bfqq = one_queue()
    assert (bfqq.seek_history, bfqq.nr_seeks) == (2, 1), "the first request of a queue is none"
    for at in range(40):
        bfqq.push_seek(True)
        assert bfqq.is_seeky() == (bfqq.nr_seeks >= 20)
        assert bfqq.nr_seeks == min(32, 2 + at) == bin(bfqq.seek_history).count("1") or at >= 30
    assert bfqq.is_totally_seeky()
    bfqq.push_seek(False)
    assert (bfqq.nr_seeks, bfqq.is_totally_seeky()) == (31, False)
    assert hand.bfqd.queues == [bfqq]


@pytest.mark.parametrize(("idle_ms", "total_ms", "expected"), [(20, 100, True), (21, 100, False), (0, 100, True)])
def test_io_bound_by_time(idle_ms: int, total_ms: int, expected: bool) -> None:
    """Since 5.12: without requests for a fifth of the time at most."""
    hand, bfqq = one_queue()
    now = hand.machine.now
    bfqq.io_start_ns, bfqq.tot_idle_ns, bfqq.dispatched = now - total_ms * MS, idle_ms * MS, 1
    update_io_intensity(hand.bfqd, bfqq, now)
    assert bfqq.is_io_bound == expected
    bfqq.dispatched, bfqq.last_end_request_ns, bfqq.tot_idle_ns = 0, now - idle_ms * MS, 0
    update_io_intensity(hand.bfqd, bfqq, now)
    assert bfqq.is_io_bound == expected
    assert bfqq.tot_idle_ns == idle_ms * MS


def test_the_window_of_io_bound() -> None:
    """Beyond 200 ms the past counts half."""
    hand, bfqq = one_queue()
    now = hand.machine.now
    bfqq.io_start_ns, bfqq.tot_idle_ns, bfqq.dispatched = now - 201 * MS, 50 * MS, 1
    update_io_intensity(hand.bfqd, bfqq, now)
    assert (bfqq.io_start_ns, bfqq.tot_idle_ns) == (now - 201 * MS // 2, 25 * MS)


def test_io_bound_by_early_arrivals() -> None:
    """Until 5.11: 120 requests that came while they were waited for."""
    hand, bfqq = one_queue("5.10")
    bfqq.is_io_bound = False
    for _ in range(119):
        update_io_intensity(hand.bfqd, bfqq, hand.machine.now)
        bfqq.wait_request = True
        update_io_intensity(hand.bfqd, bfqq, hand.machine.now)
        bfqq.wait_request = False
    assert [bfqq.is_io_bound] == [False]
    bfqq.wait_request = True
    update_io_intensity(hand.bfqd, bfqq, hand.machine.now)
    bfqq.wait_request = False
    assert [bfqq.is_io_bound] == [True]


# -- which request is next


def requests(hand: Hand, *specs: tuple[int, int, int]) -> list[Request]:
    """Return requests (sector, op, flags) that are queued in one world."""
    task = hand.task()
    for sector, op, flags in specs:
        hand.submit(task, sector, 8, op, flags)
    found = [rq for bfqq in hand.bfqd.queues for rq in bfqq.sort_list.requests]
    return [next(rq for rq in found if rq.sector == sector) for sector, _, _ in specs]


R, W = REQ_OP_READ, REQ_OP_WRITE


@pytest.mark.parametrize(
    ("one", "other", "last", "best"),
    [
        ((5000, R, 0), (6000, R, 0), 5500, 6000),
        ((5000, R, 0), (6001, R, 0), 5667, 6001),
        ((5000, R, 0), (6003, R, 0), 5333, 5000),
        ((5000, R, 0), (6002, R, 0), 5334, 6002),
        ((5000, R, 0), (5600, R, 0), 5200, 5600),
        ((100, R, 0), (900_000, R, 0), 800_000, 900_000),
        ((100, R, 0), (200, R, 0), 800_000, 100),
        ((100, R, 0), (790_000, R, 0), 800_000, 790_000),
        ((9000, W, 0), (5000, W, REQ_SYNC), 9000, 5000),
        ((9000, R, 0), (5000, R, REQ_META), 9000, 5000),
        ((9000, W, REQ_META), (5000, R, 0), 9000, 5000),
    ],
)
def test_the_better_of_two(one: tuple[int, int, int], other: tuple[int, int, int], last: int, best: int) -> None:
    """Sync, metadata, then the nearer; backward counts twice; too far back is last, and of two such the first."""
    hand = Hand()
    first, second = requests(hand, one, other)
    for a, b in ((first, second), (second, first)):
        chosen = choose_req(hand.bfqd, a, b, last)
        assert chosen is not None
        assert chosen.sector == best
    assert choose_req(hand.bfqd, None, first, 0) is first
    assert choose_req(hand.bfqd, first, None, 0) is first


@pytest.mark.parametrize(
    ("penalty", "back_kib", "sector", "expected"),
    [(2, 16384, 1100, 100), (2, 16384, 900, 200), (5, 16384, 900, 500), (2, 50, 900, 200), (2, 49, 900, -1)],
)
def test_distances(penalty: int, back_kib: int, sector: int, expected: int) -> None:
    """back_seek_penalty and back_seek_max, in KiB."""
    hand = Hand(back_seek_penalty=penalty, back_seek_max=back_kib)
    assert distance_cost(hand.bfqd, sector, 1000) == expected


def test_an_expired_request_goes_first_once_a_slot() -> None:
    """The oldest, if its time is over; then the nearest again, until the queue's next slot."""
    hand = Hand(slice_idle=0)
    task = hand.task()
    hand.read(task, 9000)
    hand.skip(130 * MS)
    hand.read(task, 100, 200, 300)
    bfqq = hand.queue(task)
    assert [int(rq.sector) for rq in bfqq.sort_list.requests] == [100, 200, 300, 9000]
    hand.bfqd.last_position = 0
    bfqq.next_rq = bfqq.sort_list.requests[0]
    assert [hand.give() for _ in range(4)] == [100, 9000, 300, 200], "back down from there"
    hand = Hand(slice_idle=0, fifo_expire_sync=1000)
    task = hand.task()
    hand.read(task, 9000)
    hand.skip(130 * MS)
    hand.read(task, 100, 200, 300)
    hand.queue(task).next_rq = hand.queue(task).sort_list.requests[0]
    assert [hand.give() for _ in range(4)] == [100, 200, 300, 9000]


@pytest.mark.parametrize(("is_sync", "ms"), [(True, 125), (False, 250)])
def test_when_a_request_expires(is_sync: bool, ms: int) -> None:
    """fifo_expire_sync and fifo_expire_async after its insertion."""
    hand = Hand()
    task = hand.task()
    hand.write(task, 0, flags=REQ_SYNC if is_sync else 0)
    rq = hand.bfqd.queues[0].next_rq
    assert rq is not None
    assert rq.fifo_expires == hand.machine.now + ms * MS


def test_the_end_of_the_order_wraps() -> None:
    """Behind the last request comes the first, if it is not too far back."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 1000, 2000, 3000)
    bfqq = hand.queue(task)
    bfqq.fifo_expire = True
    for at, expected in ((0, 2000), (1, 3000), (2, 2000)):
        found = find_next_rq(hand.bfqd, bfqq, bfqq.sort_list.requests[at])
        assert found is not None
        assert found.sector == expected


def test_a_merged_request_keeps_the_earlier_deadline() -> None:
    """When two requests of a queue become one."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 1016)
    first = int(hand.queue(task).sort_list.requests[0].fifo_expires)
    hand.skip(10 * MS)
    hand.read(task, 1000)
    hand.skip(10 * MS)
    hand.read(task, 1008)
    bfqq = hand.queue(task)
    assert [(int(rq.sector), int(rq.nr_sectors)) for rq in bfqq.sort_list.requests] == [(1000, 24)]
    assert bfqq.sort_list.requests[0].fifo_expires == first
    assert bfqq.next_rq is bfqq.sort_list.requests[0]


def test_bios_merge_inside_their_queue_only() -> None:
    """Two processes that write side by side keep their requests."""
    hand = Hand(slice_idle=0)
    one, other = hand.task("/a"), hand.task("/b")
    hand.write(one, 1000)
    hand.write(other, 5000)
    hand.write(other, 1008)
    assert [int(bfqq.nr_queued) for bfqq in hand.bfqd.queues] == [1, 2]
    hand.write(one, 1008 + 8, 992)
    assert [int(rq.nr_sectors) for rq in hand.queue(one).sort_list.requests] == [16, 8]


def test_a_front_merge_is_sorted_anew() -> None:
    """A request whose first sector moves down stays in order."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 2000, 1000, 1992, 1984)
    assert [int(rq.sector) for rq in hand.queue(task).sort_list.requests] == [1000, 1984]
