"""Turn real fio's json+ back into the objects that our renderers print: fio's numbers in, fio's text out."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blktwin.fio.hist import LatencyStat, bin_index
from blktwin.fio.results import DiskUtil, JobResult, Lane, Rate, Report, RunResult
from blktwin.fio.spec import JobSpec

LANES = ("read", "write", "trim")
DEPTHS = ("iodepth_level", "iodepth_submit", "iodepth_complete")


class ReplayedLatency:
    """A LatencyStat whose moments are fio's own (they need every sample) and whose bins come from json+."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.count: int = given["N"]
        self.low: int = given["min"]
        self.high: int = given["max"]
        self.inner = from_bins(given.get("bins", {}))
        self.given = given

    def mean(self) -> float:
        """fio's mean."""
        return float(self.given["mean"])

    def deviation(self) -> float:
        """fio's deviation."""
        return float(self.given["stddev"])

    def percentiles(self, wanted: list[float]) -> list[int]:
        """Our percentiles of fio's bins."""
        return self.inner.percentiles(wanted)

    def filled_bins(self) -> list[tuple[int, int]]:
        """fio's bins, back from our histogram."""
        return self.inner.filled_bins()


def from_bins(bins: dict[str, int]) -> LatencyStat:
    """Build a LatencyStat from json+ bins: as if each sample had been the value printed for its bin."""
    stat = LatencyStat()
    for text, count in bins.items():
        value = int(text)
        stat.add(value)
        stat.count += count - 1
        stat.total += value * (count - 1)
        stat.large_squares += value * value * (count - 1)
        stat.bins[bin_index(value)] += count - 1
    return stat


@dataclass(slots=True)
class ReplayedRun(RunResult):
    """A RunResult whose reports are fio's."""

    given: list[Report] = field(default_factory=list)

    def reports(self) -> list[Report]:
        """Return fio's reports."""
        return self.given


@dataclass(slots=True)
class FioRun:
    """What real fio printed in one run: each format's text, and the same run as our objects."""

    text: dict[str, str]
    replayed: ReplayedRun


def run_fio(fio: str, job: str, specs: list[JobSpec], work: Path, extra: tuple[str, ...] = ()) -> FioRun:
    """Run a job file under real fio in all formats. specs: its threads, in order."""
    file = work / "job.fio"
    file.write_text(job)
    command = [fio, "--output-format=terse,json+,normal", *extra, str(file)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=True)
    # fio says there that it lays a file out; that is not part of a result.
    printed = re.sub(r"^.*: Laying out IO file.*\n", "", done.stdout, flags=re.MULTILINE)
    banner, start, rest = re.split(r"^(Starting .*\n)", printed, maxsplit=1, flags=re.MULTILINE)
    opening = rest.index("{\n")
    closing = rest.index("\n}\n") + 3
    text = {
        "terse": rest[:opening],
        "json": rest[opening:closing],
        "normal": banner + start + rest[closing:],
    }
    return FioRun(text, replay(json.loads(text["json"]), specs, text["normal"]))


def replay(given: dict[str, Any], specs: list[JobSpec], normal: str) -> ReplayedRun:
    """Build our objects from fio's JSON; the pids stand only in the normal text."""
    pids = [int(pid) for pid in re.findall(r"^.*: err=.*: pid=(\d+): ", normal, re.MULTILINE)]
    threads = iter(specs)
    reports: list[Report] = []
    for job, pid in zip(given["jobs"], pids, strict=True):
        members = [next(threads)]
        count = int(re.findall(r"^.*: \(groupid=\d+, jobs=(\d+)\)", normal, re.MULTILINE)[len(reports)])
        members += [next(threads) for _ in range(count - 1)]
        members[-1].options = job.get("job options", {})
        reports.append(report(job, members, pid))
    return ReplayedRun(
        jobs=[JobResult(spec, None, 0) for spec in specs],  # type: ignore[arg-type]
        disk_util=[disk(util) for util in given.get("disk_util", [])],
        global_options=given.get("global options", {}),
        elapsed_ms=given["jobs"][0]["elapsed"] * 1000,
        epoch_ms=given["timestamp_ms"],
        version="x",
        given=reports,
    )


def report(job: dict[str, Any], members: list[JobSpec], pid: int) -> Report:
    """Build one report."""
    made = Report(members[0], members[-1], pid, members=len(members), error=job["error"])
    for key, target in zip(LANES, made.lanes, strict=True):
        if key in job:
            fill(target, job[key], "mixed" in job)
    if "read" not in job:
        fill(made.lanes[0], job["mixed"])
    if "sync" in job:
        made.sync_ios = job["sync"]["total_ios"]
        made.sync = ReplayedLatency(job["sync"]["lat_ns"])  # type: ignore[assignment]
    made.job_runtime_ms = job["job_runtime"]
    made.usr_ns = round(job["usr_cpu"] * made.job_runtime_ms / 100) * 1_000_000
    made.sys_ns = round(job["sys_cpu"] * made.job_runtime_ms / 100) * 1_000_000
    made.context_switches, made.major_faults, made.minor_faults = job["ctx"], job["majf"], job["minf"]
    total = made.total_ios
    made.depth_map = counts(job["iodepth_level"], total, 0.1)
    # How many calls there were is not printed: any large number gives the same percentages.
    made.submit_map = counts(job["iodepth_submit"], 100_000_000, 0.1)
    made.complete_map = counts(job["iodepth_complete"], 100_000_000, 0.1)
    made.latency_map = [n for key in ("latency_ns", "latency_us", "latency_ms") for n in counts(job[key], total, 0.01)]
    return made


def counts(percents: dict[str, float], total: int, floor: float) -> list[int]:
    """Turn printed percentages back into counts; what is printed at its floor happened at least once."""
    return [round(p * total / 100) if p > floor else 1 if p else 0 for p in percents.values()]


def fill(lane: Lane, given: dict[str, Any], is_merged: bool = False) -> None:
    """Fill one direction."""
    lane.io_bytes, lane.runtime_ms, lane.total_ios = given["io_bytes"], given["runtime"], given["total_ios"]
    lane.short_ios, lane.drop_ios = given["short_ios"], given["drop_ios"]
    for key in ("slat", "clat", "lat"):
        replayed = ReplayedLatency(given[f"{key}_ns"])
        # Mixed reports are merged from the others, which only true statistics can do.
        setattr(lane, key, replayed.inner if is_merged else replayed)
    lane.bw = rate(given["bw_samples"], given["bw_min"], given["bw_max"], given["bw_mean"], given["bw_dev"])
    lane.iops = rate(
        given["iops_samples"], given["iops_min"], given["iops_max"], given["iops_mean"], given["iops_stddev"]
    )
    for prio in given.get("prios", []):
        stat = ReplayedLatency(prio.get("lat_ns") or prio["clat_ns"])
        lane.prios[prio["prioclass"] << 13 | prio["prio"]] = stat  # type: ignore[assignment]


def rate(count: int, low: int, high: int, mean: float, deviation: float) -> Rate:
    """Build bandwidth or iops samples from what is printed of them."""
    return Rate(count, low, high, mean, deviation**2 * (count - 1) if count else 0.0)


def disk(given: dict[str, Any]) -> DiskUtil:
    """Build one disk; its busy time is known as a percentage only."""
    return DiskUtil(
        given["name"],
        given["read_ios"],
        given["write_ios"],
        given["read_merges"],
        given["write_merges"],
        given["read_ticks"],
        given["write_ticks"],
        given["in_queue"],
        round(given["util"] * 1_000_000),
        100_000_000,
    )
