"""From sections to a JobPlan: which options hold for which job, groups, clones, and fio's lists of options."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from blktwin.errors import ConfigError, near
from blktwin.fio.build import SYNC_ENGINES, base_spec, check_engine, clone_order, fail, files_of
from blktwin.fio.draft import Draft, Notices, apply_all, where
from blktwin.fio.option import Option
from blktwin.fio.sections import RawOption, Section, Source
from blktwin.fio.spec import JobPlan, JobSpec

JOBS_MAX = 4096
FILES_MAX = 1 << 20
DEPTH_MAX = 1 << 16
"""As many requests as Linux allows asynchronous I/O in all (fs.aio-max-nr)."""
UNITS_MAX = 1 << 20
Listing = list[tuple[str, str | None]]


@dataclass(slots=True)
class _State:
    """What fio keeps between sections: defaults, group number, jobs so far."""

    strict: bool
    readonly: bool
    defaults: Draft = field(default_factory=Draft)
    global_options: dict[str, str] = field(default_factory=dict)
    notices: Notices = field(default_factory=Notices)
    jobs: list[JobSpec] = field(default_factory=list)
    group: int = 0
    jobs_in_group: int = 0
    lat_percentiles: set[bool] = field(default_factory=set)
    """What the jobs of this group say."""
    nr_files: int = 0
    nr_units: int = 0


def resolve(sources: Sequence[Source], *, require_runnable: bool = True, readonly: bool = False) -> JobPlan:
    """Make the jobs of all sources, in fio's order.

    Each file after the first starts from fio's defaults again and behind a stonewall.
    require_runnable: stop at what the model cannot run. readonly: stop at jobs that write or trim.
    Errors: ConfigError with file, line and option.
    """
    state = _State(require_runnable, readonly)
    files_seen = 0
    for source in sources:
        if not source.on_command_line:
            files_seen += 1
            if files_seen > 1:
                state.defaults, state.global_options = Draft(), {}
        wall = files_seen > 1
        for section in source.sections:
            if section.is_global:
                known = apply_all(state.defaults, section.options, state.notices, strict=state.strict)
                state.global_options.update(listed(known))
            else:
                _add_job(state, section, stonewall=wall)
                wall = False
    _check_circle(state.jobs)
    if state.notices.not_modelled:
        raise _all_of(state.notices.not_modelled)
    return JobPlan(state.jobs, state.global_options, _notes(state.notices))


def listed(known: list[tuple[Option, RawOption]]) -> dict[str, str]:
    """Give options as fio lists them in JSON: canonical names, values as written, none for bare options."""
    options: dict[str, str] = {}
    for option, raw in known:
        if raw.value is not None:
            options[option.name] = raw.value
    return options


def _add_job(state: _State, section: Section, *, stonewall: bool) -> None:
    draft = state.defaults.copy()
    if stonewall:
        draft.values["stonewall"] = 1
    known = apply_all(draft, section.options, state.notices, strict=state.strict)
    check_engine(draft, section, state.notices, strict=state.strict)
    spec = base_spec(draft, section, state.notices)
    spec.options = listed(known)
    numjobs = draft.number("numjobs", 1)
    if numjobs < 1 or len(state.jobs) + numjobs > JOBS_MAX:
        raise fail(draft, section, "numjobs", f"{numjobs} clones are not possible: 1 to {JOBS_MAX} jobs in all")
    if state.readonly and spec.rw not in ("read", "randread"):
        raise fail(draft, section, "rw", "writes or trims, which --readonly forbids")
    _check_wait_for(state, spec, draft, section)
    _check_memory(state, spec, draft, section, numjobs)
    if (spec.stonewall or draft.number("new_group")) and state.jobs_in_group:
        state.group += 1
        state.jobs_in_group = 0
        state.lat_percentiles = set()
    for clone in clone_order(numjobs):
        job = copy.deepcopy(spec) if clone else spec
        job.clone_index = clone
        job.group_id = state.group
        job.filenames = files_of(draft, section, clone)
        if clone:
            job.stonewall = False
            job.name = spec.name if section.on_command_line else section.name
        state.jobs_in_group += 1
        _check_group(state, job, draft, section)
        state.lat_percentiles.add(job.lat_percentiles)
        state.jobs.append(job)


def _check_wait_for(state: _State, spec: JobSpec, draft: Draft, section: Section) -> None:
    if not spec.wait_for:
        return
    if spec.wait_for == spec.name:
        raise fail(draft, section, "wait_for", "a job cannot wait for itself")
    names = dict.fromkeys(job.name for job in state.jobs)
    if spec.wait_for not in names:
        message = f"no job {spec.wait_for!r} stands above this one{near(spec.wait_for, names)}"
        raise fail(draft, section, "wait_for", message)


def _check_circle(jobs: list[JobSpec]) -> None:
    """Names may repeat: a job above may have the name of one that waits for it. fio would wait for ever."""
    missing = {job.name: 0 for job in jobs}
    waiting: dict[str, list[str]] = {}
    for name, other in dict.fromkeys((job.name, job.wait_for) for job in jobs if job.wait_for):
        missing[name] += 1
        waiting.setdefault(other, []).append(name)
    ready = [name for name, count in missing.items() if count == 0]
    for name in ready:
        for one in waiting.get(name, ()):
            missing[one] -= 1
            if missing[one] == 0:
                ready.append(one)
    for job in jobs:
        if job.wait_for and missing[job.name]:
            message = f"[{job.name}] never starts: jobs called {job.wait_for!r} wait for each other, in a circle"
            raise ConfigError(message, file=job.file, line=job.line, key="wait_for")


def _check_memory(state: _State, spec: JobSpec, draft: Draft, section: Section, numjobs: int) -> None:
    """Refuse what no machine would have the memory for."""
    if not state.strict:
        return
    state.nr_files += numjobs * len(files_of(draft, section, 0))
    if state.nr_files > FILES_MAX:
        raise fail(draft, section, "filename", f"more than {FILES_MAX} files in all: {state.nr_files}")
    if spec.ioengine in SYNC_ENGINES:
        return
    if spec.iodepth > DEPTH_MAX:
        raise fail(draft, section, "iodepth", f"{spec.iodepth} is too big: at most {DEPTH_MAX} is possible")
    state.nr_units += numjobs * spec.iodepth
    if state.nr_units > UNITS_MAX:
        raise fail(draft, section, "iodepth", f"more than {UNITS_MAX} I/Os in flight over all jobs: {state.nr_units}")


def _all_of(errors: list[ConfigError]) -> ConfigError:
    """Make one error of all: the first one, and the names and places of the others."""
    first = errors[0]
    others = dict.fromkeys(f"{error.key} ({where(error.file, error.line).removesuffix(': ')})" for error in errors[1:])
    if not others:
        return first
    message = f"{first.message} [also not modelled: {', '.join(others)}]"
    return ConfigError(message, file=first.file, line=first.line, key=first.key)


def _check_group(state: _State, job: JobSpec, draft: Draft, section: Section) -> None:
    """fio reports a group as one, so its jobs must agree on lat_percentiles."""
    if not job.group_reporting or state.jobs_in_group < 2:
        return
    if state.lat_percentiles - {job.lat_percentiles}:
        raise fail(draft, section, "lat_percentiles", "must be the same in all jobs of a group with group_reporting")


def _notes(notices: Notices) -> list[str]:
    notes = list(notices.remarks)
    if notices.no_effect:
        names = ", ".join(
            f"{name} ({where(raw.file, raw.line).removesuffix(': ')})" for name, raw in notices.no_effect.items()
        )
        notes.append(f"no effect on a model: {names}")
    return notes


def listings(sources: Sequence[Source]) -> list[list[tuple[Section, Listing]]]:
    """Give, per file, each section with the options that `fio --showcmd` prints for it.

    A [global] prints all global options of its file so far. Errors: as resolve(), but for what cannot be run.
    """
    out: list[list[tuple[Section, Listing]]] = []
    defaults, so_far = Draft(), Listing()
    first = True
    for source in sources:
        if not source.on_command_line and not first:
            defaults, so_far = Draft(), Listing()
        first = first and source.on_command_line
        rows: list[tuple[Section, Listing]] = []
        for section in source.sections:
            draft = defaults if section.is_global else defaults.copy()
            known = apply_all(draft, section.options, Notices(), strict=False)
            listing: Listing = [(option.name, raw.value) for option, raw in known]
            if section.is_global:
                so_far.extend(listing)
                listing = list(so_far)
            rows.append((section, listing))
        if not source.on_command_line:
            out.append(rows)
    return out
