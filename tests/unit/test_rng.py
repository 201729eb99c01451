"""The generator: one step for all users of it, and numbers that never change."""

from __future__ import annotations

from blktwin.fio.random_state import FioRandom
from blktwin.rng import Rng, Taus88


def test_all_streams_take_the_same_step() -> None:
    """A Taus88 of their state gives their numbers."""
    for stream in (Rng(7, 3), FioRandom(0x89)):
        bare = Taus88(stream.s1, stream.s2, stream.s3)
        assert [stream.next32() for _ in range(100)] == [bare.next32() for _ in range(100)]


def test_the_numbers_are_those_of_taus88() -> None:
    """L'Ecuyer's recurrence on plain integers, written out by its shifts."""
    state = [12345, 67890, 13579]
    made = Taus88(*state)
    for _ in range(1000):
        for at, (q, s, k, mask) in enumerate(((13, 12, 19, ~1), (2, 4, 25, ~7), (3, 17, 11, ~15))):
            word = state[at]
            state[at] = ((word & mask & 0xFFFFFFFF) << s & 0xFFFFFFFF) ^ ((((word << q) & 0xFFFFFFFF) ^ word) >> k)
        assert made.next32() == state[0] ^ state[1] ^ state[2]
