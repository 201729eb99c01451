"""The status line: what it says, and when it is there."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest

from blktwin.fio import jobfile
from blktwin.lab.eta import EtaLine, status
from blktwin.lab.run import prepare, simulate
from blktwin.lab.stack import Stack

WORDS = (
    "--name=a --rw=randread --direct=1 --filename=/dev/sda --runtime=2ms --name=b --rw=read --ioengine=null --size=4k"
)


def test_the_line_says_who_runs_how_far_and_how_fast() -> None:
    world, schedule = prepare(jobfile.load([], [*WORDS.split(), "--stonewall"], env={}), Stack())
    schedule.begin(world.threads)
    world.machine.run(1_000_000, 1 << 40)
    line = status(world, schedule, 0.5)
    assert re.fullmatch(r"Jobs: 1 \(waiting 1\) \[0\.0s simulated\]\[\d+MiB/s\]\[0\.0x real time\]", line)


@pytest.mark.parametrize(("mode", "shown"), [("always", True), ("never", False), ("auto", False)])
def test_when_there_is_a_line(mode: str, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """auto: only on a terminal, which a test has not."""
    monkeypatch.setattr(sys, "stderr", StringIO())
    assert EtaLine(mode).is_shown is shown


def test_a_run_with_a_line_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    plan = jobfile.load([], WORDS.split(), env={})
    with EtaLine("always") as line:
        result = simulate(plan, Stack(), progress=line.update)
    assert not result.partial
    assert capsys.readouterr().out == ""
