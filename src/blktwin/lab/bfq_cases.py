"""What users reported about BFQ, as runs: a SATA disk's table, 32 readers in a cgroup, starting up beside readers.

Reporters' devices are not known in detail, so ratios and order are what can agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from blktwin.fio import jobfile
from blktwin.lab.bfq_runs import Bench, Load, ms, run_windows
from blktwin.lab.bfq_seed import measure
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device

SATA = "/dev/sda=sata-ssd,write_mib_s=112,cache_write=lognormal(75us, 0.1)"
"""112 MiB/s is the mail's ceiling; that a lone writer gets less than its 51.2 is all that is known of the latency."""
SATA_MIB_S = {("before", "/"): 112.0, ("before", "/c1"): 51.2, ("after", "/"): 112.0, ("after", "/c1"): 112.0}
READERS = 32
START_UP = {"none": 2.11, "mq-deadline": 2.18, "bfq": 0.736}
"""Seconds that a program took to start beside ten sequential readers."""
START_UP_READS = 630
START_UP_S = 6


def sata(rules: str, cgroup: str, seed: int = 1) -> float:
    """Return the MiB/s of the mail's job on its SATA disk."""
    return measure((rules, cgroup, seed), device=SATA)


def readers(count: int, slice_idle_ms: int = 8, weights: tuple[int, int] | None = None) -> list[float]:
    """Return IOPS of each of so many psync readers on 5.10, all in /a, or half in /a and half in /b if they weigh."""
    cgroups = ["/a"] * count
    if weights is not None:
        cgroups = ["/a", "/b"] * (count // 2)
    loads = [Load(cgroup, at * ms(20), rw="randread") for at, cgroup in enumerate(cgroups)]
    tunables = [("iosched.low_latency", "0"), ("iosched.slice_idle", str(slice_idle_ms))]
    bench = Bench("5.10", 100, tunables=tunables)
    if weights is not None:
        bench.weights = {"/a": weights[0], "/b": weights[1]}
    return run_windows(bench, loads, [(ms(1000), ms(3000))], 0)[0]


@dataclass(slots=True)
class StartUp:
    """How long a program took to start (s), and what ten readers read meanwhile (MiB/s)."""

    seconds: float
    readers_mib_s: float


def start_up(scheduler: str, seed: int = 1) -> StartUp:
    """Start a program that reads small pieces in the sixth second of ten sequential readers, on a SATA disk, 6.1."""
    words = ["--name=global", "--filename=/dev/sda", "--direct=1", "--ioengine=psync", "--thread"]
    for at in range(10):
        words += [f"--name=reader{at}", "--rw=read", "--bs=128k", f"--offset={4 * at}g", "--size=4g", "--time_based"]
        words += [f"--runtime={START_UP_S + 3}s"]
    words += ["--name=program", "--rw=randread", "--bs=4k", "--offset=100g", "--size=1g", "--norandommap"]
    words += [f"--startdelay={START_UP_S}s", f"--number_ios={START_UP_READS}"]
    stack = Stack([parse_device("/dev/sda=sata-ssd")], scheduler, rules=find_rules("6.1"), seed=seed)
    result = simulate(jobfile.load([], words, env={}), stack)
    window = result.blktwin["all_jobs"]
    assert isinstance(window, dict)
    seconds = (window["until_ms"] - window["from_ms"]) / 1000
    own = START_UP_READS * 4 / 1024 / seconds
    return StartUp(seconds, window["read_mib_s"] - own)
