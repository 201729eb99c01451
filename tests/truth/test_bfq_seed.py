"""The table of the BFQ mail: its own job on its box, before and after, in the root cgroup and in another."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.bfq_seed import AFTER, BEFORE, CELLS, SEEDS, Cell, compare, measure

COMPILED = not blktwin.fio.job.__file__.endswith(".py")
pytestmark = pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test compiles")
STEADY = [cell for cell in CELLS if not cell.has_spread]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def test_the_cells_are_the_mails() -> None:
    numbers = [(cell.when, cell.cgroup == "/", cell.mib_s) for cell in CELLS]
    assert numbers == [("before", True, 550), ("before", False, 349), ("after", True, 550), ("after", False, 550)]


@pytest.mark.slow
@pytest.mark.parametrize("cell", STEADY, ids=lambda cell: f"{cell.when}-{cell.cgroup}")
def test_where_nobody_is_idled_for_the_drive_is_full(cell: Cell) -> None:
    assert measure((cell.rules, cell.cgroup, 1)) == pytest.approx(cell.mib_s, rel=cell.limit)


def test_a_group_is_held_back_before_and_not_after() -> None:
    before = measure((BEFORE, "/c1", 1))
    assert 0.5 < before / 550 < 0.75
    assert measure((AFTER, "/c1", 1)) == pytest.approx(550, rel=0.03)


@pytest.mark.slow
def test_a_nested_group_is_as_one_group() -> None:
    """The job in /c1/c2: three groups counted before, one after."""
    assert measure((AFTER, "/c1/c2", 1)) == pytest.approx(550, rel=0.03)
    assert measure((BEFORE, "/c1/c2", 1)) < 0.75 * 550


@pytest.mark.slow
def test_the_table_with_all_seeds() -> None:
    answers = compare(SEEDS)
    assert [len(answer.model) for answer in answers] == [1, len(SEEDS), 1, 1]
    assert len(SEEDS) >= 20
    missed = [(answer.cell.when, answer.cell.cgroup, answer.text()) for answer in answers if not answer.is_within]
    assert missed == []
