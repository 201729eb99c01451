"""The distributions of offsets: range, shape, and what a centre does (oracle/test_fio_offsets: they are fio's own)."""

from __future__ import annotations

from collections import Counter

import pytest

from blktwin.fio.random_dist import Normal, Pareto, RankSource, Zipf, jhash

N = 1000
DRAWS = 20_000


def counts(source: RankSource) -> Counter[int]:
    """Return how often each block comes."""
    return Counter(int(source.next_block()) for _ in range(DRAWS))


SOURCES = [Zipf(N, 1.2, -1.0, 5), Zipf(N, 0.6, -1.0, 5), Pareto(N, 0.2, -1.0, 5), Normal(N, 10.0, -1.0, 5),
           Zipf(N, 1.2, 0.5, 5), Pareto(N, 0.3, 0.0, 5), Normal(N, 20.0, 0.25, 5)]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_blocks_are_in_range(source: RankSource) -> None:
    drawn = counts(source)
    assert min(drawn) >= 0
    assert max(drawn) < N


@pytest.mark.parametrize("nr", [1, 2, 3])
@pytest.mark.parametrize("theta", [0.5, 1.2])
def test_tiny_files(nr: int, theta: float) -> None:
    for source in (Zipf(nr, theta, -1.0, 1), Pareto(nr, 0.3, -1.0, 1), Normal(nr, 50.0, -1.0, 1)):
        assert {int(source.next_block()) for _ in range(200)} <= set(range(nr))


def test_zipf_falls_with_the_power_of_the_rank() -> None:
    """The share of rank k is 1/k**theta of the first's; so many blocks that hardly two ranks share one."""
    blocks = 50_000
    source = Zipf(blocks, 1.2, -1.0, 9)
    drawn = counts(source)
    total = sum(1 / rank**1.2 for rank in range(1, blocks + 1))
    for rank in (1, 2, 8):
        share = drawn[int(source.spread(rank - 1))] / DRAWS
        assert share == pytest.approx(1 / rank**1.2 / total, rel=0.25)


def test_pareto_keeps_its_promise() -> None:
    """pareto:0.2 is the 80/20 rule: 80 % of the draws fall on 20 % of the ranks; the hash lays some others on them."""
    source = Pareto(N, 0.2, -1.0, 9)
    hot = {int(source.spread(rank)) for rank in range(N // 5)}
    drawn = counts(source)
    assert sum(drawn[block] for block in hot) / DRAWS == pytest.approx(0.8 + 0.2 * len(hot) / N, abs=0.03)


def test_a_hash_spreads_the_hot_blocks() -> None:
    hot = sorted(block for block, _ in counts(Zipf(N, 1.2, -1.0, 9)).most_common(20))
    gaps = [b - a for a, b in zip(hot, hot[1:], strict=False)]
    assert max(gaps) < N // 3
    assert sum(gap == 1 for gap in gaps) < 5


def test_a_centre_moves_zipf_as_a_whole() -> None:
    plain, moved = counts(Zipf(N, 1.2, 0.0, 9)), counts(Zipf(N, 1.2, 0.25, 9))
    assert {(block + 250) % N: count for block, count in plain.items()} == dict(moved)


def test_seeds_differ() -> None:
    assert counts(Zipf(N, 1.2, -1.0, 1)) != counts(Zipf(N, 1.2, -1.0, 2))


@pytest.mark.parametrize("name", ["", "a", "file", "/dev/nvme0n1", "x" * 12, "x" * 13, "/mnt/a/long/name.of.a.file"])
def test_jhash_is_a_word_and_depends_on_the_length(name: str) -> None:
    assert 0 <= jhash(name) < 1 << 32
    assert jhash(name) != jhash(name + "a")
