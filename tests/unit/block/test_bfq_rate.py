"""What BFQ learns of the device: its peak rate, whether it queues commands; and the tunables (spec §4.11, 4.12, 7)."""

from __future__ import annotations

import pytest
from bfq_hand import Hand
from block_world import MS

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.finish import update_hw_tag
from blktwin.block.bfq.rate import calc_max_budget, close_window, pause_window, update_peak_rate
from blktwin.block.request import Request

SEC = 1000 * MS
FLASH = 33000 * 2 // 3
DISK = 14000 * 2 // 3


def window(samples: int, sequential: int, sectors: int, ns: int) -> tuple[Hand, BfqData]:
    """Build a world with a window of dispatches, still open."""
    hand = Hand()
    bfqd = hand.bfqd
    bfqd.peak_rate_samples, bfqd.sequential_samples, bfqd.tot_sectors_dispatched = samples, sequential, sectors
    bfqd.first_dispatch_ns, bfqd.delta_from_first_ns = hand.machine.now - ns, ns
    return hand, bfqd


@pytest.mark.parametrize(("is_rotational", "rate"), [(False, FLASH), (True, DISK)])
def test_the_first_guess(is_rotational: bool, rate: int) -> None:
    """Two thirds of a reference drive; the budget stays at its default until the first window."""
    bfqd = Hand(is_rotational=is_rotational).bfqd
    assert (bfqd.peak_rate, bfqd.max_budget) == (rate, 16384)
    assert calc_max_budget(bfqd) == rate * 1000 * 124 >> 16


