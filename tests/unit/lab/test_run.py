"""A run as a whole: bounds, errors, faults, progress, Ctrl-C, determinism, the JSON's "blktwin" object."""

from __future__ import annotations

import json
import os
import signal

import pytest

from blktwin.errors import ConfigError
from blktwin.fio import jobfile
from blktwin.fio.ddir import READ
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.fio.spec import JobPlan
from blktwin.lab.run import CHUNK_EVENTS, simulate
from blktwin.lab.schedule import Schedule
from blktwin.lab.stack import Stack
from blktwin.lab.world import World
from blktwin.sim.devices.spec import parse_device


def plan(words: str) -> JobPlan:
    """Load a job of random reads."""
    return jobfile.load(
        [], ["--name=job", "--rw=randread", "--direct=1", "--filename=/dev/sda", *words.split()], env={}
    )


def run(words: str, device: str = "/dev/sda=nvme", **stack: object) -> RunResult:
    """Run it."""
    return simulate(plan(words), Stack(devices=[parse_device(device)], **stack))  # type: ignore[arg-type]


@pytest.mark.parametrize("words", ["", "--loops=5", "--bs=512 --size=11g"])
def test_a_job_without_a_bound_says_how_long_it_is(words: str) -> None:
    with pytest.raises(ConfigError, match=r"about [0-9,]{10,} simulated I/Os; give --runtime TIME, or --yes"):
        simulate(plan(words), Stack(), allow_unbounded=False)


@pytest.mark.parametrize("words", ["--runtime=1ms", "--number_ios=7", "--size=64k"])
def test_what_bounds_a_job(words: str) -> None:
    assert simulate(plan(words), Stack(), allow_unbounded=False).jobs[0].stat.directions[READ].total_ios > 0


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring", "posixaio"])
def test_an_io_error_ends_its_job_with_fios_code(engine: str) -> None:
    words = f"--ioengine={engine} --iodepth={1 if engine == 'psync' else 8} --size=1m"
    result = run(words, faults={"io_error_ppm": 50_000})
    stat = result.jobs[0].stat
    assert stat.error == 5
    assert stat.error_text.startswith("I/O error on /dev/sda: read at ")
    assert stat.directions[READ].total_ios < 256
    conservation = result.blktwin["conservation"]
    assert isinstance(conservation, dict)
    assert conservation["failed"] >= 1
    assert conservation["in_flight"] == 0
    document = json.loads(render(result, ["json"]))
    assert document["jobs"][0]["error"] == 5


@pytest.mark.parametrize(("option", "others"), [("", 64), ("--exitall_on_error", 0)])
def test_other_jobs_go_on_after_an_error_unless_told_not_to(option: str, others: int) -> None:
    words = f"--size=256k {option} --name=null --rw=read --ioengine=null --size=256k --filename=x --rate_iops=1000"
    result = run(words, faults={"io_error_ppm": 1_000_000})
    assert [job.stat.error for job in result.jobs] == [5, 0]
    assert result.jobs[1].stat.directions[READ].done_ios == pytest.approx(others, abs=1)


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring", "posixaio"])
def test_a_failed_sync_ends_the_job(engine: str) -> None:
    words = f"--ioengine={engine} --rw=write --fsync=1 --size=64k"
    result = run(words, "/dev/sda=hdd", faults={"io_error_ppm": 400_000}, seed=3)
    assert result.jobs[0].stat.error == 5


def test_slow_and_refused_ios_change_time_but_lose_nothing() -> None:
    smooth = run("--size=1m --ioengine=libaio --iodepth=16")
    rough = run(
        "--size=1m --ioengine=libaio --iodepth=16",
        faults={"slow_io_ppm": 100_000, "slow_io_ns": 2_000_000, "refuse_ppm": 200_000},
    )
    for result in (smooth, rough):
        assert result.jobs[0].stat.directions[READ].done_ios == 256
    assert rough.elapsed_ms > smooth.elapsed_ms


def test_progress_sees_the_world_and_ctrl_c_ends_it_between_events() -> None:
    seen: list[int] = []

    def progress(world: World, schedule: Schedule) -> None:
        seen.append(int(world.machine.events.now_ns))
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    result = simulate(plan(""), Stack(), progress=progress)
    assert len(seen) == 3
    assert result.partial
    assert result.blktwin["partial"] is True
    stat = result.jobs[0].stat
    conservation = result.blktwin["conservation"]
    assert isinstance(conservation, dict)
    assert conservation["submitted"] == conservation["completed"] + conservation["in_flight"]
    assert CHUNK_EVENTS // 20 < stat.directions[READ].total_ios < CHUNK_EVENTS * 3
    assert result.elapsed_ms == seen[-1] // 1_000_000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def text_of(seed: int, device: str) -> str:
    """Return everything that a run says, but for the seed itself."""
    result = run("--runtime=5ms --ioengine=libaio --iodepth=4", device, seed=seed)
    result.blktwin["seed"] = 0
    return render(result, ["json+", "normal", "terse"])


@pytest.mark.parametrize("device", ["/dev/sda=nvme", "/dev/sda=hdd", "/dev/sda=null"])
def test_same_seed_same_bytes(device: str) -> None:
    assert text_of(7, device) == text_of(7, device)


def test_another_seed_differs_where_the_device_is_random() -> None:
    assert text_of(1, "/dev/sda=nvme") != text_of(2, "/dev/sda=nvme")
    assert text_of(1, "/dev/sda=null,latency=20us") == text_of(2, "/dev/sda=null,latency=20us")


def test_no_randrepeat_takes_the_runs_seed() -> None:
    """fio would ask the system for randomness; here the run's seed decides, so that it repeats."""
    words = "--number_ios=50 --randrepeat=0"

    def offsets(seed: int) -> str:
        return render(run(words, "/dev/sda=hdd", seed=seed), ["json"]).replace(f'"seed" : {seed}', "")

    assert offsets(1) == offsets(1)
    assert offsets(1) != offsets(2)


def test_the_json_tells_what_ran() -> None:
    result = run(
        "--size=64k", "/dev/sda=nvme,read=lognormal(80us, 0.2),size=1g", scheduler="mq-deadline", cpus=2, cgroup="/c"
    )
    tells = json.loads(render(result, ["json"]))["blktwin"]
    assert tells["conservation"] == {"submitted": 16, "completed": 16, "failed": 0, "in_flight": 0}
    assert tells["stack"]["cgroup"] == "/c"
    assert tells["stack"]["cpus"] == 2
    disk = tells["stack"]["devices"]["/dev/sda"]
    assert disk["given"] == {"read": "lognormal(80us, 0.2)", "size": "1073741824"}
    assert disk["scheduler"] == "mq-deadline"
    assert disk["requests"] == 16
