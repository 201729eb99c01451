"""Numbers at the edge of 63 bits, and jobs of thousands of parts: no wrap, and no walk along a list for each part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from blktwin.errors import BlktwinError, ConfigError
from blktwin.fio import jobfile
from blktwin.fio.ddir import READ
from blktwin.fio.rate import RateControl
from blktwin.fio.results import RunResult
from blktwin.fio.spec import JobPlan
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.lab.world import World
from blktwin.rng import Rng
from blktwin.sim.devices.hdd import HddDevice, HddParams
from blktwin.sim.devices.nvme import NvmeDevice, NvmeParams
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.machine import SimMachine


def run(words: str, device: str = "/dev/sda=null") -> RunResult:
    """Run a job on one device."""
    plan = jobfile.load([], f"--name=j --direct=1 --filename=/dev/sda {words}".split(), env={})
    return simulate(plan, Stack(devices=[parse_device(device)]))


def machine() -> SimMachine:
    """Return a machine that nothing happens on."""
    return World(JobPlan([]), Stack()).machine


@contextmanager
def quick(limit_s: float) -> Iterator[None]:
    """Fail when it takes more CPU time than that."""
    began = time.process_time()
    yield
    assert time.process_time() - began < limit_s


def test_one_io_of_thousands_of_bios() -> None:
    with quick(6):
        result = run("--rw=read --bs=20g --size=20g", "/dev/sda=null,size=1t")
    assert result.jobs[0].stat.directions[READ].io_bytes == 20 << 30


def test_hundreds_of_clones_that_wait_for_hundreds() -> None:
    rest = "--ioengine=null --rw=read --bs=4k --size=4k --numjobs=500"
    plan = jobfile.load([], f"--name=a {rest} --name=b --wait_for=a {rest}".split(), env={})
    with quick(8):
        result = simulate(plan, Stack())
    assert sum(job.stat.directions[READ].done_ios for job in result.jobs) == 1000


def test_a_slow_and_fast_disk_has_its_track() -> None:
    params = HddParams()
    params.rpm = 1000
    params.bytes_per_s = 1 << 40
    assert HddDevice(machine(), 1, 1, params, 1 << 32).track_sectors == 60_000_000 * (1 << 40) // 10**9 // 512


def test_a_cache_that_drains_for_ever_has_a_time() -> None:
    params = NvmeParams()
    params.cache_bytes = 1 << 60
    params.drain_bytes_per_s = 1 << 20
    assert NvmeDevice(machine(), 1, 1, params, Rng(1, 1)).cache_ns == 1 << 62


def test_a_long_pause_is_forgiven_to_the_byte() -> None:
    words = "--name=j --ioengine=null --size=1m --rate=4t --rate_ignore_thinktime=1"
    [spec] = jobfile.load([], words.split(), env={}).jobs
    rate = RateControl(spec, [0] * 24)
    day_us = 86_400_000_000 // 24
    rate.forgive(READ, day_us)
    assert rate.issued[READ] == (4 << 40) * day_us // 1_000_000 - 4096


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--rw=randread --random_distribution=zipf:1.1 --blockalign=4096p", "blockalign: 4611686018427387904 is too"),
        ("--rw=read --bsrange=16g-4096p", "bsrange: 4611686018427387904 is more than 1024 times /dev/sda"),
        ("--rw=randread --blockalign=16p --size=1t", "blockalign: 18014398509481984 is too large for /dev/sda"),
    ],
)
def test_one_clear_line(words: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        run(words, "/dev/sda=null,size=4t")


def test_a_run_of_a_century_says_so() -> None:
    with pytest.raises(BlktwinError, match="after 126 years of simulated time these jobs still run: j$"):
        run("--rw=read --bs=1g --size=10g --rate=1")