@pytest.mark.parametrize(
    ("samples", "sequential", "ns", "rate_over_peak", "is_taken"),
    [
        (31, 31, SEC, 2, False),
        (32, 32, 299 * MS, 2, False),
        (32, 24, 300 * MS, 0.5, True),
        (32, 23, 300 * MS, 0.5, False),
        (32, 0, 300 * MS, 1.5, True),
        (32, 32, SEC, 20 * 65536 / FLASH * 1.01, False),
        (32, 32, SEC, 20 * 65536 / FLASH * 0.99, True),
    ],
)
def test_which_windows_count(samples: int, sequential: int, ns: int, rate_over_peak: float, is_taken: bool) -> None:
    """32 samples, 300 ms, three quarters sequential unless it is a new peak; and nothing absurd."""
    _, bfqd = window(samples, sequential, int(FLASH * rate_over_peak * (ns // 1000)) >> 16, ns)
    close_window(bfqd)
    assert (bfqd.peak_rate != FLASH) == is_taken
    assert (bfqd.max_budget != 16384) == is_taken


@pytest.mark.parametrize(
    ("samples", "sequential", "ns"),
    [(100, 100, SEC), (100, 100, 300 * MS), (100, 50, SEC), (100, 0, SEC), (64, 60, 2 * SEC)],
)
def test_how_much_a_window_counts(samples: int, sequential: int, ns: int) -> None:
    """By its length and by how sequential it was: a tenth to a half."""
    sectors = 2 * FLASH * (ns // 1000) >> 16
    _, bfqd = window(samples, sequential, sectors, ns)
    close_window(bfqd)
    rate = (sectors << 16) // (ns // 1000)
    divisor = 10 - min(8, 9 * sequential // samples * ns // SEC)
    assert bfqd.peak_rate == FLASH * (divisor - 1) // divisor + rate // divisor
    assert bfqd.max_budget == bfqd.peak_rate * 1000 * 124 >> 16


def test_a_users_budget_stays() -> None:
    """The estimate goes on, the budget is what was written."""
    hand, bfqd = window(64, 64, 100_000, SEC)
    hand.bfq.set_tunable("max_budget", 777)
    close_window(bfqd)
    assert bfqd.peak_rate != FLASH
    assert bfqd.max_budget == 777
    hand.bfq.set_tunable("max_budget", 0)
    assert bfqd.max_budget == calc_max_budget(bfqd), "at once"


def test_the_window_reaches_to_the_last_completion() -> None:
    """If that came after the last dispatch."""
    hand, bfqd = window(64, 64, 50_000, 300 * MS)
    bfqd.last_completion_ns = bfqd.first_dispatch_ns + 600 * MS
    close_window(bfqd)
    assert bfqd.delta_from_first_ns == 600 * MS
    assert hand.log.events == []


def dispatched(hand: Hand, sector: int, nr: int = 8) -> Request:
    """Return a request at a sector."""
    rq = Request(hand.q, hand.hctx, 0)
    rq.sector, rq.nr_sectors = sector, nr
    return rq


def test_samples() -> None:
    """Sequential: near the last one, with the driver busy or just done; the largest of each 32 is remembered."""
    hand = Hand()
    bfqd = hand.bfqd
    update_peak_rate(bfqd, dispatched(hand, 1000), True)
    assert (bfqd.peak_rate_samples, bfqd.sequential_samples, bfqd.tot_sectors_dispatched) == (1, 0, 8)
    assert (bfqd.last_position, bfqd.in_serv_last_pos) == (1008, 1008)
    bfqd.tot_rq_in_driver = 1
    for sector, nr, is_sequential in ((1008, 8, 1), (1 << 20, 8, 0), (1 << 21, 64, 1), (1 << 22, 8, 0)):
        before = int(bfqd.sequential_samples)
        update_peak_rate(bfqd, dispatched(hand, sector, nr), False)
        assert bfqd.sequential_samples - before == is_sequential
    assert (bfqd.peak_rate_samples, bfqd.last_rq_max_sectors, bfqd.in_serv_last_pos) == (5, 64, 1008)
    bfqd.tot_rq_in_driver = 0
    for since, counts in ((2 * MS - 1, 1), (2 * MS, 0)):
        bfqd.last_completion_ns = hand.machine.now - since
        before = int(bfqd.sequential_samples)
        update_peak_rate(bfqd, dispatched(hand, int(bfqd.last_position)), False)
        assert bfqd.sequential_samples - before == counts
    for _ in range(25):
        update_peak_rate(bfqd, dispatched(hand, int(bfqd.last_position)), False)
    assert (bfqd.peak_rate_samples, bfqd.last_rq_max_sectors) == (32, 8)


@pytest.mark.parametrize(("ms", "in_driver", "samples"), [(100, 0, 2), (101, 0, 1), (101, 1, 2), (1000, 1, 1)])
def test_when_a_window_ends(ms: int, in_driver: int, samples: int) -> None:
    """After a pause of 100 ms with nothing in the driver, and after a second."""
    hand = Hand()
    update_peak_rate(hand.bfqd, dispatched(hand, 0), False)
    hand.skip(ms * MS)
    hand.bfqd.tot_rq_in_driver = in_driver
    update_peak_rate(hand.bfqd, dispatched(hand, 8), False)
    assert hand.bfqd.peak_rate_samples == samples


@pytest.mark.parametrize(
    ("us", "largest", "is_over"),
    [(2000, 1, False), (2001, 1, True), (2001, 2, False), (9000, 8, True), (8000, 8, False)],
)
def test_a_late_completion_ends_the_window(us: int, largest: int, is_over: bool) -> None:
    """After more than 2 ms, at less than a sector a ms: the device had nothing to do."""
    hand, bfqd = window(64, 64, 100_000, SEC)
    bfqd.last_rq_max_sectors = largest
    bfqd.last_completion_ns = hand.machine.now - us * 1000
    pause_window(bfqd, hand.machine.now)
    assert (bfqd.peak_rate_samples == 0) == is_over


# -- queueing of commands


@pytest.mark.parametrize(("in_driver", "queued", "counts"), [(3, 0, False), (4, 0, True), (1, 3, True), (0, 3, False)])
def test_which_completions_tell(in_driver: int, queued: int, counts: bool) -> None:
    """Those that find more than three requests at hand."""
    bfqd = Hand().bfqd
    bfqd.tot_rq_in_driver, bfqd.queued = in_driver, queued
    update_hw_tag(bfqd)
    assert bfqd.hw_tag_samples == counts
    assert bfqd.max_rq_in_driver == in_driver


@pytest.mark.parametrize(
    ("is_short", "own", "in_driver", "counts"),
    [(True, 2, 1, False), (True, 3, 1, True), (True, 2, 3, True), (False, 2, 1, True)],
)
def test_idling_hides_what_the_device_can(is_short: bool, own: int, in_driver: int, counts: bool) -> None:
    """A quick queue in service with few requests keeps the driver empty."""
    hand = Hand()
    task = hand.task()
    hand.read(task, 0)
    hand.give()
    bfqd, bfqq = hand.bfqd, hand.queue(task)
    bfqq.has_short_ttime, bfqq.dispatched = is_short, own
    bfqd.tot_rq_in_driver, bfqd.queued = in_driver, 10
    update_hw_tag(bfqd)
    assert bfqd.hw_tag_samples == counts


@pytest.mark.parametrize(("most", "is_rotational", "tag"), [(3, False, 0), (4, False, 1), (4, True, 1)])
def test_the_33rd_sample_decides(most: int, is_rotational: bool, tag: int) -> None:
    """More than three at once: it queues, for good; else it is watched on."""
    bfqd = Hand(is_rotational=is_rotational).bfqd
    assert (bfqd.hw_tag, bfqd.nonrot_with_queueing) == (-1, not is_rotational)
    bfqd.tot_rq_in_driver, bfqd.queued = most, 10
    for at in range(33):
        assert (bfqd.hw_tag, bfqd.hw_tag_samples) == (-1, at)
        update_hw_tag(bfqd)
    assert (bfqd.hw_tag, bfqd.hw_tag_samples, bfqd.max_rq_in_driver) == (tag, 0, 0)
    assert bfqd.nonrot_with_queueing == (tag == 1 and not is_rotational)
    bfqd.tot_rq_in_driver = 1
    for _ in range(33):
        update_hw_tag(bfqd)
    assert bfqd.hw_tag == tag, "one is for good; the other was confirmed"
    assert bfqd.max_rq_in_driver == (1 if tag == 1 else 0)


# -- tunables


def values(hand: Hand) -> dict[str, int]:
    """Return what a reader of the files sees."""
    return {name: int(tunable.value) for name, tunable in hand.bfq.tunables.items()}


@pytest.mark.parametrize(("hz", "timeout"), [(100, 120), (250, 124), (1000, 125)])
def test_defaults(hz: int, timeout: int) -> None:
    """Names, units and defaults of spec §7."""
    assert values(Hand(hz=hz, low_latency=1)) == {
        "fifo_expire_sync": 125,
        "fifo_expire_async": 250,
        "back_seek_max": 16384,
        "back_seek_penalty": 2,
        "slice_idle": 8,
        "slice_idle_us": 8000,
        "max_budget": 0,
        "timeout_sync": timeout,
        "strict_guarantees": 0,
        "low_latency": 1,
    }


@pytest.mark.parametrize(
    ("name", "value", "also"),
    [
        ("slice_idle", 3, {"slice_idle_us": 3000}),
        ("slice_idle_us", 3500, {"slice_idle": 3}),
        ("timeout_sync", 50, {"timeout_sync": 52}),
        ("max_budget", 4096, {}),
        ("strict_guarantees", 1, {}),
        ("low_latency", 1, {}),
        ("fifo_expire_sync", 1, {}),
        ("fifo_expire_async", 999, {}),
        ("back_seek_max", 1, {}),
    ],
)
def test_what_is_read_back(name: str, value: int, also: dict[str, int]) -> None:
    """Times in the file's unit, rounded down; a slot in whole jiffies."""
    hand = Hand()
    expected = values(hand) | {name: value} | also
    hand.bfq.set_tunable(name, value)
    assert values(hand) == expected


def test_strict_guarantees_needs_idling() -> None:
    """Setting it makes slice_idle at least 8 ms; a larger one stays."""
    hand = Hand(slice_idle=0)
    hand.bfq.set_tunable("strict_guarantees", 1)
    assert values(hand)["slice_idle"] == 8
    hand = Hand(slice_idle=20)
    hand.bfq.set_tunable("strict_guarantees", 1)
    assert values(hand)["slice_idle"] == 20


def test_a_longer_slot_makes_larger_budgets() -> None:
    """timeout_sync rescales the automatic budget at once."""
    hand = Hand()
    hand.bfq.set_tunable("timeout_sync", 500)
    assert hand.bfqd.max_budget == FLASH * 1000 * 500 >> 16
    task = hand.task()
    hand.read(task, 0, 100)
    assert hand.give() == 0
    assert hand.queue(task).budget_timeout_jif == hand.bfqd.jif() + 125
    hand.skip(499 * MS)
    assert hand.give() == 100
    hand.skip(MS)
    hand.read(task, 200)
    hand.give()
    assert hand.log.of("end")[0].split()[2] == "BUDGET_TIMEOUT"
