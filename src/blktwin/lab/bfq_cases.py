"""What users reported about BFQ, as runs: a SATA disk's table, 32 readers in a cgroup, starting up beside readers.

Reporters' devices are not known in detail, so ratios and order are what can agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from blktwin.fio import jobfile
from blktwin.lab.bfq_runs import Bench, Load, counts_at, ms, run_windows
from blktwin.lab.bfq_seed import measure
from blktwin.lab.run import prepare
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device

SATA = "/dev/sda=sata-ssd,write_mib_s=112,cache_write=lognormal(40us, 0.1)"
"""112 MiB/s is the mail's ceiling. The latency is not told: this one was chosen in sight of its 51.2 MiB/s, of which
the model's seeds make 35 to 52."""
SATA_MIB_S = {("before", "/"): 112.0, ("before", "/c1"): 51.2, ("after", "/"): 112.0, ("after", "/c1"): 112.0}
SATA_RAMP_MS = 4000
"""A slow disk's writers stay raised for 3.75 s."""
READERS = 32
START_UP = {"none": 2.11, "mq-deadline": 2.18, "bfq": 0.736}
"""Seconds that a program took to start beside ten sequential readers."""
START_UP_READS = 410
START_UP_THINK_US = 1600
"""The reads and the work between them, so that none gives its 2.11 s and a drive of one's own 0.74 s."""
START_UP_S = 6
START_UP_WINDOW_US = ms(2400)


def sata(rules: str, cgroup: str, seed: int = 1) -> float:
    """Return the MiB/s of the mail's job on its SATA disk."""
    return measure((rules, cgroup, seed), device=SATA, ramp_ms=SATA_RAMP_MS)


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
    """How long a program took to start (s), and what ten readers read in the 2.4 s from there (MiB/s)."""

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
    words += [f"--thinktime={START_UP_THINK_US}"]
    stack = Stack([parse_device("/dev/sda=sata-ssd")], scheduler, rules=find_rules("6.1"), seed=seed)
    world, schedule = prepare(jobfile.load([], words, env={}), stack)
    schedule.begin(world.threads)
    begin = ms(1000 * START_UP_S)
    before = counts_at(world, begin)
    after = counts_at(world, begin + START_UP_WINDOW_US)
    program = world.threads[-1].stat
    read = sum(after[:-1]) - sum(before[:-1])
    return StartUp((int(program.end_ns) - int(program.epoch_ns)) / 1e9, read / 8 * 1e6 / START_UP_WINDOW_US)
