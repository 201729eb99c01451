"""fio's terse output, versions 2 to 5: one line of semicolon-separated fields per report, latencies in us."""

from __future__ import annotations

from blktwin.fio.hist import LatencyStat
from blktwin.fio.output_units import shares, version
from blktwin.fio.results import DiskUtil, GroupLane, GroupRun, Lane, Report, RunResult, make_groups

PERCENTILE_CELLS = 20


def render_terse(result: RunResult, terse_version: int = 3) -> str:
    """Return one line per report. terse_version: 2, 3, 4 or 5 (a description makes version 2 two lines)."""
    reports = result.reports()
    groups = make_groups(reports)
    return "".join(
        report_line(result, report, groups[report.first.group_id], terse_version) + "\n" for report in reports
    )


def report_line(result: RunResult, report: Report, group: GroupRun, terse_version: int) -> str:
    """Return one report's line."""
    release = [] if terse_version == 2 else [version(result.version)]
    cells = [str(terse_version), *release, report.first.name, str(report.first.group_id), str(report.error)]
    lanes = 1 if report.is_mixed else 2 if terse_version == 3 else 3
    for lane, total in zip(report.lanes[:lanes], group.lanes, strict=False):
        cells += lane_cells(report, lane, total, terse_version)
    if report.first.unified_rw_reporting == "both":
        cells += lane_cells(report, report.mixed_lane(), group.lanes[0], terse_version)
    cells += [f"{report.usr_percent:f}%", f"{report.sys_percent:f}%"]
    cells += [str(report.context_switches), str(report.major_faults), str(report.minor_faults)]
    cells += [f"{share:3.1f}%" for share in shares(report.depth_map, report.total_ios, 0.1)]
    ranges = shares(report.latency_map, report.total_ios, 0.01)
    if report.total_ios:
        # The format has no ns columns: all of them count as the first us column.
        ranges[10] += 100.0 * sum(report.latency_map[:10]) / report.total_ios
    cells += [f"{share:3.2f}%" for share in ranges[10:]]
    if terse_version >= 3:
        for util in result.disk_util:
            cells += disk_cells(util)
    line = ";".join(cells)
    if report.first.description:
        line += ("\n;" if terse_version == 2 else ";") + report.first.description
    return line


def lane_cells(report: Report, lane: Lane, group: GroupLane, terse_version: int) -> list[str]:
    """Return one direction's fields."""
    iops = 1000 * lane.total_ios // lane.runtime_ms if lane.runtime_ms else 0
    cells = [str(lane.io_bytes >> 10), str(lane.bytes_per_s // 1024), str(iops), str(lane.runtime_ms)]
    cells += latency_cells(lane.slat) + latency_cells(lane.clat)
    wanted: list[float] = []
    values: list[int] = []
    if report.last.lat_percentiles or report.last.clat_percentiles:
        wanted = report.percentiles[:PERCENTILE_CELLS]
        values = (lane.lat if report.last.lat_percentiles else lane.clat).percentiles(wanted) or [0] * len(wanted)
    cells += [f"{percent:f}%={value // 1000}" for percent, value in zip(wanted, values, strict=True)]
    cells += ["0%=0"] * (PERCENTILE_CELLS - len(wanted))
    cells += latency_cells(lane.lat)
    bw, iops_stat = lane.bw, lane.iops
    share = 0.0
    if bw.count:
        group_kib = group.bw // 1024
        share = min(100.0, bw.mean * 100 / group_kib) if group_kib else 100.0
    cells += [str(bw.low), str(bw.high), f"{share:f}%", f"{bw.mean:f}", f"{bw.deviation():f}"]
    if terse_version == 5:
        cells += [str(bw.count), str(iops_stat.low), str(iops_stat.high)]
        cells += [f"{iops_stat.mean:f}", f"{iops_stat.deviation():f}", str(iops_stat.count)]
    return cells


def latency_cells(stat: LatencyStat) -> list[str]:
    """Return min, max, mean and deviation in us."""
    low = stat.low // 1000 if stat.count else 0
    return [str(low), str(stat.high // 1000), f"{stat.mean() / 1000:f}", f"{stat.deviation() / 1000:f}"]


def disk_cells(util: DiskUtil) -> list[str]:
    """Return one disk's fields."""
    counts = (
        util.read_ios,
        util.write_ios,
        util.read_merges,
        util.write_merges,
        util.read_ticks_ms,
        util.write_ticks_ms,
        util.in_queue_ms,
    )
    return [util.name, *(str(count) for count in counts), f"{util.util:3.2f}%"]
