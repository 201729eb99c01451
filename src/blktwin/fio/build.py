"""Turns a finished Draft into JobSpecs: fio's checks and corrections of options that depend on each other, clones."""

from __future__ import annotations

from blktwin.errors import ConfigError, shown
from blktwin.fio import compound
from blktwin.fio.draft import Draft, Notices, where
from blktwin.fio.options import MODELLED_ENGINES, OTHER_ENGINES, nearest_engine
from blktwin.fio.sections import Section
from blktwin.fio.spec import JobSpec, RateLimit, Triple
from blktwin.units import NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC

_DIRECTIONS = ("read", "write", "trim")
TIME_MAX_NS = 315_360_000 * 1_000_000_000
IDLE_TIME_BASED = "time_based has no effect without runtime="
FORGIVEN_MAX = 1 << 58
"""Bytes; 32 times this is within 63 bits."""
RATE_MAX = 8 << 40
"""bytes/s; a million times this is within 63 bits."""
SYNC_ENGINES = ("psync", "pvsync2", "sync")
_SYNC = {"0": "none", "1": "sync"}
_UNIFIED = {"0": "none", "1": "mixed", "2": "both"}


def fail(draft: Draft, section: Section, name: str, message: str) -> ConfigError:
    """Make an error that points at an option if it was given, else at the section."""
    raw = draft.given.get(name)
    if raw is not None:
        return raw.error(message)
    return ConfigError(message, file=section.file, line=section.line, key=f"[{section.name}]")


def check_engine(draft: Draft, section: Section, notices: Notices, *, strict: bool) -> None:
    """Stop at engines that fio does not have; strict: note those that blktwin does not have, and buffered I/O."""
    engine = draft.engine()
    if engine in MODELLED_ENGINES:
        if strict and engine != "null" and not draft.number("direct") and not is_synced_write(draft):
            message = (
                "buffered I/O (direct=0 is fio's default) is modelled only for psync, pvsync2 and sync writers with "
                "fsync= or fdatasync=: add direct=1"
            )
            notices.not_modelled.append(
                fail(draft, section, "direct" if "direct" in draft.given else "buffered", message)
            )
        return
    names = " ".join(MODELLED_ENGINES)
    if engine not in OTHER_ENGINES:
        near = nearest_engine(engine)
        hint = f"; did you mean {near}?" if near else f"; modelled are {names}"
        raise fail(draft, section, "ioengine", f"fio has no engine {engine!r}{hint}")
    if strict:
        message = f"engine {engine} is not modelled: use one of {names}"
        notices.not_modelled.append(fail(draft, section, "ioengine", message))


def is_synced_write(draft: Draft) -> bool:
    """Say whether a buffered job only writes, synchronously, and hands its dirty pages over by fsync."""
    writes_only = draft.pattern[0] in ("write", "randwrite")
    return writes_only and draft.engine() in SYNC_ENGINES and bool(draft.number("fsync") or draft.number("fdatasync"))


def base_spec(draft: Draft, section: Section, notices: Notices) -> JobSpec:
    """Make the job of a section (clone 0) with fio's corrections applied, without names of files and group."""
    spec = JobSpec(name=draft.text("name", section.name), file=section.file, line=section.line)
    spec.description = draft.text("description")
    spec.wait_for = draft.text("wait_for")
    _set_sizes(spec, draft)
    _set_times(spec, draft)
    _set_pattern(spec, draft)
    _set_random(spec, draft)
    _set_rate(spec, draft)
    _set_reporting(spec, draft)
    _set_system(spec, draft)
    _correct(spec, draft, section, notices)
    _check(spec, draft, section)
    return spec


def _set_sizes(spec: JobSpec, draft: Draft) -> None:
    spec.filesize_bytes = draft.pair("filesize")[0]
    for name in ("size", "io_size", "offset", "offset_increment"):
        amount = draft.amount(name)
        setattr(spec, f"{name}_percent" if amount.percent else f"{name}_bytes", amount.value)
    spec.offset_align_bytes = draft.number("offset_align")
    spec.number_ios = draft.number("number_ios")
    spec.loops = draft.number("loops", 1) or 1


def _set_times(spec: JobSpec, draft: Draft) -> None:
    spec.runtime_ns = draft.number("runtime") * NSEC_PER_USEC
    spec.time_based = bool(draft.number("time_based"))
    spec.ramp_time_ns = draft.number("ramp_time") * NSEC_PER_USEC
    low, high = draft.pair("startdelay")
    spec.startdelay_ns = (low * NSEC_PER_USEC, high * NSEC_PER_USEC)
    spec.thinktime_ns = draft.number("thinktime") * NSEC_PER_USEC
    spec.thinktime_spin_ns = min(draft.number("thinktime_spin") * NSEC_PER_USEC, spec.thinktime_ns)
    spec.thinktime_iotime_ns = draft.number("thinktime_iotime") * NSEC_PER_USEC
    spec.thinktime_blocks = draft.number("thinktime_blocks", 1)
    spec.thinktime_blocks_type = draft.text("thinktime_blocks_type", "complete")


