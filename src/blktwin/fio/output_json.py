"""fio's JSON and json+: its keys in its order, its number formats and its `"key" : value` spacing, in one document.

Kept from fio 3.33: options with an empty value are left out; eta is INT_MAX in runs under 3 s; percentiles and bins
appear only where they are on and there are samples. Ours: the version text and the top-level key "blktwin".
"""

from __future__ import annotations

import json

from blktwin.fio.hist import LatencyStat
from blktwin.fio.output_units import date, percent_of_group, shares, version
from blktwin.fio.results import DiskUtil, GroupLane, GroupRun, Lane, Report, RunResult, make_groups
from blktwin.fio.stats import LATENCY_EDGES

NO_ETA = 2_147_483_647
DEPTH_KEYS = ("1", "2", "4", "8", "16", "32", ">=64")
BATCH_KEYS = ("0", "4", "8", "16", "32", "64", ">=64")
LATENCY_KEYS = tuple(str(edge) for edge in LATENCY_EDGES)
LANE_KEYS = ("read", "write", "trim")

Json = dict[str, object]


def render_json(result: RunResult, plus: bool = False) -> str:
    """Return the run as one JSON document, newline at the end. plus: with latency bins (json+)."""
    reports = result.reports()
    groups = make_groups(reports)
    document: Json = {
        "fio version": version(result.version),
        "timestamp": result.epoch_ms // 1000,
        "timestamp_ms": result.epoch_ms,
        "time": date(result.epoch_ms),
    }
    if result.global_options:
        document["global options"] = given(result.global_options)
    document["jobs"] = [job(result, report, groups[report.first.group_id], plus) for report in reports]
    if result.disk_util:
        document["disk_util"] = [disk(util) for util in result.disk_util]
    ours = dict(result.blktwin)
    if result.partial:
        ours["partial"] = True
    if ours:
        document["blktwin"] = ours
    lines: list[str] = []
    write_value(document, 0, lines)
    return "".join(lines) + "\n"


def given(options: dict[str, str]) -> Json:
    """Return the options as fio lists them: those without a value (thread, stonewall) are not listed."""
    return {name: value for name, value in options.items() if value}


def job(result: RunResult, report: Report, group: GroupRun, plus: bool) -> Json:
    """Return one element of "jobs"."""
    elapsed_s = (result.elapsed_ms + 999) // 1000
    out: Json = {
        "jobname": report.first.name,
        "groupid": report.first.group_id,
        "error": report.error,
        "eta": NO_ETA if elapsed_s < 3 else 0,
        "elapsed": elapsed_s,
    }
    if report.last.options:
        out["job options"] = given(report.last.options)
    if report.is_mixed:
        out["mixed"] = direction(report, report.lanes[0], group.lanes[0], plus)
    else:
        for key, lane, total in zip(LANE_KEYS, report.lanes, group.lanes, strict=True):
            out[key] = direction(report, lane, total, plus)
        has_percentiles = report.last.clat_percentiles or report.last.lat_percentiles
        out["sync"] = {
            "total_ios": report.sync_ios,
            "lat_ns": latency(report, report.sync, has_percentiles, plus),
        }
    if report.first.unified_rw_reporting == "both":
        out["mixed"] = direction(report, report.mixed_lane(), group.lanes[0], plus)
    out |= {
        "job_runtime": report.job_runtime_ms,
        "usr_cpu": report.usr_percent,
        "sys_cpu": report.sys_percent,
        "ctx": report.context_switches,
        "majf": report.major_faults,
        "minf": report.minor_faults,
    }
    out |= distributions(report)
    out |= {
        "latency_depth": report.last.iodepth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    }
    if report.first.description:
        out["desc"] = report.first.description
    return out


