"""The model against rows measured on real kernels, and the hosts against a fresh fit of the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.lab.accuracy import is_within
from blktwin.lab.fit import fit, with_costs
from blktwin.lab.truth import KERNELS, LOADED_ROW, QD1_ROW, compare, measure, read_truth
from blktwin.sim.hosts import get_host

TRUTH = Path(__file__).parents[1] / "data" / "truth"


@pytest.mark.skipif(blktwin.fio.job.__file__.endswith(".py"), reason="a minute when interpreted: make test compiles")
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_row_is_within_five_percent(kernel: str) -> None:
    """Throughput and mean latency of every row; two rows of each kernel were fitted, no other."""
    rows = compare(kernel, TRUTH)
    assert len(rows) == len(read_truth(kernel, TRUTH)) >= 8
    assert sorted(row.name for row in rows if row.is_fitted) == sorted((LOADED_ROW, QD1_ROW))
    missed = {row.name: (row.iops_error, row.lat_error) for row in rows if not is_within(row)}
    assert missed == {}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_fitted_rows_come_out(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hosts as they are; a fresh fit comes near, for the rows jump a little with the costs."""
    monkeypatch.chdir(TRUTH.parents[2])
    truth = read_truth(kernel)
    shape = get_host("tcg-shape")
    shape.costs["bfq"] = get_host(f"tcg-{kernel}").costs["bfq"]
    for host, limit in ((get_host(f"tcg-{kernel}"), 0.005), (with_costs(shape, *fit(kernel)), 0.03)):
        for name in (QD1_ROW, LOADED_ROW):
            assert measure(kernel, name, host).iops == pytest.approx(truth[name].iops, rel=limit)
