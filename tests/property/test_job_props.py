"""Random small jobs of every kind run to their end: nothing is lost or stuck, and the same seed repeats every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.rules import PRESET_NAMES
from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.lab.run import collect, drive, prepare
from blktwin.lab.stack import Stack, find_rules
from blktwin.lab.world import World
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import get_host

DEVICES = (
    "null,latency=20us,depth=4,queues=1,size=16m",
    "null,latency=5us,depth=64,queues=2,size=16m",
    "nvme,size=16m",
    "sata-ssd,size=16m",
    "hdd,size=16m",
    "seed2-nvme,size=16m",
    "nvme,queues=1,depth=2,size=16m",
    "nvme,size=16m,nr_requests=4,nomerges=2",
)
FAULTS = ("io_error_ppm", "refuse_ppm", "slow_io_ppm", "late_timer_ppm", "slow_work_ppm")
SPREADS = ("--random_distribution=zipf:1.1", "--norandommap", "--percentage_random=50", "--randrepeat=0")
FILES = ("/dev/sda", "/dev/sda:/dev/sdb", "x", "x:y")
PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw", "trim", "randtrim", "trimwrite", "randtrimwrite")


def maybe(*words: str) -> st.SearchStrategy[str]:
    """Draw one of the words, or none of them half of the time."""
    return st.one_of(st.just(""), st.sampled_from(words))


@st.composite
def job_words(draw: st.DrawFn, at: int) -> list[str]:
    """Draw one job section."""
    engine = draw(st.sampled_from(["psync", "pvsync2", "sync", "libaio", "io_uring", "posixaio", "null"]))
    depth = draw(st.integers(1, 12)) if engine in ("libaio", "io_uring", "posixaio", "null") else 1
    words = [f"--name=job{at}", f"--ioengine={engine}", "--direct=1", f"--iodepth={depth}"]
    pattern = draw(st.sampled_from(PATTERNS))
    words.append(f"--rw={pattern}{draw(maybe(':4' if pattern.startswith('rand') else ':8k'))}")
    words.append(draw(st.sampled_from(["--bs=4k", "--bs=512", "--bs=4k-32k", "--bs=64k", "--bssplit=4k/50:8k/50",
                                       "--bs=4k,8k", "--bs=1536k"])))  # fmt: skip
    words.append(f"--number_ios={draw(st.integers(1, 40))}")
    words.append(draw(maybe("--iodepth_batch=4", "--iodepth_batch=2 --iodepth_batch_complete_min=2", "--iodepth_low=2",
                            "--iodepth_batch_complete_min=0", "--iodepth_batch_complete_max=8")))  # fmt: skip
    words.append(draw(maybe("--fsync=3", "--fdatasync=2", "--end_fsync=1", "--fsync=2 --end_fsync=1", "--sync=1")))
    words.append(draw(maybe("--rate=4m", "--rate_iops=3000", "--rate_iops=2000 --rate_process=poisson", "--rate=1m,2m",
                            "--rate_iops_min=100")))  # fmt: skip
    words.append(
        draw(
            maybe(
                "--thinktime=300",
                "--thinktime=1ms --thinktime_blocks=5 --thinktime_spin=100",
                "--thinktime=50 --thinktime_blocks_type=issue",
                "--thinktime=100 --thinktime_iotime=1ms",
            )
        )
    )
    words.append(draw(maybe("--runtime=3ms", "--runtime=2ms --time_based", "--ramp_time=1ms --runtime=3ms", "--loops=2",
                            "--startdelay=1ms", "--startdelay=100us-2ms")))  # fmt: skip
    words.append(draw(maybe("--stonewall", "--new_group", "--wait_for=job0" if at else "", "--exitall")))
    words.append(draw(maybe("--numjobs=2", "--cgroup=a", "--nice=5", "--prioclass=3", "--prioclass=1 --prio=2")))
    words.append(draw(maybe(*SPREADS)))
    words.append(f"--filename={draw(st.sampled_from(FILES))}")
    words.append("--size=" + draw(st.sampled_from(["3m", "6m", "9000k"])))
    return " ".join(words).split()


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[str], dict[str, object]]:
    """Draw the devices' texts and the other parts of a stack."""
    devices = [f"/dev/{name}={draw(st.sampled_from(DEVICES))}" for name in ("sda", "sdb")]
    rates = st.sampled_from([0, 20_000, 300_000])
    faults = draw(st.dictionaries(st.sampled_from(FAULTS), rates, max_size=3))
    faults |= {name.replace("_ppm", "_ns"): 500_000 for name in faults if name.startswith(("slow", "late"))}
    rest = {
        "scheduler": draw(st.sampled_from(["", "none", "mq-deadline"])),
        "rules": draw(st.sampled_from(sorted(PRESET_NAMES))),
        "cpus": draw(st.integers(1, 4)),
        "cgroup": draw(st.sampled_from(["/", "/a/b"])),
        "seed": draw(st.integers(1, 1000)),
        "faults": faults,
    }
    return devices, rest


