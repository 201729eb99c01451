"""fio's normal output: job banner, one block per report, run status groups, disk statistics.

Kept from fio 3.33: a report that moved nothing has no block, percentile and latency lines choose their own units.
Ours: the version, a line that marks a partial run, and unified_rw_reporting=both prints the true mixed figures
(3.33 prints 0 there).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log10

from blktwin.fio.ddir import WRITE
from blktwin.fio.hist import LatencyStat
from blktwin.fio.output_units import both_ways, date, latency_unit, percent_of_group, scaled, shares, version
from blktwin.fio.results import DiskUtil, GroupLane, GroupRun, Lane, Report, RunResult, make_groups
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import LATENCY_EDGES

LANE_NAMES = ("read", "write", "trim")
LINE_CHARS = 73
MIB_IN_KIB = 1024.0 * 1024.0

Write = Callable[[str], None]


def render_normal(result: RunResult) -> str:
    """Return the run as fio's text for people."""
    reports = result.reports()
    groups = make_groups(reports)
    out: list[str] = [render_banner([job.spec for job in result.jobs], result.version)]
    if result.partial:
        out.append(f"blktwin: partial results: stopped after {result.elapsed_ms / 1000:.3f} s\n")
    out.append("\n")
    for report in reports:
        if report.total_ios or any(lane.io_bytes for lane in report.lanes):
            write_report(report, groups[report.first.group_id], date(result.epoch_ms), out.append)
    for group in groups:
        write_group(group, out.append)
    if result.disk_util:
        out.append("\nDisk stats (read/write):\n")
        out.extend(disk_line(util) for util in result.disk_util)
    return "".join(out)


def render_banner(specs: list[JobSpec], blktwin_version: str) -> str:
    """Return the lines that fio prints before a run: one per section, the version, how many threads start."""
    lines = []
    for spec in specs:
        if spec.clone_index == 0:
            lines.append(section_line(spec))
        elif spec.clone_index == 1:
            lines.append("...\n")
    lines.append(version(blktwin_version) + "\n")
    threads = sum(spec.thread for spec in specs)
    processes = len(specs) - threads
    parts = []
    if threads:
        parts.append(f"{threads} thread{'s' if threads > 1 else ''}")
    if processes:
        parts.append(f"{processes} process{'es' if processes > 1 else ''}")
    lines.append(f"Starting {' and '.join(parts)}\n")
    return "".join(lines)


def section_line(spec: JobSpec) -> str:
    """Return one section's banner line."""
    sizes = [
        f"({letter}) {scaled(low, spec.significant_figures, True, 'B')}-"
        f"{scaled(high, spec.significant_figures, True, 'B')}"
        for letter, low, high in zip("RWT", spec.bs_min, spec.bs_max, strict=True)
    ]
    if spec.bs_is_seq_rand:
        sizes[2] = "bs_is_seq_rand"
    return (
        f"{spec.name}: (g={spec.group_id}): rw={spec.rw}, bs={', '.join(sizes)}, "
        f"ioengine={spec.ioengine}, iodepth={spec.iodepth}\n"
    )


def write_report(report: Report, group: GroupRun, when: str, out: Write) -> None:
    """Write one report's block."""
    first = report.first
    error = f"err={report.error:2d}" + (f" ({report.error_text})" if report.error else "")
    out(f"{first.name}: (groupid={first.group_id}, jobs={report.members}): {error}: pid={report.pid}: {when}\n")
    if first.description:
        out(f"  Description  : [{first.description}]\n")
    for ddir, lane in enumerate(report.lanes):
        if lane.io_bytes:
            name = "mixed" if report.is_mixed else LANE_NAMES[ddir]
            write_lane(report, lane, group.lanes[ddir], name, "; 0 zone resets" if ddir == WRITE else "", out)
    if first.unified_rw_reporting == "both":
        write_lane(report, report.mixed_lane(), group.lanes[0], "mixed", "", out)
    ranges = shares(report.latency_map, report.total_ios, 0.01)
    write_ranges("nsec", ranges[:10], out)
    write_ranges("usec", ranges[10:20], out)
    write_ranges("msec", ranges[20:], out)
    if report.sync.count:
        out("  fsync/fdatasync/sync_file_range:\n")
        write_latency("sync", report.sync, out)
        write_percentiles("sync", report, report.sync, out)
    write_machine(report, out)


