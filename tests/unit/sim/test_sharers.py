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
irq_cpus = [0]
{costs}
[shared]
source = "and one microsecond for every CPU that shares a queue"
inherit = "plain"
queue_share = 1000
[told]
source = "and five where another CPU wakes"
inherit = "plain"
remote_wake = 5000
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


def latencies(host: str, nr_jobs: int, queues: int) -> list[float]:
    """Return the mean latencies of psync readers, each on a CPU of its own."""
    text = HOSTS.format(costs="\n".join(f"{cost} = 100" for cost in COSTS.split()))
    words = ["--name=j", "--filename=/dev/nvme0n1", "--direct=1", "--rw=randread", "--ioengine=psync"]
    words += [f"--numjobs={nr_jobs}", "--size=1m", "--thread"]
    device = parse_device(f"/dev/nvme0n1=nvme,latency=50us,queues={queues}")
    stack = Stack([device], "none", host=parse_hosts(text, "hosts")[host])
    result = simulate(jobfile.load([], words, env={}), stack)
    return [float(job.stat.directions[0].clat.mean()) for job in result.jobs]


def latency_ns(host: str, nr_jobs: int, queues: int) -> float:
    """Return their mean."""
    return mean(latencies(host, nr_jobs, queues))


def test_sharing_costs_per_cpu() -> None:
    for nr_jobs in (1, 3):
        more = latency_ns("shared", nr_jobs, 1) - latency_ns("plain", nr_jobs, 1)
        assert abs(more - 1000 * (nr_jobs - 1)) < 100


def test_queues_of_their_own_cost_nothing() -> None:
    assert latency_ns("shared", 3, 4) == latency_ns("plain", 3, 4)


def test_remote_wake() -> None:
    """Interrupts come to CPU 0, where the first job runs; the second one's CPU is idle and must be told."""
    told = latencies("told", 2, 1)
    plain = latencies("plain", 2, 1)
    assert abs(told[0] - plain[0]) < 200
    assert abs(told[1] - plain[1] - 5000) < 200
