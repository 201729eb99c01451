"""Real fio 3.33 is the oracle of our output: fed with fio's numbers, our renderers print fio's own text.

Where fio and we differ on purpose the test says so: the version, the date's time zone, and one bug of 3.33.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fio_replay import FioRun, from_bins, run_fio
from fio_sample import sample_thread
from oracles import require_fio, require_tool

from blktwin.fio.hist import LatencyStat
from blktwin.fio.output_json import render_json
from blktwin.fio.output_normal import render_normal
from blktwin.fio.output_terse import render_terse
from blktwin.fio.results import DiskUtil, JobResult, RunResult
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat

pytestmark = pytest.mark.oracle

KIB = 1024
TIME = r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"


def sizes(read: int, write: int = 0, trim: int = 0) -> tuple[int, int, int]:
    """A bs triple in KiB: what is not given repeats the one before."""
    return (read * KIB, (write or read) * KIB, (trim or write or read) * KIB)


def spec(name: str, **fields: Any) -> JobSpec:
    """Return a JobSpec of the null engine unless said otherwise."""
    return JobSpec(name, **({"ioengine": "null"} | fields))


NULL = """
[global]
ioengine=null
size=4g
runtime=1200ms
time_based
[a]
rw=randrw
bs=4k
description=a "quoted" word
"""

GROUPS = """
[global]
ioengine=psync
size=256k
filename=data
group_reporting
[one]
rw=randrw
bs=4k
fsync=8
numjobs=2
thread
[two]
rw=read
bs=8k,16k
unified_rw_reporting=mixed
percentile_list=99:99.9:50
stonewall
[three]
rw=randwrite
bsrange=2k-64k
bs_is_seq_rand=1
lat_percentiles=1
new_group
"""

DEEP = """
[global]
ioengine=libaio
filename=data
size=2m
bs=4k
rw=randrw
iodepth=8
iodepth_batch=4
slat_percentiles=1
clat_percentiles=0
lat_percentiles=1
group_reporting
significant_figures=6
[low]
prio=7
[high]
prio=1
"""

deep = {
    "ioengine": "libaio",
    "rw": "randrw",
    "iodepth": 8,
    "slat_percentiles": True,
    "clat_percentiles": False,
    "lat_percentiles": True,
    "group_reporting": True,
    "significant_figures": 6,
}
CASES: dict[str, tuple[str, list[JobSpec]]] = {
    "null": (NULL, [spec("a", rw="randrw", description='a "quoted" word')]),
    "groups": (
        GROUPS,
        [
            spec("one", rw="randrw", ioengine="psync", thread=True, clone_index=0),
            spec("one", rw="randrw", ioengine="psync", thread=True, clone_index=1),
            spec(
                "two",
                rw="read",
                ioengine="psync",
                group_id=1,
                bs_min=sizes(8, 16),
                bs_max=sizes(8, 16),
                unified_rw_reporting="mixed",
                percentile_list=(99.0, 99.9, 50.0),
            ),
            spec(
                "three",
                rw="randwrite",
                ioengine="psync",
                group_id=2,
                bs_min=sizes(2),
                bs_max=sizes(64),
                bs_is_seq_rand=True,
                lat_percentiles=True,
            ),
        ],
    ),
    "deep": (DEEP, [spec("low", prio=7, **deep), spec("high", prio=1, **deep)]),
}


@pytest.fixture(scope="module", params=list(CASES))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FioRun:
    """One run of real fio."""
    job, specs = CASES[request.param]
    return run_fio(require_fio(), job, specs, tmp_path_factory.mktemp("fio"))


def neutral(text: str) -> str:
    """Blank what differs on purpose: version and time zone."""
    return re.sub(TIME, "DATE", re.sub(r"fio-3\.33(-blktwin-x)?", "VERSION", text))


def test_normal(run: FioRun) -> None:
    """Every byte of the normal output: banner, lines, units, columns, groups, disks."""
    assert neutral(render_normal(run.replayed)) == neutral(run.text["normal"])


def test_terse(run: FioRun) -> None:
    """Every byte of terse version 3, up to the rounding of what json prints with six decimals."""
    assert neutral(render_terse(run.replayed)).split(";") == near(neutral(run.text["terse"]).split(";"), run)


def near(cells: list[str], run: FioRun) -> list[str]:
    """Replace fio's cells by ours where both are floats that differ in the last printed digit only."""
    ours = neutral(render_terse(run.replayed)).split(";")
    assert len(ours) == len(cells)
    number = re.compile(r"-?\d+\.\d+%?")
    return [
        mine if number.fullmatch(mine) and number.fullmatch(cell) and close(mine, cell) else cell
        for mine, cell in zip(ours, cells, strict=True)
    ]


