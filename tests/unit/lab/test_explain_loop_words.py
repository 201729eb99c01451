"""What --explain loop says of numbers chosen here: the stage that dominates, its cause, and what would take it away."""

from __future__ import annotations

from typing import Any

from blktwin.fio.hist import LatencyStat
from blktwin.lab.explain_loop import CpuTime, Executor, Explained, Tries
from blktwin.lab.explain_loop_text import cpu_text, render
from blktwin.lab.explain_loop_words import NOT_COVERED, percent, summarize
from blktwin.sim.stage_loop import OTHER_WORKERS


def latencies(*values: int) -> LatencyStat:
    """Return a stat with these samples (ns)."""
    stat = LatencyStat()
    for value in values:
        stat.add(value)
    return stat


def device(**fields: Any) -> Explained:
    """Return a loop device whose hundred requests a worker executed; fields say what is different."""
    made: dict[str, Any] = {
        "path": "/dev/loop0",
        "policy": "workqueue",
        "is_direct": True,
        "backing": "/img",
        "lower": "/dev/nvme0n1",
        "requests": 100,
        "executors": [Executor("kworker/u0:0", 0, 100)],
        "reasons": {"policy": 100},
        "reads": Tries(),
        "writes": Tries(),
        "works": 100,
        "empty_works": 0,
        "batches": {1: 100},
        "d2c": latencies(*[100_000] * 100),
        "stage_ns": {"D2W": 0, "W2X": 1_000_000, "X2Q'": 0, "Q'2C'": 9_000_000, "C'2C": 0, "X2C": 0},
        "w2x": latencies(*[10_000] * 100),
        "worker_wait": latencies(*[10_000] * 100),
        "cpu_wait": latencies(*[1000] * 100),
        "worker_cpu_ns": 2_000_000,
        "behind": {},
        "merged": 0,
        "lower_merged": 0,
        "followers": 0,
        "queued": 100,
        "depths": {1: 100},
        "span_ns": 10_000_000,
    }
    made.update(fields)
    return Explained(**made)


def mostly(stage: str, share: int = 90) -> dict[str, int]:
    """Return the stages of 10 ms of D2C, `share` percent of it in one of them."""
    shares = dict.fromkeys(("D2W", "W2X", "X2Q'", "Q'2C'", "C'2C", "X2C"), 0)
    shares["C'2C" if stage != "C'2C" else "X2Q'"] = (100 - share) * 100_000
    shares[stage] = share * 100_000
    return shares


def said(one: Explained, cpu: CpuTime | None = None) -> str:
    """Return the summary as one text."""
    return "\n".join(summarize(one, cpu or CpuTime()))


def test_packed_workers_wait_for_each_other() -> None:
    """The Android case: per-cgroup workers on one CPU; spreading, one shared worker and inline all cure it."""
    one = device(
        executors=[Executor(f"kworker/u0:{at}", 0, 10) for at in range(10)],
        stage_ns=mostly("W2X"),
        w2x=latencies(*[90_000] * 100),
        cpu_wait=latencies(*[88_000] * 100),
        behind={OTHER_WORKERS: 7_600_000, "j": 760_000},
    )
    text = said(one, CpuTime(runnable_ns={0: 1, 7: 2}))
    assert "90% of it is W2X, the wait for a kworker" in text
    assert "10 kworkers wait for a CPU 77% of the time that they want one, behind other kworkers 91%, j 9.1%" in text
    assert "up to 7 were runnable at once" in text
    assert "spreading the workers over the CPUs; one shared worker instead of one for each cgroup; executing in" in text
    assert "bottleneck" not in text


def test_a_single_worker_is_the_bottleneck() -> None:
    """The server's case: requests wait in the list of the one worker, which runs without a break."""
    one = device(
        stage_ns=mostly("W2X", 70), works=10, batches={10: 10}, w2x=latencies(*[70_000] * 100), cpu_wait=latencies(5)
    )
    text = said(one)
    assert (
        "the bottleneck is the single worker and its list under lo_work_lock: it executes 100% of the requests" in text
    )
    assert "10.0 per activation" in text
    assert "what takes that away: per_command submits in parallel, or executing in the submitter" in text
    assert "interrupts on its CPU" not in text


def test_a_worker_whom_interrupts_disturb() -> None:
    """What has the CPU while it wants it is no task: it is still the one worker that all wait for."""
    one = device(stage_ns=mostly("W2X"), works=2, cpu_wait=latencies(*[10_000] * 100), worker_cpu_ns=1_000_000)
    text = said(one)
    assert "the bottleneck is the single worker" in text
    assert "; interrupts on its CPU take 50% of its time" in text


def test_one_worker_that_waits_for_a_cpu() -> None:
    one = device(stage_ns=mostly("W2X"), cpu_wait=latencies(*[80_000] * 100), behind={"hog0": 6_000_000})
    assert "workers wait for a CPU 60% of the time that they want one, behind hog0 100%" in said(one)