def _set_pattern(spec: JobSpec, draft: Draft) -> None:
    spec.ioengine = draft.engine()
    spec.direct = bool(draft.number("direct"))
    sync = draft.text("sync", "none")
    spec.sync = _SYNC.get(sync, sync)
    depth = spec.iodepth = draft.number("iodepth", 1)
    batch = draft.number("iodepth_batch", 1)
    spec.iodepth_batch = batch if 0 < batch <= depth else depth
    spec.iodepth_batch_complete_min = draft.number("iodepth_batch_complete_min", 1)
    spec.iodepth_batch_complete_max = max(draft.number("iodepth_batch_complete_max"), spec.iodepth_batch_complete_min)
    low = draft.number("iodepth_low")
    spec.iodepth_low = low if 0 < low <= depth else depth
    spec.rw, spec.rw_seq, spec.rw_seq_add_bytes = draft.pattern
    spec.rw_sequencer = draft.text("rw_sequencer", "sequential")
    spec.rwmix_read = draft.number("rwmixread", 50)
    spec.percentage_random = draft.triple("percentage_random", 100)
    spec.bs_min = _triple([low or bs for low, bs in zip(draft.bs_low, draft.bs, strict=True)])
    spec.bs_max = _triple([high or bs for high, bs in zip(draft.bs_high, draft.bs, strict=True)])
    spec.bssplit = (draft.bssplit[0], draft.bssplit[1], draft.bssplit[2])
    spec.bs_unaligned = bool(draft.number("bs_unaligned"))
    spec.bs_is_seq_rand = bool(draft.number("bs_is_seq_rand"))
    if spec.is_random:
        spec.blockalign = draft.triple("ba")


def _triple(values: list[int]) -> Triple:
    one, two, three = values
    return one, two, three


def _set_random(spec: JobSpec, draft: Draft) -> None:
    spec.randseed = draft.number("randseed")
    spec.randrepeat = bool(draft.number("randrepeat", 1))
    spec.allrandrepeat = bool(draft.number("allrandrepeat"))
    spec.softrandommap = bool(draft.number("softrandommap"))
    spec.random_generator = draft.text("random_generator", "tausworthe")
    spec.distribution = (draft.distribution[0], draft.distribution[1], draft.distribution[2])
    uniform = all(one.kind == "random" for one in spec.distribution)
    spec.norandommap = bool(draft.number("norandommap")) or not uniform


def _set_rate(spec: JobSpec, draft: Draft) -> None:
    spec.rate = RateLimit(
        bytes_per_s=draft.triple("rate"),
        bytes_per_s_min=draft.triple("rate_min"),
        iops=draft.triple("rate_iops"),
        iops_min=draft.triple("rate_iops_min"),
        process=draft.text("rate_process", "linear"),
        cycle_ns=draft.number("rate_cycle", 1000) * NSEC_PER_MSEC,
        ignore_thinktime=bool(draft.number("rate_ignore_thinktime")),
    )


def _set_reporting(spec: JobSpec, draft: Draft) -> None:
    spec.group_reporting = bool(draft.number("group_reporting"))
    unified = draft.text("unified_rw_reporting", "none")
    spec.unified_rw_reporting = _UNIFIED.get(unified, unified)
    spec.disable_slat = bool(draft.number("disable_slat"))
    spec.disable_clat = bool(draft.number("disable_clat"))
    spec.disable_lat = bool(draft.number("disable_lat"))
    spec.disable_bw = bool(draft.number("disable_bw_measurement"))
    spec.clat_percentiles = bool(draft.number("clat_percentiles", 1)) and not spec.disable_clat
    spec.lat_percentiles = bool(draft.number("lat_percentiles")) and not spec.disable_lat
    spec.slat_percentiles = bool(draft.number("slat_percentiles")) and not spec.disable_slat
    given = draft.floats("percentile_list", spec.percentile_list)
    if 0.0 in given:
        given = given[: given.index(0.0)]
    spec.percentile_list = tuple(sorted(given))
    spec.significant_figures = draft.number("significant_figures", 4)


def _set_system(spec: JobSpec, draft: Draft) -> None:
    spec.thread = bool(draft.number("thread"))
    spec.fsync = draft.number("fsync")
    spec.fdatasync = draft.number("fdatasync")
    spec.end_fsync = bool(draft.number("end_fsync"))
    spec.prio = draft.number("prio")
    spec.prioclass = draft.number("prioclass")
    spec.nice = draft.number("nice")
    spec.cgroup = draft.text("cgroup")
    spec.cgroup_weight = draft.number("cgroup_weight")
    spec.ioscheduler = draft.text("ioscheduler")
    spec.exitall = bool(draft.number("exitall"))
    spec.exitall_on_error = bool(draft.number("exitall_on_error"))
    spec.stonewall = bool(draft.number("stonewall"))