def close(left: str, right: str) -> bool:
    """Say whether two printed numbers are equal but for what json's rounding hides: 2e-6, or 0.05 %."""
    # Ranges of under 0.01 % print as 0.01 %: the ns column of terse, their sum, cannot be had back exactly.
    tolerance = 0.0501 if len(left.rstrip("%").partition(".")[2]) < 6 else 2.1e-6
    return abs(float(left.rstrip("%")) - float(right.rstrip("%"))) <= tolerance


def test_json(run: FioRun) -> None:
    """Every key, its place, the layout and the number formats of json+; floats to the last digit but one."""
    ours = neutral(render_json(run.replayed, plus=True)).splitlines()
    fios = neutral(run.text["json"]).splitlines()
    assert len(ours) == len(fios)
    number = re.compile(r"(.* : )(-?\d+\.\d{6})(,?)")
    for mine, theirs in zip(ours, fios, strict=True):
        left, right = number.fullmatch(mine), number.fullmatch(theirs)
        if left and right:
            assert (left[1], left[3]) == (right[1], right[3])
            assert abs(float(left[2]) - float(right[2])) <= max(2.1e-6, 1e-9 * abs(float(right[2]))), (mine, theirs)
        else:
            assert mine == theirs


def test_json_without_bins(run: FioRun) -> None:
    """Plain json is json+ less the bins."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != "bins"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    plus = json.loads(render_json(run.replayed, plus=True))
    assert json.loads(render_json(run.replayed)) == strip(plus) != plus


@pytest.mark.parametrize("version", [2, 4, 5])
def test_terse_versions(version: int, tmp_path: Path) -> None:
    """The other terse versions have fio's fields."""
    run = run_fio(require_fio(), *CASES["null"], tmp_path, (f"--terse-version={version}",))
    ours = neutral(render_terse(run.replayed, version)).split(";")
    theirs = neutral(run.text["terse"]).split(";")
    assert len(ours) == len(theirs)
    assert [a for a, b in zip(ours, theirs, strict=True) if a != b and not close(a, b)] == []


def test_unified_both(tmp_path: Path) -> None:
    """unified_rw_reporting=both: same lines; fio 3.33 prints zeros in the job's mixed line, we print the figures."""
    job = "[b]\nioengine=null\nrw=rw\nsize=64m\nlat_percentiles=1\nunified_rw_reporting=both\n"
    run = run_fio(require_fio(), job, [spec("b", rw="rw", lat_percentiles=True, unified_rw_reporting="both")], tmp_path)
    ours = neutral(render_normal(run.replayed)).splitlines()
    theirs = neutral(run.text["normal"]).splitlines()
    assert len(ours) == len(theirs)
    different = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b and not a.startswith("    ")]
    assert len(different) == 1
    assert different[0][1].startswith("  mixed: IOPS=0, BW=0 (0)(0B/")
    assert "(64.0MiB/" in different[0][0]
    assert list(json.loads(render_json(run.replayed))["jobs"][0]) == list(json.loads(run.text["json"])["jobs"][0])


def test_percentiles_of_fios_bins(run: FioRun) -> None:
    """fio's bins through our histogram: same bins, same percentiles, and moments within a bin's width."""
    seen = 0
    for job in json.loads(run.text["json"])["jobs"]:
        lanes = [job[key] for key in ("read", "write", "mixed") if key in job]
        for given in (lane[key] for lane in lanes for key in ("slat_ns", "clat_ns", "lat_ns")):
            if "bins" not in given:
                continue
            stat = from_bins(given["bins"])
            seen += 1
            assert stat.count == given["N"]
            assert {str(value): count for value, count in stat.filled_bins()} == given["bins"]
            wanted = [float(percent) for percent in given["percentile"]]
            assert stat.percentiles(wanted) == list(given["percentile"].values())
            assert stat.mean() == pytest.approx(given["mean"], rel=1 / 64)
            assert stat.deviation() == pytest.approx(given["stddev"], rel=0.05, abs=given["mean"] / 64)
    assert seen


