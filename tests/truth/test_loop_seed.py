"""The loop report's table (seed 3): ten cells from one set of parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.loop_seed import CELLS, ENGINES, LIMIT, REPORT, Answer, Cell, compare, measure, table

COMPILED = not blktwin.fio.job.__file__.endswith(".py")
only_compiled = pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test compiles")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def test_the_cells_are_the_reports() -> None:
    assert REPORT == {
        "raw": (399, 1246),
        "loop": (220, 276),
        "nowait": (302, 1055),
        "nowait mq4": (352, 1181),
        "per command": (300, 869),
    }
    assert (len(CELLS), LIMIT) == (10, 0.10)


def test_the_table_marks_what_is_missed() -> None:
    """A cell is missed when reads are too far off, or writes are not as many."""
    answers = [Answer(cell, cell.mib_s, cell.mib_s, 0, 0, 0, 0, 1.0) for cell in CELLS]
    assert "missed" not in "\n".join(table(answers))
    answers[2].read = answers[2].written = 220 * 1.11
    answers[5].written *= 0.9
    assert [line.count("missed") for line in table(answers)[2:]] == [0, 1, 1, 0, 0]


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.engine == "psync"], ids=lambda cell: str(cell.stack))
def test_psync(cell: Cell) -> None:
    """A short run: reads and writes differ by chance, so their mean counts."""
    answer = measure(cell, 60)
    assert (answer.read + answer.written) / 2 == pytest.approx(cell.mib_s, rel=0.13)


@only_compiled
def test_the_table() -> None:
    """Every cell is within 10%, and the order is the report's in both columns."""
    answers = compare()
    missed = [
        (one.cell.engine, one.cell.stack, round(one.read), round(one.written)) for one in answers if not one.is_within
    ]
    assert missed == []
    for engine in ENGINES:
        reads = {one.cell.stack: one.read for one in answers if one.cell.engine == engine}
        order = sorted(reads, key=lambda stack: -reads[stack])
        middle = ["nowait", "per command"]
        assert order[-1] == "loop"
        assert set(order[:2]) == {"raw", "nowait mq4"}
        assert order[2:4] == middle
    assert sum(one.merges for one in answers) == 0


@only_compiled
def test_the_worker_is_the_limit() -> None:
    """Cases 8 and 11: one worker does a request in 7 us, whoever waits for it; the others go beyond that."""
    stacks = ("loop", "per command", "nowait mq4")
    by_stack = {stack: measure(Cell(stack, "libaio", REPORT[stack][1])) for stack in stacks}
    assert 1e6 / by_stack["loop"].iops == pytest.approx(7.1, rel=0.1)
    assert by_stack["nowait mq4"].iops > by_stack["per command"].iops > 2 * by_stack["loop"].iops
    assert by_stack["nowait mq4"].cpu_us < by_stack["per command"].cpu_us
    assert by_stack["nowait mq4"].inline > 0 == by_stack["loop"].inline
    assert by_stack["nowait mq4"].eagain == 0, "everything is mapped"