def run(words: list[str], devices: list[str], rest: dict[str, object]) -> tuple[World, RunResult]:
    """Run a job on a stack that is built anew."""
    fields = dict(rest)
    fields["rules"] = find_rules(str(rest["rules"]))
    fields["host"] = get_host("server")
    stack = Stack(devices=[parse_device(text) for text in devices], **fields)  # type: ignore[arg-type]
    world, schedule = prepare(jobfile.load([], words, env={}), stack)
    assert not drive(world, schedule)
    return world, collect(world, schedule, False)


def check_idle(world: World) -> None:
    """See that nothing is left anywhere in the block layer."""
    for disk in world.disks.values():
        assert disk.q.stats.in_flight == 0
        assert disk.bdev.in_writeback == 0
        for hctx in disk.q.hctxs:
            for tags in (hctx.tags, hctx.sched_tags):
                assert tags is None or (tags.nr_free == tags.depth and tags.nr_waiting == 0)
            assert hctx.dispatch.head is None


def check_counts(world: World, result: RunResult) -> None:
    """See that every thread's counts agree with one another and with its options."""
    for thread, job in zip(world.threads, result.jobs, strict=True):
        spec = thread.spec
        stat = job.stat
        assert thread.nr_issued == thread.nr_completed
        assert (stat.error != 0) == (thread.nr_failed > 0 or stat.error_text != "")
        done = sum(lane.done_ios for lane in stat.directions)
        issued = sum(lane.total_ios for lane in stat.directions)
        nbytes = sum(lane.io_bytes for lane in stat.directions)
        used = [low for low, high, has in zip(spec.bs_min, spec.bs_max, spec.directions(), strict=True) if has]
        assert done * min(used) <= nbytes <= done * max(spec.bs_max)
        if not spec.ramp_time_ns:
            assert issued == thread.nr_issued
            assert done == thread.nr_completed - thread.nr_failed
            if not spec.time_based:
                # fio 3.33 doubles number_ios in each pass of a trimwrite job.
                doubled = 2**spec.loops if "trimwrite" in spec.rw else 1
                assert issued <= spec.number_ios * spec.loops * doubled
                limit = spec.size_bytes * spec.loops * (2 if "trimwrite" in spec.rw else 1)
                assert nbytes <= limit + spec.iodepth * max(spec.bs_max)


@given(st.data())
def test_any_job_on_any_stack_ends_and_repeats(data: st.DataObject) -> None:
    words: list[str] = []
    for at in range(data.draw(st.integers(1, 3), label="jobs")):
        words += data.draw(job_words(at), label=f"job {at}")
    devices, rest = data.draw(stacks(), label="stack")
    world, result = run(words, devices, rest)
    check_idle(world)
    check_counts(world, result)
    text = render(result, ["json+"])
    assert render(run(words, devices, rest)[1], ["json+"]) == text
