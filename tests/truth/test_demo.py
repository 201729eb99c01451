"""`make demo`: the box of the BFQ mail writes its 550 MiB/s while all eight jobs run."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.demo import run_demo, throughput

COMPILED = not blktwin.fio.job.__file__.endswith(".py")


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test-slow compiles")
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_all_eight_jobs_share_the_ceiling(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    result = run_demo(scheduler)
    assert len(result.jobs) == 8
    assert throughput(result) == pytest.approx(550, rel=0.03)
