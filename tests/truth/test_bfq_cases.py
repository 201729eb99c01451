"""What users reported about BFQ comes out of the model: order and ratios."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

import blktwin.fio.job
from blktwin.lab.bfq_cases import READERS, SATA_MIB_S, START_UP, readers, sata, start_up
from blktwin.lab.bfq_seed import AFTER, BEFORE

COMPILED = not blktwin.fio.job.__file__.endswith(".py")
pytestmark = pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test compiles")


def test_32_readers_in_a_cgroup_are_one_reader() -> None:
    """Yu Kuai's question of January 2021, on 5.10."""
    alone = sum(readers(1))
    assert sum(readers(READERS)) == pytest.approx(alone, rel=0.10)


def test_without_idling_they_run_together_and_weights_mean_nothing() -> None:
    alone = sum(readers(1))
    together = readers(READERS, slice_idle_ms=0, weights=(10, 90))
    assert sum(together) > 4 * alone
    assert sum(together[1::2]) == pytest.approx(sum(together[0::2]), rel=0.10)


@pytest.mark.slow
def test_the_table_of_the_sata_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    rules = {"before": BEFORE, "after": AFTER}
    for (when, cgroup), mib_s in SATA_MIB_S.items():
        if (when, cgroup) != ("before", "/c1"):
            assert sata(rules[when], cgroup) == pytest.approx(mib_s, rel=0.05)
    serial = median(sata(BEFORE, "/c1", seed) for seed in range(1, 6))
    assert serial / 112 == pytest.approx(51.2 / 112, abs=0.12)


def test_a_program_starts_sooner_beside_readers_and_they_pay() -> None:
    """mq-deadline 2.18 s, none 2.11 s, bfq 0.736 s and about 30% of the throughput."""
    runs = {scheduler: start_up(scheduler) for scheduler in START_UP}
    for scheduler, seconds in START_UP.items():
        assert runs[scheduler].seconds == pytest.approx(seconds, rel=0.15)
    lost = 1 - runs["bfq"].readers_mib_s / runs["none"].readers_mib_s
    assert 0.15 < lost < 0.45
