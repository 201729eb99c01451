"""Sparse images (cases 9 and 10) and buffered loop devices (27 and 28), with the limits that the reports leave."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.loop_seed import example
from blktwin.lab.loop_seed_cases import BUILD_STACK, buffered_rows, sparse_rows, tail_rows
from blktwin.lab.scenario import Scenario
from blktwin.lab.scenario_text import SAME, render_text
from blktwin.lab.stack_file import load_stack

COMPILED = not blktwin.fio.job.__file__.endswith(".py")
only_compiled = pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test compiles")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


@only_compiled
def test_the_sparse_image() -> None:
    """Case 9: without the hint writes at random are clearly slower, those in order by 4 to 10%; the hint cures both."""
    rows = {row.rw: row for row in sparse_rows()}
    assert -0.30 < rows["randwrite"].loss < -0.12
    assert -0.10 < rows["write"].loss < -0.04
    for row in rows.values():
        assert abs(row.loss_with_hint) < 0.01


@only_compiled
def test_the_tail_of_reads() -> None:
    """Case 10: on a sparse image reads become erratic with NOWAIT first, and hardly with the worker."""
    rows = {(row.policy, row.image): row for row in tail_rows()}
    assert rows["nowait", "sparse"].width > 1.25 * rows["nowait", "mapped"].width
    assert rows["loop", "sparse"].width < 1.12 * rows["loop", "mapped"].width
    assert rows["nowait", "sparse"].eagain > 0.05
    assert rows["nowait", "mapped"].eagain == 0
    assert rows["loop", "sparse"].eagain == 0


@only_compiled
def test_buffered_or_direct() -> None:
    """Cases 27 and 28."""
    home, checkpoint, build = buffered_rows()
    assert 150 < home.buffered < 250
    assert home.direct == pytest.approx(1000, rel=0.1)
    assert 4 < home.faster < 5
    assert 4 < checkpoint.faster < 6
    assert build.faster == pytest.approx(1, abs=0.05)


def test_nothing_is_promised_where_nothing_is_gained() -> None:
    """Case 28: the tool itself says so."""
    scenario = Scenario(load_stack(example(BUILD_STACK)), seeds=[1])
    scenario.run()
    assert SAME in render_text(scenario)