@pytest.mark.parametrize("runtime_ms", [1200, 2000])
def test_number_of_windows(runtime_ms: int, tmp_path: Path) -> None:
    """fio takes a bandwidth sample every 500 ms, but none at the moment the job's runtime is over."""
    job = f"[w]\nioengine=null\nrw=read\nsize=1g\nruntime={runtime_ms}ms\ntime_based\n"
    stat = ThreadStat(spec("w", runtime_ns=runtime_ms * 1_000_000))
    stat.start(0)
    for now_ms in range(1, runtime_ms + 2):
        stat.issued_alone(0)
        stat.completed(0, 4096, 50, 60, now_ms * 1_000_000)
    stat.finish((runtime_ms + 1) * 1_000_000)
    lane = stat.directions[0]
    ours = (lane.bw.count, lane.iops.count)
    # On a busy machine fio's sampler may come a moment late, and take one more or one less.
    seen: set[tuple[int, int]] = set()
    for _ in range(4):
        if ours in seen:
            break
        run = run_fio(require_fio(), job, [spec("w")], tmp_path)
        read = json.loads(run.text["json"])["jobs"][0]["read"]
        seen.add((read["bw_samples"], read["iops_samples"]))
    assert ours in seen


def test_clat2csv_accepts_ours(run: FioRun, tmp_path: Path) -> None:
    """fio's own json+ consumer makes and validates its tables from our document."""
    tool = require_tool("fio_jsonplus_clat2csv")
    document = tmp_path / "ours.json"
    # The tool knows no mixed reports, from fio neither.
    known = copy.copy(run.replayed)
    known.given = [report for report in known.given if not report.is_mixed]
    document.write_text(render_json(known, plus=True))
    for extra in ([], ["--validate"]):
        command = [tool, str(document), str(tmp_path / "ours.csv"), *extra]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "validated" in done.stdout
    assert "mismatch" not in done.stdout
    rows = (tmp_path / "ours_job0.csv").read_text().splitlines()
    assert len(rows) > 3


def shape(value: Any) -> Any:
    """Keys in order and types of a JSON value; the values of options and bins are not compared."""
    if isinstance(value, dict):
        return [
            (key, "free" if key in ("bins", "job options", "global options") else shape(value[key])) for key in value
        ]
    return [shape(item) for item in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("ioengine=null", {}),
        ("ioengine=null\nlat_percentiles=1\nclat_percentiles=0\npercentile_list=50:99.999", {}),
        ("ioengine=psync\nfilename=data\nfsync=50", {"ioengine": "psync"}),
    ],
)
def test_our_statistics_have_fios_shape(options: str, fields: dict[str, Any], tmp_path: Path) -> None:
    """A run counted by ThreadStat prints the keys, order and types that real fio prints for such a job."""
    if "lat_percentiles" in options:
        fields = fields | {"lat_percentiles": True, "clat_percentiles": False, "percentile_list": (50.0, 99.999)}
    job = f"[job]\nrw=randrw\nbs=4k\nsize=4m\n{options}\n"
    fio = run_fio(require_fio(), job, [spec("job", rw="randrw", **fields)], tmp_path)
    wanted = json.loads(fio.text["json"])
    ours_spec = spec("job", rw="randrw", options={"rw": "randrw"}, **fields)
    stat = sample_thread(ours_spec)
    if "fsync" not in options:
        stat.sync, stat.sync_ios = LatencyStat(), 0
    disks = [DiskUtil(util["name"]) for util in wanted.get("disk_util", [])]
    ours = RunResult([JobResult(ours_spec, stat)], disks, elapsed_ms=1600, epoch_ms=1, version="1")
    assert shape(json.loads(render_json(ours, plus=True))) == shape(wanted)
