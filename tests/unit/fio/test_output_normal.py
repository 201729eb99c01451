"""Our side of the normal and terse texts and of --output-format: partial runs, idle jobs, banners, order."""

from __future__ import annotations

import json

import pytest
from fio_sample import sample_result, sample_specs

from blktwin.errors import UsageError
from blktwin.fio.output import parse_formats, parse_terse_version, render
from blktwin.fio.output_normal import render_banner, render_normal
from blktwin.fio.output_terse import render_terse
from blktwin.fio.results import JobResult, RunResult
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat


def test_partial_runs_are_marked() -> None:
    """The line stands between banner and results."""
    text = render_normal(sample_result(partial=True))
    assert "\nStarting 3 processes\nblktwin: partial results: stopped after 1.600 s\n\ntwins: (groupid=0" in text
    assert "partial" not in render_normal(sample_result())


def test_banner() -> None:
    """Clones share one line and three dots; threads come before processes."""
    specs = [*sample_specs(), JobSpec("t", thread=True, rw="trimwrite", bs_min=(512, 512, 512))]
    assert render_banner(specs, "9").splitlines() == [
        "twins: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1",
        "...",
        "deep: (g=1): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=8",
        "t: (g=0): rw=trimwrite, bs=(R) 512B-4096B, (W) 512B-4096B, (T) 512B-4096B, ioengine=psync, iodepth=1",
        "fio-3.33-blktwin-9",
        "Starting 1 thread and 3 processes",
    ]


def test_a_job_that_did_nothing_has_no_block() -> None:
    """fio prints no block for it, but its group."""
    spec = JobSpec("idle")
    stat = ThreadStat(spec)
    stat.finish(10**9)
    text = render_normal(RunResult([JobResult(spec, stat)]))
    assert "idle: (groupid" not in text
    assert text.endswith("\n\n\nRun status group 0 (all jobs):\n")


def test_failed_job_names_its_error() -> None:
    """errno and its text stand in the head line; the first failed thread of a group gives them."""
    result = sample_result(group_reporting=True)
    result.jobs[1].stat.error, result.jobs[1].stat.error_text = 5, "Input/output error"
    assert "twins: (groupid=0, jobs=2): err= 5 (Input/output error): pid=1000: " in render_normal(result)
    assert json.loads(render(result, ["json"]))["jobs"][0]["error"] == 5


def test_percentile_columns() -> None:
    """As many decimals as the option's longest, and as many columns as fit."""
    result = sample_result(percentile_list=(50.0, 99.999), options={"percentile_list": "50:99.999"})
    assert "     | 50.000th=[ 1483], 99.999th=[ 2999]\n" in render_normal(result)


@pytest.mark.parametrize(("version", "fields"), [(2, 161), (3, 121 + 9), (4, 162 + 9), (5, 180 + 9)])
def test_terse_field_counts(version: int, fields: int) -> None:
    """Each version's number of fields, with one disk."""
    lines = render_terse(sample_result(), version).splitlines()
    assert [line.count(";") + 1 for line in lines] == [fields] * 3


def test_formats_come_in_fios_order() -> None:
    """Terse, one JSON document, normal text: however the list is written."""
    text = render(sample_result(), parse_formats("normal,json+,json,terse"))
    assert text.startswith("3;fio-3.33")
    assert text.count('"fio version"') == text.count("Run status group 0") == 1
    assert text.index("\n{\n") < text.index('"bins"') < text.index("Starting")


@pytest.mark.parametrize(("word", "hint"), [("jsn", "json"), ("Normal", "normal"), ("xml", "known are normal, terse")])
def test_unknown_format(word: str, hint: str) -> None:
    """One line with the nearest name, or with all of them."""
    with pytest.raises(UsageError, match=hint):
        parse_formats(f"json,{word}")


def test_terse_versions() -> None:
    """2 to 5, nothing else."""
    assert parse_terse_version("4") == 4
    for text in ("1", "6", "x", ""):
        with pytest.raises(UsageError, match="2, 3, 4 or 5"):
            parse_terse_version(text)
    assert parse_formats("minimal") == ["terse"]