def _correct(spec: JobSpec, draft: Draft, section: Section, notices: Notices) -> None:
    place = f"{where(section.file, section.line)}job {shown(spec.name)}: "
    if spec.time_based and not spec.runtime_ns:
        spec.time_based = False
        spec.asks_time_based = True
        notices.remarks[place + IDLE_TIME_BASED] = None
    aligned = [align or low for align, low in zip(spec.blockalign, spec.bs_min, strict=True)]
    if tuple(aligned) != spec.bs_min and not spec.norandommap:
        spec.norandommap = True
        notices.remarks[f"{place}blockalign turns the random map off, as in fio"] = None
    for name in ("size", "io_size", "offset", "offset_increment"):
        if draft.amount(name).zones:
            raise fail(draft, section, name, "not modelled yet: sizes in zones (z); write it in bytes")


def _check_times(spec: JobSpec, draft: Draft, section: Section) -> None:
    """Keep every time within ten years, and so every clock within 63 bits of ns."""
    times = {
        "runtime": spec.runtime_ns,
        "ramp_time": spec.ramp_time_ns,
        "startdelay": spec.startdelay_ns[1],
        "thinktime": spec.thinktime_ns,
        "thinktime_spin": spec.thinktime_spin_ns,
        "thinktime_iotime": spec.thinktime_iotime_ns,
        "ratecycle": spec.rate.cycle_ns,
    }
    for name, ns in times.items():
        if ns > TIME_MAX_NS:
            raise fail(draft, section, name, "longer than ten years")


def _check(spec: JobSpec, draft: Draft, section: Section) -> None:
    _check_times(spec, draft, section)
    rate = spec.rate
    if any(rate.bytes_per_s) and any(rate.iops):
        raise fail(draft, section, "rate_iops", "rate and rate_iops exclude each other")
    if any(rate.bytes_per_s_min) and any(rate.iops_min):
        raise fail(draft, section, "rate_iops_min", "rate_min and rate_iops_min exclude each other")
    for at, direction in enumerate(_DIRECTIONS):
        if 0 < rate.bytes_per_s[at] < rate.bytes_per_s_min[at] or 0 < rate.iops[at] < rate.iops_min[at]:
            name = "rate_min" if any(rate.bytes_per_s_min) else "rate_iops_min"
            raise fail(draft, section, name, f"the minimum {direction} rate is above the rate itself")
    for at, direction in enumerate(_DIRECTIONS):
        if max(rate.bytes_per_s[at], rate.iops[at] * spec.bs_min[at]) > RATE_MAX:
            name = "rate" if rate.bytes_per_s[at] else "rate_iops"
            raise fail(
                draft, section, name, f"{direction}s of more than {RATE_MAX >> 40} TiB/s: leave it out for no limit"
            )
    fastest = max(*rate.bytes_per_s, *(iops * bs for iops, bs in zip(rate.iops, spec.bs_min, strict=True)))
    if rate.ignore_thinktime and fastest * spec.thinktime_ns > FORGIVEN_MAX * NSEC_PER_SEC:
        raise fail(draft, section, "rate_ignore_thinktime", "too much to forgive: the rate times the thinktime")
    smallest = min(low for low, used in zip(spec.bs_min, spec.directions(), strict=True) if used)
    if 0 < spec.size_bytes < smallest:
        message = f"size {spec.size_bytes} is smaller than the smallest block, {smallest}"
        raise fail(draft, section, "size", message)
    low, high = draft.pair("filesize")
    if low != high:
        raise fail(draft, section, "filesize", "not modelled yet: a range of file sizes; give one size")


def clone_order(numjobs: int) -> list[int]:
    """Give the clone numbers in the order in which fio starts them: 0, n-1, ..., 1."""
    return [0, *range(numjobs - 1, 0, -1)]


def files_of(draft: Draft, section: Section, clone: int) -> tuple[str, ...]:
    """Give the file names of one clone, with directory= in front.

    A job without filename= whose section is named like a device uses that device; else fio makes names up.
    """
    given = tuple(name for text in draft.files for name in compound.file_names(text))
    name = draft.text("name", section.name) if section.on_command_line else section.name
    if not given and name.startswith("/dev/"):
        given = (name,)
    if not given:
        form = draft.text("filename_format", "$jobname.$jobnum.$filenum")
        words = {"$jobname": name, "$jobnum": str(clone), "$filenum": "0", "$clientuid": ""}
        for word, text in words.items():
            form = form.replace(word, text)
        given = (form,)
    directories = compound.file_names(draft.text("directory"))
    if not directories:
        return given
    directory = directories[clone % len(directories)]
    return tuple(f"{directory}/{file}" for file in given)