def distributions(report: Report) -> Json:
    """Return the percentages of depths, batches and latency ranges."""
    total = report.total_ios
    ranges = shares(report.latency_map, total, 0.01)
    return {
        "iodepth_level": dict(zip(DEPTH_KEYS, shares(report.depth_map, total, 0.1), strict=True)),
        "iodepth_submit": dict(zip(BATCH_KEYS, shares(report.submit_map, sum(report.submit_map), 0.1), strict=True)),
        "iodepth_complete": dict(
            zip(BATCH_KEYS, shares(report.complete_map, sum(report.complete_map), 0.1), strict=True)
        ),
        "latency_ns": dict(zip(LATENCY_KEYS, ranges[:10], strict=True)),
        "latency_us": dict(zip(LATENCY_KEYS, ranges[10:20], strict=True)),
        "latency_ms": dict(zip((*LATENCY_KEYS, "2000", ">=2000"), ranges[20:], strict=True)),
    }


def direction(report: Report, lane: Lane, group: GroupLane, plus: bool) -> Json:
    """Return one of "read", "write", "trim" and "mixed"."""
    spec = report.last
    out: Json = {
        "io_bytes": lane.io_bytes,
        "io_kbytes": lane.io_bytes >> 10,
        "bw_bytes": lane.bytes_per_s,
        "bw": lane.bytes_per_s // 1024,
        "iops": 1000.0 * lane.total_ios / lane.runtime_ms if lane.runtime_ms else 0.0,
        "runtime": lane.runtime_ms,
        "total_ios": lane.total_ios,
        "short_ios": lane.short_ios,
        "drop_ios": lane.drop_ios,
        "slat_ns": latency(report, lane.slat, spec.slat_percentiles, plus),
        "clat_ns": latency(report, lane.clat, spec.clat_percentiles, plus),
        "lat_ns": latency(report, lane.lat, spec.lat_percentiles, plus),
    }
    if len(lane.prios) > 1:
        key = "lat_ns" if spec.lat_percentiles else "clat_ns"
        has_percentiles = spec.clat_percentiles or spec.lat_percentiles
        out["prios"] = [
            {"prioclass": prio >> 13, "prio": prio & 7, key: latency(report, stat, has_percentiles, plus)}
            for prio, stat in lane.prios.items()
        ]
    bw, iops = lane.bw, lane.iops
    out |= {
        "bw_min": bw.low,
        "bw_max": bw.high,
        "bw_agg": percent_of_group(bw.mean, group.bw) if bw.count else 0.0,
        "bw_mean": bw.mean,
        "bw_dev": bw.deviation(),
        "bw_samples": bw.count,
        "iops_min": iops.low,
        "iops_max": iops.high,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation(),
        "iops_samples": iops.count,
    }
    return out


def latency(report: Report, stat: LatencyStat, has_percentiles: bool, plus: bool) -> Json:
    """Return one of the *lat_ns objects."""
    out: Json = {
        "min": stat.low if stat.count else 0,
        "max": stat.high,
        "mean": stat.mean(),
        "stddev": stat.deviation(),
        "N": stat.count,
    }
    if has_percentiles and stat.count:
        wanted = report.percentiles
        values = stat.percentiles(wanted)
        out["percentile"] = {f"{percent:f}": value for percent, value in zip(wanted, values, strict=True)}
        if plus:
            out["bins"] = {str(value): count for value, count in stat.filled_bins()}
    return out


def disk(util: DiskUtil) -> Json:
    """Return one element of "disk_util"."""
    return {
        "name": util.name,
        "read_ios": util.read_ios,
        "write_ios": util.write_ios,
        "read_merges": util.read_merges,
        "write_merges": util.write_merges,
        "read_ticks": util.read_ticks_ms,
        "write_ticks": util.write_ticks_ms,
        "in_queue": util.in_queue_ms,
        "util": util.util,
    }


def write_value(value: object, level: int, out: list[str]) -> None:
    """Append the text of a value that stands at an indentation level."""
    if isinstance(value, dict | list | tuple):
        is_object = isinstance(value, dict)
        pad = "  " * (level + 1)
        out.append("{\n" if is_object else "[\n")
        for number, item in enumerate(value):
            out.append(f",\n{pad}" if number else pad)
            if isinstance(value, dict):
                out.append(f"{json.dumps(str(item), ensure_ascii=False)} : ")
                item = value[item]
            write_value(item, level + 1, out)
        out.append("\n" + "  " * level + ("}" if is_object else "]"))
    elif isinstance(value, float):
        out.append(f"{value:f}")
    else:
        out.append(json.dumps(value, ensure_ascii=False))
