"""The map of done blocks against a plain set, across its chunks and groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blktwin.fio.random_map import CHUNK_BITS, RandomMap
from blktwin.rng import Rng


def next_free(done: set[int], block: int, nr: int) -> int:
    """Return what the map must say."""
    return next((at % nr for at in range(block, block + nr) if at % nr not in done), -1)


@given(st.integers(1, 200), st.lists(st.tuples(st.integers(0, 199), st.integers(1, 20)), max_size=60))
def test_like_a_set(nr: int, runs: list[tuple[int, int]]) -> None:
    chart = RandomMap(nr)
    done: set[int] = set()
    for start, length in runs:
        block = start % nr
        assert chart.is_set(block) == (block in done)
        assert chart.next_free(block) == next_free(done, block, nr)
        expected = 0
        while expected < length and block + expected < nr and block + expected not in done:
            expected += 1
        assert chart.set_run(block, length) == expected
        done |= set(range(block, block + expected))
    chart.reset()
    assert not any(chart.is_set(block) for block in range(nr))


@pytest.mark.parametrize("nr", [CHUNK_BITS - 1, CHUNK_BITS, CHUNK_BITS + 1, 3 * CHUNK_BITS + 17])
def test_full_chunks_are_passed_over(nr: int) -> None:
    chart = RandomMap(nr)
    hole = nr * 2 // 3
    for block in range(nr):
        if block != hole:
            chart.set(block)
    for start in (0, hole - 1, hole, min(hole + 1, nr - 1), nr - 1):
        assert chart.next_free(start) == hole
    chart.set(hole)
    assert chart.next_free(0) == -1
    assert chart.next_free(nr - 1) == -1


def test_every_block_once() -> None:
    """Drawing and taking the next free block visits each block exactly once, as a random job does."""
    nr = 5000
    chart = RandomMap(nr)
    rng = Rng(1, 2)
    seen = []
    for _ in range(nr):
        drawn = int(rng.below(nr))
        block = int(chart.next_free(drawn)) if chart.is_set(drawn) else drawn
        chart.set(block)
        seen.append(block)
    assert sorted(seen) == list(range(nr))
    assert chart.next_free(17) == -1