def write_machine(report: Report, out: Write) -> None:
    """Write the lines on CPU, depths and counts."""
    out(
        f"  cpu          : usr={report.usr_percent:3.2f}%, sys={report.sys_percent:3.2f}%, "
        f"ctx={report.context_switches}, majf={report.major_faults}, minf={report.minor_faults}\n"
    )
    depths = ("1", "2", "4", "8", "16", "32", ">=64")
    batches = ("0", "4", "8", "16", "32", "64", ">=64")
    for title, keys, counts, total in (
        ("  IO depths    ", depths, report.depth_map, report.total_ios),
        ("     submit    ", batches, report.submit_map, sum(report.submit_map)),
        ("     complete  ", batches, report.complete_map, sum(report.complete_map)),
    ):
        cells = ", ".join(f"{key}={share:3.1f}%" for key, share in zip(keys, shares(counts, total, 0.1), strict=True))
        out(f"{title}: {cells}\n")
    totals = ",".join(str(lane.total_ios) for lane in report.lanes)
    short = ",".join(str(lane.short_ios) for lane in report.lanes)
    dropped = ",".join(str(lane.drop_ios) for lane in report.lanes)
    out(f"     issued rwts: total={totals},{report.sync_ios} short={short},0 dropped={dropped},0\n")
    out(f"     latency   : target=0, window=0, percentile=100.00%, depth={report.last.iodepth}\n")


