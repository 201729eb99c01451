"""Our side of the JSON: one document, the blktwin key, partial runs, merged threads, the same bytes each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fio_sample import sample_result, sample_specs, sample_thread
from hypothesis import given
from hypothesis import strategies as st

from blktwin.fio.output_json import render_json
from blktwin.fio.results import JobResult, RunResult


def parsed(**fields: Any) -> dict[str, Any]:
    """Return the sample's document."""
    document: dict[str, Any] = json.loads(render_json(sample_result(**fields), plus=True))
    return document


def test_same_run_same_bytes() -> None:
    """Nothing but the run decides the text."""
    assert render_json(sample_result()) == render_json(sample_result())


def test_ours_is_under_one_key() -> None:
    """Whatever is not fio's stands under "blktwin", at the end."""
    document = parsed()
    assert list(document) == [
        *("fio version", "timestamp", "timestamp_ms", "time", "global options", "jobs", "disk_util", "blktwin")
    ]
    assert document["blktwin"] == {
        "seed": 7,
        "rules": "7.2",
        "shares": [0.5, 0.25],
        "nested": {"none": None, "yes": True},
    }


def test_partial_runs_are_marked() -> None:
    """A run that was stopped says so, even when there is nothing else of ours to say."""
    assert parsed(partial=True)["blktwin"]["partial"] is True
    assert "partial" not in parsed()["blktwin"]
    assert json.loads(render_json(RunResult([], partial=True)))["blktwin"] == {"partial": True}


def test_no_disks_no_key() -> None:
    """The null engine has no disks; fio then leaves the key out."""
    assert list(json.loads(render_json(RunResult([])))) == ["fio version", "timestamp", "timestamp_ms", "time", "jobs"]


def test_options_without_value_are_not_listed() -> None:
    """fio drops bare options (thread, stonewall) from the list."""
    assert parsed()["jobs"][0]["job options"] == {"rw": "randrw", "bs": "4k"}


def test_eta_and_elapsed() -> None:
    """Whole seconds, rounded up; under three of them fio has no estimate."""
    assert [parsed()["jobs"][0][key] for key in ("eta", "elapsed")] == [2_147_483_647, 2]
    longer = sample_result()
    longer.elapsed_ms = 3001
    assert [json.loads(render_json(longer))["jobs"][0][key] for key in ("eta", "elapsed")] == [0, 4]


def test_group_reporting_merges_neighbours_of_a_group() -> None:
    """Two clones become one report: counts add, runtime is the longer, bandwidths add up sample by sample."""
    apart, merged = parsed()["jobs"], parsed(group_reporting=True)["jobs"]
    assert [job["jobname"] for job in merged] == ["twins", "deep"]
    both = [job["read"] for job in apart[:2]]
    one = merged[0]["read"]
    for key in ("io_bytes", "total_ios", "bw_mean", "bw_min", "iops_max", "bw_samples"):
        assert one[key] == pytest.approx(both[0][key] + both[1][key], abs=2e-6)
    assert one["runtime"] == max(lane["runtime"] for lane in both)
    assert one["clat_ns"]["N"] == sum(lane["clat_ns"]["N"] for lane in both)
    assert merged[0]["job_runtime"] == apart[0]["job_runtime"] + apart[1]["job_runtime"]
    assert sum(one["clat_ns"]["bins"].values()) == one["clat_ns"]["N"]


def test_mixed_replaces_the_directions() -> None:
    """unified_rw_reporting=mixed: one direction with the sum of all."""
    apart, mixed = parsed()["jobs"][0], parsed(unified_rw_reporting="mixed")["jobs"][0]
    assert not {"read", "write", "trim", "sync"} & set(mixed)
    assert mixed["mixed"]["io_bytes"] == apart["read"]["io_bytes"] + apart["write"]["io_bytes"]
    assert mixed["mixed"]["clat_ns"]["N"] == apart["read"]["clat_ns"]["N"] + apart["write"]["clat_ns"]["N"]


def test_priorities_of_one_group() -> None:
    """Threads of one report with different priorities are told apart."""
    specs = sample_specs(group_reporting=True)[:2]
    specs[0].prio, specs[1].prioclass = 7, 1
    result = RunResult([JobResult(spec, sample_thread(spec, 50)) for spec in specs])
    (job,) = json.loads(render_json(result))["jobs"]
    prios = job["read"]["prios"]
    assert [(p["prioclass"], p["prio"]) for p in prios] == [(2, 7), (1, 0)]
    assert sum(p["clat_ns"]["N"] for p in prios) == job["read"]["clat_ns"]["N"]


@given(st.text(max_size=20), st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4))
def test_any_text_is_valid_json(name: str, options: dict[str, str]) -> None:
    """Names, descriptions and options with quotes, controls or any script keep the document valid."""
    spec = sample_specs()[0]
    spec.name, spec.description, spec.options = name, name, options
    result = RunResult([JobResult(spec, sample_thread(spec, 10))], global_options=options, blktwin={name: name})
    document = json.loads(render_json(result, plus=True))
    (job,) = document["jobs"]
    assert job["jobname"] == name == document["blktwin"][name]
    assert job.get("job options", {}) == {key: value for key, value in options.items() if value}
