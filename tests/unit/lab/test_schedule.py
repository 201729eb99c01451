"""Who starts when: startdelay, stonewall, wait_for, exitall, and the window in which all run."""

from __future__ import annotations

import pytest

from blktwin.fio import jobfile
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack

COMMON = "--name=global --ioengine=null --rw=read --bs=4k --size=1m --rate_iops=1000"
"""One I/O a millisecond."""


def run(*sections: str) -> RunResult:
    """Run sections of paced jobs; each makes one I/O a millisecond."""
    words = COMMON.split()
    for section in sections:
        words += section.split()
    return simulate(jobfile.load([], words, env={}), Stack())


def spans(result: RunResult) -> dict[str, tuple[int, int]]:
    """Return when each job began and ended, in ms."""
    return {
        job.spec.name: (int(job.stat.epoch_ns) // 1_000_000, int(job.stat.end_ns) // 1_000_000) for job in result.jobs
    }


def test_jobs_start_together() -> None:
    assert {start for start, _ in spans(run("--name=a --number_ios=3", "--name=b --number_ios=5")).values()} == {0}


def test_a_stonewall_waits_for_all_before_it() -> None:
    result = spans(
        run("--name=a --number_ios=5", "--name=b --number_ios=9", "--name=c --number_ios=2 --stonewall", "--name=d")
    )
    assert result["c"][0] == result["d"][0] == max(result["a"][1], result["b"][1])


def test_a_stonewall_does_not_wait_for_jobs_that_have_not_begun() -> None:
    """fio looks at what runs: a job in its startdelay does not hold a stonewall up."""
    result = spans(run("--name=a --number_ios=2 --startdelay=50ms", "--name=b --number_ios=2 --stonewall"))
    assert result["b"][0] == 0
    assert result["a"][0] == 50


def test_wait_for_starts_after_every_clone_of_the_other() -> None:
    result = run(
        "--name=a --number_ios=4 --numjobs=2 --offset_increment=64k", "--name=b --wait_for=a --number_ios=2", "--name=c"
    )
    ends = [int(job.stat.end_ns) for job in result.jobs if job.spec.name == "a"]
    [b] = [job for job in result.jobs if job.spec.name == "b"]
    # A context switch later.
    assert 0 <= int(b.stat.epoch_ns) - max(ends) < 5_000
    assert spans(result)["c"][0] == 0


def test_startdelay_counts_from_the_start_of_the_run() -> None:
    result = spans(run("--name=a --number_ios=2 --startdelay=7ms", "--name=b --number_ios=2 --startdelay=3ms"))
    assert (result["a"][0], result["b"][0]) == (7, 3)


def test_a_range_of_delays_is_drawn_once_and_repeats() -> None:
    """The number is fio 3.33's for the first job: a run of it began after 2.0 s."""
    first, second = (spans(run("--name=a --number_ios=1 --startdelay=300ms-3s"))["a"][0] for _ in range(2))
    assert first == second
    assert 1900 <= first <= 2500


def test_exitall_stops_the_group_and_never_starts_what_waits_in_it() -> None:
    result = run(
        "--name=short --number_ios=5 --exitall",
        "--name=long --number_ios=100",
        "--name=late --startdelay=50ms --number_ios=5",
        "--name=other --new_group --number_ios=30",
    )
    ios = {job.spec.name: int(job.stat.directions[0].total_ios) for job in result.jobs}
    assert ios["short"] == 5
    assert 3 <= ios["long"] <= 7
    assert ios["late"] == 0
    assert ios["other"] == 30


def test_the_window_of_all_jobs() -> None:
    window = run("--name=a --number_ios=21", "--name=b --number_ios=100 --startdelay=10ms").blktwin["all_jobs"]
    assert isinstance(window, dict)
    assert (window["from_ms"], window["until_ms"]) == (10.0, pytest.approx(20.0, abs=0.1))
    assert window["read_mib_s"] == pytest.approx(2 * 4096 * 1000 / (1 << 20), rel=0.15)


def test_no_window_when_jobs_never_meet() -> None:
    assert run("--name=a --number_ios=3", "--name=b --stonewall --number_ios=3").blktwin["all_jobs"] is None


def test_the_window_begins_when_the_last_ramp_is_over() -> None:
    done = run("--name=a --ramp_time=50ms --runtime=100ms --time_based")
    window = done.blktwin["all_jobs"]
    assert isinstance(window, dict)
    assert window["from_ms"] == pytest.approx(60)
    lane = done.jobs[0].stat.directions[0]
    rate = lane.io_bytes / done.jobs[0].stat.runtime_ms(0) * 1000 / (1 << 20)
    assert window["read_mib_s"] == pytest.approx(rate, rel=0.05)