def write_lane(report: Report, lane: Lane, group: GroupLane, name: str, note: str, out: Write) -> None:
    """Write one direction of a report."""
    if not lane.runtime_ms:
        return
    digits = report.first.significant_figures
    bw, bw_decimal = both_ways(lane.bytes_per_s, digits, "B/s")
    iops = scaled(1000 * lane.total_ios // lane.runtime_ms, digits, False)
    size = scaled(lane.io_bytes, digits, True, "B")
    out(f"  {name}: IOPS={iops}, BW={bw} ({bw_decimal})({size}/{lane.runtime_ms}msec){note}\n")
    for title, stat in (("slat", lane.slat), ("clat", lane.clat), (" lat", lane.lat)):
        if stat.count:
            write_latency(title, stat, out)
    spec = report.last
    kind = "lat" if spec.lat_percentiles else "clat"
    if len(lane.prios) > 1:
        for prio, stat in lane.prios.items():
            write_latency(f"{kind} prio {prio >> 13}/{prio & 7}", stat, out)
    for title, stat, wanted in (
        ("slat", lane.slat, spec.slat_percentiles),
        ("clat", lane.clat, spec.clat_percentiles),
        ("lat", lane.lat, spec.lat_percentiles),
    ):
        if wanted and stat.count:
            write_percentiles(title, report, stat, out)
    if len(lane.prios) > 1 and (spec.clat_percentiles or spec.lat_percentiles):
        samples = int((lane.lat if spec.lat_percentiles else lane.clat).count)
        for prio, stat in lane.prios.items():
            title = f"{kind} prio {prio >> 13}/{prio & 7} ({100.0 * int(stat.count) / samples:.2f}% of IOs)"
            write_percentiles(title, report, stat, out)
    write_rates(lane, group, out)


def write_rates(lane: Lane, group: GroupLane, out: Write) -> None:
    """Write the bw and iops lines."""
    bw, iops = lane.bw, lane.iops
    if bw.count:
        unit, scale = ("MiB", 1024.0) if bw.mean > MIB_IN_KIB else ("KiB", 1.0)
        out(
            f"   bw ({unit:>5}/s): min={int(bw.low / scale):5d}, max={int(bw.high / scale):5d}, "
            f"per={percent_of_group(bw.mean, group.bw):3.2f}%, avg={bw.mean / scale:5.2f}, "
            f"stdev={bw.deviation() / scale:5.2f}, samples={bw.count}\n"
        )
    if iops.count:
        out(
            f"   iops        : min={iops.low:5d}, max={iops.high:5d}, avg={iops.mean:5.2f}, "
            f"stdev={iops.deviation():5.2f}, samples={iops.count}\n"
        )


def write_latency(title: str, stat: LatencyStat, out: Write) -> None:
    """Write one slat, clat, lat or sync line."""
    deviation = stat.deviation()
    unit, size = latency_unit(stat.low, stat.high, deviation)
    low, high = scaled(stat.low // size, 6, False), scaled(stat.high // size, 6, False)
    out(f"    {title} ({unit}): min={low}, max={high}, avg={stat.mean() / size:5.2f}, stdev={deviation / size:5.2f}\n")


def write_percentiles(title: str, report: Report, stat: LatencyStat, out: Write) -> None:
    """Write a percentile table, as many to a line as fit."""
    wanted = report.percentiles
    values = stat.percentiles(wanted)
    if not values:
        return
    unit, divisions = "nsec", 0
    if min(values) > 2_000_000 and max(values) > 99_999_999:
        unit, divisions = "msec", 2
    elif min(values) > 2000 and max(values) > 99_999:
        unit, divisions = "usec", 1
    top = max(values) // 1000**divisions
    width = max(5, int(log10(top) + 1) if top else 0)
    decimals = report.percentile_decimals
    per_line = LINE_CHARS // (decimals + 10 + width)
    cells = []
    for percent, value in zip(wanted, values, strict=True):
        for _ in range(divisions):
            value = (value + 999) // 1000
        cells.append(f" {percent:{decimals + 3}.{decimals}f}th=[{value:{width}d}]")
    lines = [",".join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    out(f"    {title} percentiles ({unit}):\n     |" + ",\n     |".join(lines) + "\n")


def write_ranges(unit: str, percents: list[float], out: Write) -> None:
    """Write the share of each latency range that occurred, five to a line."""
    edges = [*(f"{edge}=" for edge in LATENCY_EDGES), "2000=", ">=2000="]
    cells = [f"{edge}{share:3.2f}%" for edge, share in zip(edges, percents, strict=False) if share > 0.0]
    for start in range(0, len(cells), 5):
        out(f"  lat ({unit})   : {', '.join(cells[start : start + 5])}\n")


def write_group(group: GroupRun, out: Write) -> None:
    """Write one run status group."""
    out(f"\nRun status group {group.group_id} (all jobs):\n")
    for name, lane in zip(("   READ", "  WRITE", "   TRIM"), group.lanes, strict=True):
        if lane.max_run_ms:
            out(group_line("  MIXED" if group.is_mixed else name, lane.bw, lane, group.digits))
    if group.is_both and not group.is_mixed:
        bw, mixed = group.mixed_bw()
        out(group_line("  MIXED", bw, mixed, group.digits))


def group_line(name: str, total_bw: int, lane: GroupLane, digits: int) -> str:
    """Return one direction of a run status group."""
    bw, bw_decimal = both_ways(total_bw, digits, "B/s")
    low, low_decimal = both_ways(lane.min_bw, digits, "B/s")
    high, high_decimal = both_ways(lane.max_bw, digits, "B/s")
    size, size_decimal = both_ways(lane.io_bytes, digits, "B")
    return (
        f"{name}: bw={bw} ({bw_decimal}), {low}-{high} ({low_decimal}-{high_decimal}), "
        f"io={size} ({size_decimal}), run={lane.min_run_ms}-{lane.max_run_ms}msec\n"
    )


def disk_line(util: DiskUtil) -> str:
    """Return one disk's line."""
    return (
        f"  {util.name}: ios={util.read_ios}/{util.write_ios}, merge={util.read_merges}/{util.write_merges}, "
        f"ticks={util.read_ticks_ms}/{util.write_ticks_ms}, in_queue={util.in_queue_ms}, util={util.util:3.2f}%\n"
    )
