"""Jobs of every engine and pattern on devices that fail now and then: run as a program, it prints what came out."""

from __future__ import annotations

from blktwin.block.rules import PRESET_NAMES
from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device

ENGINES = ("psync", "pvsync2", "libaio", "io_uring", "posixaio", "null")
PATTERNS = ("read", "randwrite", "randrw", "trimwrite", "write")
EXTRAS = (
    "--iodepth_batch=4 --fsync=5",
    "--rate_iops=4000 --rate_process=poisson",
    "--thinktime=200 --thinktime_blocks=3 --end_fsync=1",
    "--bssplit=4k/50:16k/50 --random_distribution=zipf:1.2",
    "--ramp_time=500us --runtime=3ms --bsrange=4k-64k",
    "--fdatasync=3 --sync=dsync --percentage_random=40 --norandommap",
    "--bs=1536k --rate=2g --loops=2",
)
DEVICES = ("nvme,queues=2", "hdd", "null,latency=15us,depth=4,queues=1", "sata-ssd", "seed2-nvme")
FAULTS = {
    "io_error_ppm": 500,
    "refuse_ppm": 20_000,
    "slow_io_ppm": 20_000,
    "slow_io_ns": 300_000,
    "late_timer_ppm": 50_000,
    "late_timer_ns": 90_000,
    "slow_work_ppm": 50_000,
    "slow_work_ns": 40_000,
}


def main() -> None:
    """Run one of each."""
    rules = sorted(PRESET_NAMES)
    for at in range(35):
        engine = ENGINES[at % len(ENGINES)]
        words = [f"--name={engine}{at}", f"--ioengine={engine}", f"--rw={PATTERNS[at % len(PATTERNS)]}", "--direct=1"]
        words += ["--filename=/dev/sda:/dev/sdb", "--size=6m", "--number_ios=60", "--numjobs=3"]
        words += ["--iodepth=8"] if engine not in ("psync", "pvsync2") else []
        words += EXTRAS[at % len(EXTRAS)].split()
        devices = [
            f"/dev/{name}={DEVICES[(at + shift) % len(DEVICES)]},size=64m" for name, shift in (("sda", 0), ("sdb", 2))
        ]
        stack = Stack(
            devices=[parse_device(text) for text in devices],
            scheduler=("none", "mq-deadline")[at // 2 % 2],
            rules=find_rules(rules[at % len(rules)]),
            cpus=1 + at % 3,
            cgroup=("/", "/a/b")[at % 2],
            seed=at,
            faults=FAULTS if at % 3 else {},
        )
        print(render(simulate(jobfile.load([], words, env={}), stack), ["json+"]), end="")


if __name__ == "__main__":
    main()