def test_the_device_dominates() -> None:
    """Then nothing is promised (case 28)."""
    one = device(stage_ns=mostly("Q'2C'", 98))
    assert "no significant difference is to be expected from another policy: at most 2.0% of D2C" in said(one)
    assert "the loop driver's own part of D2C is 20%" in said(device(stage_ns=mostly("Q'2C'", 80)))


def test_two_stages_share_it() -> None:
    one = device(stage_ns={"D2W": 0, "W2X": 4_000_000, "X2Q'": 3_000_000, "Q'2C'": 2_000_000, "C'2C": 10**6, "X2C": 0})
    assert "40% of it is W2X, the wait for a kworker, and 30% X2Q', the file system's way" in said(one)


def test_a_sparse_image() -> None:
    """Failed attempts, what the hint saved, and reads that meet the lock."""
    one = device(
        policy="nowait_first",
        executors=[Executor("j", 40, 0), Executor("kworker/u0:0", 0, 60)],
        stage_ns=mostly("W2X"),
        w2x=latencies(*[80_000] * 60),
        reads=Tries(tried=50, eagain=5),
        writes=Tries(tried=20, eagain=14, eagain_late=1, skipped=35),
    )
    text = said(one)
    assert "15 (75%) of the writes tried without sleeping got EAGAIN" in text
    assert "each was tried twice" in text
    assert "the hint kept 35 writes from such an attempt" in text
    assert "5 (10%) of the reads tried got EAGAIN" in text
    assert "40% of the requests were executed by who issued them" in text
    assert "an image whose blocks are all allocated" in text
    assert "executing in the submitter" not in text


def test_a_rare_eagain_is_no_news() -> None:
    one = device(policy="nowait_first", writes=Tries(tried=1000, eagain=3))
    assert "EAGAIN" not in said(one)


def test_merges_that_are_lost() -> None:
    one = device(followers=30, lower_merged=4)
    assert "30 bios (30%) begin where a request ends that is still inside the driver" in said(one)
    assert "inside the driver" not in said(device(followers=1))


def test_buffered_mode_is_named() -> None:
    one = device(is_direct=False, stage_ns=mostly("W2X"), w2x=latencies(*[90_000] * 100), works=10)
    text = said(one)
    assert "the device is buffered" in text
    assert "what takes that away: per_command submits in parallel, or direct I/O" in text


def test_nested_file_code_is_named() -> None:
    one = device(executors=[Executor("j", 100, 0)], works=0, depths={1: 60, 2: 40})
    assert "file code was nested 2 deep on one stack" in said(one)


def test_nothing_to_explain() -> None:
    assert said(device(requests=0)) == "nothing was executed"


def test_the_text_has_every_part() -> None:
    one = device(
        executors=[Executor(f"w{at}", at == 0, 10) for at in range(12)],
        reasons={"policy": 90, "eagain_sync": 10},
        writes=Tries(tried=30, eagain=10, skipped=2),
        batches={0: 5, 1: 70, 3: 25},
        behind={"j": 63_000, OTHER_WORKERS: 21_000},
        merged=7,
        followers=9,
    )
    text = render(one, ["all is well"])
    assert text.startswith("\nLoop driver, /dev/loop0: workqueue, direct, /img on /dev/nvme0n1\n")
    for part in (
        "4 more                       0        40      33%",
        "policy                90  the policy gives everything to workers",
        "eagain_sync           10  tried, and the file would have slept",
        "writes tried without sleeping: 30, EAGAIN 10 (33%: 33% from the file, 0% from the device below)",
        "skipped by the hint 2",
        "works: 100, 0.83 per request; requests per work: 0: 5.0%, 1: 70%, 3-4: 25%",
        "(W2X): mean 10.0 us",
        "workers wait for a CPU, each time: mean 1.0 us",
        "of the time that they want one, other tasks have it 4.0%, interrupts and switches 0.8%",
        "those tasks are j 75%, other kworkers 25%",
        "merges: 7 here, 0 below; lost: 9 bios",
        "on the stack of who executed a request: 1: 100",
        *NOT_COVERED,
        "  Summary\n  - all is well\n",
    ):
        assert part in text, part


def test_cpu_time_leaves_out_hogs() -> None:
    text = cpu_text(CpuTime(ios=10, by={"kworkers": 40_000, "hogs": 900_000}, runnable_ns={0: 9000, 3: 1000, 9: 1}))
    assert "CPU time per I/O of the jobs: 4.0 us (kworkers 4.0 us, hogs 90.0 us)" in text
    assert "at the same time: 0: 90%, 3-4: 10%\n" in text
    assert cpu_text(CpuTime()) == ""


def test_shares_keep_a_digit_when_small() -> None:
    assert [percent(share) for share in (0, 0.004, 0.099, 0.5, 1)] == ["0%", "0.4%", "9.9%", "50%", "100%"]
