"""Runs one job through the whole product, from the job file to fio's statistics, and says what it cost.

python -m benchmarks.product NAME RUNTIME_MS runs one case in a process of its own and prints the sample as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from blktwin.block.rules import DEFAULT_RULES
from blktwin.buildinfo import is_compiled
from blktwin.fio import jobfile
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.lab.stack_build import assemble, read_stack
from blktwin.sim.devices.spec import parse_device

ROOT = Path(__file__).resolve().parents[1]
JOB = Path(__file__).with_name("randwrite.fio")
LOOP_STACK = Path(__file__).with_name("loop.toml")
LOOP_PATH = "/dev/loop0"
DEVICE_PATH = "/dev/nullb0"
LATENCY_US = 100
DEPTH = 64
DEVICE = f"{DEVICE_PATH}=null,latency={LATENCY_US}us,depth={DEPTH}"


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run the job."""

    scheduler: str
    engine: str = "psync"
    numjobs: int = 8
    iodepth: int = 1
    rules: str = DEFAULT_RULES
    cgroup: str = "/"
    is_apart: bool = False
    """BFQ does not merge the queues of jobs that start together."""
    loop_policy: str = ""
    """Not on the device itself, but on a loop device over a file on it."""

    def variables(self, runtime_ms: int, filename: str = "") -> dict[str, str]:
        """Return what the job file asks for as ${NAME}."""
        return {
            "FILENAME": filename or (LOOP_PATH if self.loop_policy else DEVICE_PATH),
            "ENGINE": self.engine,
            "IODEPTH": str(self.iodepth),
            "NUMJOBS": str(self.numjobs),
            "RUNTIME_MS": str(runtime_ms),
        }


CASES: Mapping[str, Case] = {
    "none": Case("none"),
    "mq-deadline": Case("mq-deadline"),
    "bfq": Case("bfq", is_apart=True),
    "bfq-serial": Case("bfq", rules="6.1", cgroup="/a", is_apart=True),
    "libaio": Case("none", engine="libaio", numjobs=1, iodepth=32),
    "null-engine": Case("none", engine="null", numjobs=1),
    "loop-workqueue": Case("none", loop_policy="workqueue"),
    "loop-nowait": Case("none", loop_policy="nowait_first"),
    "100-jobs": Case("none", numjobs=100),
}


@dataclass(slots=True)
class Sample:
    """One run: simulated I/Os, CPU seconds of the process, and what the job saw (IOPS, mean clat)."""

    ios: int
    cpu_s: float
    iops: float
    clat_ns: float
    peak_mib: float = 0.0
    compiled: bool = False

    @property
    def rate(self) -> float:
        """I/Os per CPU second."""
        return self.ios / self.cpu_s


def make_stack(case: Case) -> Stack:
    """Return the simulated machine of a case."""
    if case.loop_policy:
        return assemble(read_stack(str(LOOP_STACK), case.loop_policy), scheduler=case.scheduler, rules=case.rules)
    rules = find_rules(case.rules)
    if case.is_apart:
        rules.bfq_stable_merge = False
    return Stack(devices=[parse_device(DEVICE)], scheduler=case.scheduler, rules=rules, cgroup=case.cgroup)


def run_case(case: Case, runtime_ms: int) -> Sample:
    """Read the job file, run it and collect its statistics; all of it is timed."""
    start = time.process_time()
    plan = jobfile.load([str(JOB)], [], env=case.variables(runtime_ms))
    result = simulate(plan, make_stack(case))
    cpu_s = time.process_time() - start
    ios, iops, clat_ns = outcome(result)
    return Sample(ios, cpu_s, iops, clat_ns, compiled=is_compiled())


def outcome(result: RunResult) -> tuple[int, float, float]:
    """Return I/Os done, I/Os a second and the mean completion latency in ns, over all jobs."""
    ios = 0
    latency_ns = 0
    longest_ns = 1
    for job in result.jobs:
        direction = job.stat.directions[1]
        ios += int(direction.done_ios)
        latency_ns += int(direction.clat.total)
        longest_ns = max(longest_ns, int(job.stat.end_ns - job.stat.epoch_ns))
    return ios, ios * 1e9 / longest_ns, latency_ns / max(1, ios)


def peak_rss_mib() -> float:
    """Return this process's largest resident size so far; not getrusage's, which keeps the parent's over exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("this kernel does not tell VmHWM")


def run_apart(name: str, runtime_ms: int, *, interpreted: bool = False) -> Sample:
    """Run a case in a new process, by the installed package or (interpreted) straight from src/."""
    env = dict(os.environ)
    if interpreted:
        env["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "benchmarks.product", name, str(runtime_ms)]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    sample = Sample(**json.loads(done.stdout))
    if interpreted and sample.compiled:
        raise RuntimeError("src/ holds compiled modules: remove src/**/*.so")
    return sample


def main(arguments: list[str]) -> int:
    """Run one case and print its sample."""
    name, runtime_ms = arguments
    sample = run_case(CASES[name], int(runtime_ms))
    sample.peak_mib = peak_rss_mib()
    print(json.dumps(asdict(sample)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
