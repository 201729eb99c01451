"""Rate control by itself: due times, turning a mix, poisson, think times that do not count, missed minima."""

from __future__ import annotations

from typing import Any

import pytest

from blktwin.fio.ddir import READ, WRITE
from blktwin.fio.random_state import thread_seeds
from blktwin.fio.rate import RateControl
from blktwin.fio.spec import JobSpec, RateLimit
from blktwin.fio.stats import ThreadStat

SEC = 1_000_000_000


def control(rwmix: int = 50, **limits: Any) -> RateControl:
    """Return the rate control of a 4k job."""
    spec = JobSpec("job", rw="rw", rate=RateLimit(**limits), rwmix_read=rwmix)
    return RateControl(spec, thread_seeds(1, 1, 24))


def test_linear_due_times() -> None:
    rate = control(bytes_per_s=(40_960, 0, 0))
    due = []
    for _ in range(4):
        due.append(int(rate.next_us[READ]))
        rate.note(READ, 4096)
    assert due == [0, 100_000, 200_000, 300_000]
    assert rate.next_us[WRITE] == 0


def test_iops_are_blocks_of_the_smallest_size() -> None:
    rate = control(iops=(0, 10, 0))
    rate.note(WRITE, 8192)
    assert rate.next_us[WRITE] == 200_000


@pytest.mark.parametrize(
    ("next_us", "now", "chosen"),
    [((0, 0), 5, READ), ((9, 0), 5, WRITE), ((9, 7), 5, WRITE), ((7, 9), 5, READ), ((7, 7), 5, READ)],
)
def test_a_mix_turns_to_what_is_due(next_us: tuple[int, int], now: int, chosen: int) -> None:
    rate = control(bytes_per_s=(1 << 20, 1 << 20, 0))
    rate.next_us[READ], rate.next_us[WRITE] = next_us
    assert rate.choose(READ, now, True) == chosen
    assert rate.choose(READ, now, False) == READ


def test_a_mix_never_turns_to_a_direction_without_a_share() -> None:
    rate = control(rwmix=100, bytes_per_s=(1 << 20, 1 << 20, 0))
    rate.next_us[READ] = 9
    assert rate.choose(READ, 5, True) == READ


def test_poisson_gaps_have_the_mean_and_the_spread() -> None:
    rate = control(iops=(1000, 0, 0), process="poisson")
    times = []
    for _ in range(4000):
        rate.note(READ, 4096)
        times.append(int(rate.next_us[READ]))
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1000, rel=0.05)
    assert (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 == pytest.approx(1000, rel=0.08)


def test_forgiven_think_time_moves_what_is_due_but_for_one_block() -> None:
    rate = control(bytes_per_s=(40_960, 0, 0))
    rate.note(READ, 4096)
    rate.forgive(READ, 500_000)
    rate.note(READ, 4096)
    assert rate.next_us[READ] == 100_000 + 500_000


def stat_after(ios: int) -> ThreadStat:
    """Return the statistics of a thread that has done so many reads."""
    stat = ThreadStat(JobSpec("job"))
    stat.start(0)
    for _ in range(ios):
        stat.completed(READ, 4096, 1, 1, 1)
    return stat


def test_a_minimum_is_judged_per_cycle_after_two_seconds() -> None:
    rate = control(iops_min=(100, 0, 0))
    stat = stat_after(3)
    assert rate.missed_minimum(stat, SEC) == ""
    assert rate.missed_minimum(stat, 2 * SEC) == ""
    assert rate.missed_minimum(stat, 2 * SEC + SEC // 2) == ""
    assert "rate_iops_min=100" in rate.missed_minimum(stat, 3 * SEC)


def test_a_minimum_that_is_met() -> None:
    rate = control(bytes_per_s_min=(4096 * 100, 0, 0))
    stat = stat_after(1)
    rate.missed_minimum(stat, 2 * SEC)
    for _ in range(100):
        stat.completed(READ, 4096, 1, 1, 1)
    assert rate.missed_minimum(stat, 3 * SEC) == ""
    assert "rate_min=409600" in rate.missed_minimum(stat, 4 * SEC)
