"""The extent map: what is drawn, runs, places, copy on write, undo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blktwin.sim.files.extents import HOLE, MAPPED, SHARED, UNWRITTEN, ExtentMap


def drawn(p_hole: float, p_unwritten: float, p_shared: float, seed: int = 3, extent_blocks: int = 4) -> ExtentMap:
    """Return a map of 4000 blocks with 4000 spare ones."""
    extents = ExtentMap(4000, 4000, 4000)
    extents.draw(seed, extent_blocks, p_hole, p_unwritten, p_shared)
    return extents


def states(extents: ExtentMap) -> list[int]:
    """Return every block's state."""
    return [int(extents.state(block)) for block in range(4000)]


def test_shares_are_drawn() -> None:
    """Each extent has one state, in about the shares asked for; the same seed gives the same map."""
    extents = drawn(0.3, 0.2, 0.1)
    found = states(extents)
    for state, share in ((HOLE, 0.3), (UNWRITTEN, 0.2), (SHARED, 0.1), (MAPPED, 0.4)):
        assert found.count(state) / 4000 == pytest.approx(share, abs=0.05)
    assert all(len(set(found[at : at + 4])) == 1 for at in range(0, 4000, 4))
    assert states(drawn(0.3, 0.2, 0.1)) == found
    assert states(drawn(0.3, 0.2, 0.1, seed=4)) != found
    assert set(states(drawn(1.0, 0, 0))) == {HOLE}
    assert set(states(drawn(0, 1.0, 0))) == {UNWRITTEN}


def test_plain() -> None:
    """A mapped file is one extent, and holes lie behind its end."""
    extents = drawn(0, 0, 0)
    assert extents.is_plain
    assert extents.run(0, 4000, False) == 4000
    assert extents.state(4000) == HOLE
    assert extents.run(3990, 20, False) == 10
    extents.set(5, UNWRITTEN)
    assert extents.run(0, 4000, False) == 5
    assert extents.run(6, 4000, True) == 3994


def test_copy_on_write() -> None:
    """A block that is written has two places until the write ends."""
    extents = drawn(0, 0, 1.0)
    assert extents.start_cow(7)
    assert extents.place(7) == 7
    assert extents.write_place(7) == 4000
    assert extents.run(6, 3, False) == 3
    assert extents.run(6, 3, True) == 1
    extents.end_cow(7)
    assert (extents.state(7), extents.place(7)) == (MAPPED, 4000)
    assert extents.start_cow(7)
    extents.drop_cow(7)
    assert extents.place(7) == 4000
    assert set(extents.taken) == {4000}
    extents.free(7)
    assert (extents.state(7), extents.place(7)) == (HOLE, 7)
    assert not extents.taken


def test_spare_places_run_out() -> None:
    """No place is given to two blocks, or to one while a power cut could bring back another there."""
    extents = ExtentMap(8, 8, 2)
    extents.draw(1, 1, 0, 0, 1.0)
    extents.keeps_undo = True
    assert extents.start_cow(0)
    assert extents.start_cow(1)
    assert not extents.start_cow(2)
    extents.end_cow(0)
    extents.begin_commit()
    extents.end_commit(True)
    extents.free(0)
    assert not extents.start_cow(2), "the freed place is still what a power cut brings back"
    extents.begin_commit()
    extents.end_commit(True)
    assert extents.start_cow(2)


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "cow", "free", "begin", "end", "fail"]), st.integers(0, 15)), max_size=40
    )
)
def test_undo(acts: list[tuple[str, int]]) -> None:
    """What a commit has covered has no undo; what came after remembers how it was when the commit began."""
    extents = ExtentMap(16, 16, 200)
    extents.draw(1, 1, 0.3, 0.3, 0.3)
    extents.keeps_undo = True

    def now() -> list[tuple[int, int]]:
        return [(int(extents.state(block)), int(extents.place(block))) for block in range(16)]

    committed = now()
    begun: list[tuple[int, int]] | None = None
    for act, block in acts:
        if act == "set":
            extents.set(block, (block + len(acts)) % 3)
        elif act == "cow":
            assert extents.start_cow(block)
            extents.end_cow(block)
        elif act == "free":
            extents.free(block)
        elif act == "begin" and begun is None:
            begun = now()
            extents.begin_commit()
        elif act in ("end", "fail") and begun is not None:
            extents.end_commit(act == "end")
            committed = begun if act == "end" else committed
            begun = None
        for at, state in enumerate(now()):
            undo = extents.committing.get(at) or extents.undo.get(at)
            assert committed[at] == (state if undo is None else (int(undo.state), int(undo.place)))


def test_levels_follow_the_pieces() -> None:
    """Blocks one by one stay one piece; every second block is one of its own, and the last in between joins two."""
    extents = ExtentMap(4096, 4096, 0)
    extents.draw(0, 256, 1.0, 0.0, 0.0)
    for block in range(64):
        extents.count_piece(block, block)
        extents.set(block, UNWRITTEN)
    assert (int(extents.nr_pieces), int(extents.nr_levels())) == (2, 1)
    for block in range(100, 700, 2):
        extents.count_piece(block, block)
        extents.set(block, UNWRITTEN)
    assert (int(extents.nr_pieces), int(extents.nr_levels())) == (302, 3)
    extents.count_piece(101, 101)
    assert int(extents.nr_pieces) == 301
