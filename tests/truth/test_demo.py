"""`make demo`: the box of the BFQ mail, and what is printed about it."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.bfq_seed import CELLS, Answer, measure, table

COMPILED = not blktwin.fio.job.__file__.endswith(".py")


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test-slow compiles")
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_all_eight_jobs_share_the_ceiling(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert measure(("6.12", "/", 1), scheduler=scheduler) == pytest.approx(550, rel=0.03)


def test_the_table_shows_the_spread_and_marks_a_miss() -> None:
    answers = [Answer(CELLS[0], [551.0]), Answer(CELLS[1], [300.0, 340.0, 500.0]), Answer(CELLS[2], [500.0])]
    lines = table(answers)
    assert "| 551 |" in lines[2]
    assert "340 (300 to 500 over 3 seeds)" in lines[3]
    assert "-2.6%" in lines[3]
    assert "missed" not in lines[3]
    assert lines[4].endswith("-9.1% **missed** |")
