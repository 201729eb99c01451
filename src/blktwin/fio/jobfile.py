"""Reads fio job files: sections, comments, include, ${VAR}, keywords. The way in for all others is load()."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from blktwin.errors import ConfigError
from blktwin.fio.cmdline import parse_arguments
from blktwin.fio.resolve import resolve
from blktwin.fio.sections import Section, Source, is_global_name, raw_option, shown
from blktwin.fio.spec import JobPlan

FILE_BYTES_MAX = 16 << 20
INCLUDE_DEPTH_MAX = 16
_BLANK = " \t\n\v\f\r"


def load(
    paths: Sequence[str],
    job_args: Sequence[str],
    *,
    sections: Sequence[str] = (),
    env: Mapping[str, str],
    require_runnable: bool = True,
    readonly: bool = False,
) -> JobPlan:
    """Read job files ("-" is stdin) and fio-style job arguments into typed jobs, in fio's order.

    sections: only these job sections (fio's --section). require_runnable: False accepts what the model cannot run
    yet (for --parse-only). readonly: refuse jobs that write or trim.
    Errors: ConfigError, one line with file, line and option.
    """
    sources = read_sources(paths, job_args, sections=sections, env=env)
    plan = resolve(sources, require_runnable=require_runnable, readonly=readonly)
    if not plan.jobs:
        raise ConfigError("no job is defined", file=paths[0] if paths else "")
    return plan


def read_sources(
    paths: Sequence[str], job_args: Sequence[str], *, sections: Sequence[str] = (), env: Mapping[str, str]
) -> list[Source]:
    """Read everything into sections: the command line first (if any), then one Source per file.

    As in fio, the choice of sections holds for the command line and the first file.
    """
    if "global" in sections:
        raise ConfigError("cannot be the only section", key="--section=global")
    if list(paths).count("-") > 1:
        raise ConfigError("- (standard input) can be read once only")
    machine = machine_keywords()
    sources = [parse_arguments(job_args, sections)] if job_args else []
    for at, path in enumerate(paths):
        wanted = sections if at == 0 else ()
        sources.append(Source(path, _read_sections(path, wanted, env, machine)))
    return sources


def machine_keywords() -> dict[str, int]:
    """Give fio's keywords: page size, memory in MiB and CPUs of this machine."""
    page = os.sysconf("SC_PAGE_SIZE")
    memory = page * os.sysconf("SC_PHYS_PAGES") >> 20
    return {"pagesize": page, "mb_memory": memory, "ncpus": os.sysconf("SC_NPROCESSORS_ONLN")}


def _read_sections(
    path: str, wanted: Sequence[str], env: Mapping[str, str], machine: Mapping[str, int]
) -> list[Section]:
    found: list[Section] = []
    current: Section | None = None
    skipping = False
    for number, line in enumerate(_read_lines(path), 1):
        text = _strip(line)
        if not text:
            continue
        if text.startswith("["):
            current = _section(text, path, number)
            skipping = bool(wanted) and not current.is_global and current.name not in wanted
            if not skipping:
                found.append(current)
        elif skipping:
            continue
        elif current is None:
            raise ConfigError("an option must stand below a [section]", file=path, line=number, key=shown(text))
        elif text.startswith("include"):
            _include(_include_name(text), path, number, current, env, machine, 1)
        else:
            current.options.append(raw_option(text, path, number, env, machine))
    return found


def _section(text: str, path: str, line: int) -> Section:
    name = text[1:-1]
    if not text.endswith("]"):
        raise ConfigError("the section header has no closing ] at its end", file=path, line=line, key=shown(text))
    if not name:
        raise ConfigError("the section has no name", file=path, line=line, key=shown(text))
    return Section(name[:254], is_global_name(name), path, line)


def _include_name(text: str) -> str:
    return text[len("include") + 1 :]


def _include(
    name: str,
    includer: str,
    line: int,
    section: Section,
    env: Mapping[str, str],
    machine: Mapping[str, int],
    depth: int,
) -> None:
    """Add the options of an included file; the name is looked up here, then beside the file that includes it."""
    if not name:
        raise ConfigError("needs a file name", file=includer, line=line, key="include")
    if depth > INCLUDE_DEPTH_MAX:
        raise ConfigError(
            f"nested more than {INCLUDE_DEPTH_MAX} deep: {shown(name)}", file=includer, line=line, key="include"
        )
    path = name
    if "\0" not in name and not os.path.exists(name):
        path = os.path.join(os.path.dirname(includer), name)
    try:
        lines = _read_lines(path)
    except ConfigError as error:
        raise ConfigError(shown(str(error), 300), file=includer, line=line, key="include") from None
    for number, content in enumerate(lines, 1):
        text = _strip(content)
        if not text:
            continue
        if text.startswith("["):
            raise ConfigError("an included file cannot start a new section", file=path, line=number, key=shown(text))
        if text.startswith("include"):
            _include(_include_name(text), path, number, section, env, machine, depth + 1)
        else:
            section.options.append(raw_option(text, path, number, env, machine))


def _read_lines(path: str) -> list[str]:
    """Give the lines of a file; bytes that are not UTF-8 become \\x escapes."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read the job file: {reason}", file=shown(path, 300)) from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"a job file of more than {FILE_BYTES_MAX >> 20} MiB is not a job file", file=path)
    if b"\0" in data:
        raise ConfigError(
            "not a text file (it has NUL bytes)", file=path, line=data[: data.index(b"\0")].count(b"\n") + 1
        )
    return data.decode("utf-8", "backslashreplace").split("\n")


def _strip(line: str) -> str:
    """Cut blanks at both ends and, as fio does, everything from the first ; or # on."""
    text = line.lstrip(_BLANK)
    for mark in ";#":
        text = text.partition(mark)[0]
    while text and (text[-1] in _BLANK or ord(text[-1]) < 32 or ord(text[-1]) == 127):
        text = text[:-1]
    return text.lstrip(_BLANK)
