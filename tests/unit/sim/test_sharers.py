"""Who shares a hardware queue, and what the sharing costs."""

from __future__ import annotations

from statistics import mean

from blktwin.fio import jobfile
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import parse_hosts
from blktwin.sim.sharers import RECENT, Sharers

HOSTS = """
[plain]
source = "all costs equal"
cpus = 4
hz = 250
{costs}
[shared]
source = "and one microsecond for every CPU that shares a queue"
inherit = "plain"
queue_share = 1000
"""
COSTS = (
    "user_io sys_enter sys_exit io_prep aio page_copy submit alloc merge plug insert elevator bfq issue irq idle_exit "
    "softirq complete wake queue_work work switch sleep cgroup_level timer"
)


def test_counts_other_cpus() -> None:
    sharers = Sharers(4)
    assert [sharers.add(cpu) for cpu in (0, 0, 1, 3, 1)] == [0, 0, 1, 2, 2]


def test_forgets() -> None:
    sharers = Sharers(2)
    sharers.add(1)
    assert [sharers.add(0) for _ in range(RECENT)] == [1] * (RECENT - 1) + [0]


def latency_ns(host: str, nr_jobs: int, queues: int) -> float:
    """Return the mean latency of psync readers, each on a CPU of its own."""
    text = HOSTS.format(costs="\n".join(f"{cost} = 100" for cost in COSTS.split()))
    words = ["--name=j", "--filename=/dev/nullb0", "--direct=1", "--rw=randread", "--ioengine=psync"]
    words += [f"--numjobs={nr_jobs}", "--size=1m", "--thread", "--group_reporting"]
    device = parse_device(f"/dev/nullb0=null,latency=50us,queues={queues}")
    stack = Stack([device], "none", host=parse_hosts(text, "hosts")[host])
    result = simulate(jobfile.load([], words, env={}), stack)
    return mean(job.stat.directions[0].clat.mean() for job in result.jobs)


def test_sharing_costs_per_cpu() -> None:
    for nr_jobs in (1, 3):
        more = latency_ns("shared", nr_jobs, 1) - latency_ns("plain", nr_jobs, 1)
        assert abs(more - 1000 * (nr_jobs - 1)) < 100


def test_queues_of_their_own_cost_nothing() -> None:
    assert latency_ns("shared", 3, 4) == latency_ns("plain", 3, 4)
