"""Jobs on devices that refuse now and then and on loop devices of every policy, with all that is told of them.

Run as a program it prints what came out: a parity test compares two builds.
"""

from __future__ import annotations

from blktwin.drivers.loop.config import POLICIES
from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.lab.explain import Explain
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import parse_stack
from blktwin.lab.stages import Stages
from blktwin.sim.devices.spec import parse_device

LOOP = """
[device."/dev/nvme0n1"]
profile = "nvme"
[file."/img"]
size = "64m"
sparse = {sparse}
[loop.loop0]
backing-file = "/img"
direct-io = {direct}
policy = "{policy}"
"""
JOBS = (
    "--rw=randrw --ioengine=libaio --iodepth=16 --iodepth_batch=4 --numjobs=2 --fsync=7",
    "--rw=write --ioengine=libaio --iodepth=32 --iodepth_batch=8",
    "--rw=randread --ioengine=psync --numjobs=5",
)
FAULTS = {"refuse_ppm": 30_000, "slow_work_ppm": 50_000, "slow_work_ns": 40_000}


def words_of(path: str, job: str) -> list[str]:
    """Return a job's words."""
    words = ["--name=j", f"--filename={path}", "--direct=1", "--bs=4k", "--size=16m", "--time_based", "--runtime=3ms"]
    return [*words, *job.split()]


def show(path: str, job: str, stack: Stack, explain: Explain | None) -> None:
    """Run a job and print all that it tells."""
    stages = Stages()
    result = simulate(jobfile.load([], words_of(path, job), env={}), stack, stages=stages, explain=explain)
    print(render(result, ["json"]), stages.text(), "" if explain is None else explain.text())


def main() -> None:
    """Run all."""
    for scheduler in ("none", "mq-deadline", "bfq"):
        for job in JOBS:
            device = parse_device("/dev/nvme0n1=null,latency=40us,depth=8,queues=1,size=1g")
            show("/dev/nvme0n1", job, Stack(devices=[device], scheduler=scheduler, cpus=3, faults=FAULTS), None)
    for at, policy in enumerate(POLICIES[:5]):
        for sparse in ("false", "true"):
            text = LOOP.format(sparse=sparse, direct="false" if at == 0 and sparse == "true" else "true", policy=policy)
            stack = assemble(parse_stack(text, "s.toml").read(), seed=at)
            show("/dev/loop0", JOBS[at % 3], stack, Explain("loop"))


if __name__ == "__main__":
    main()
