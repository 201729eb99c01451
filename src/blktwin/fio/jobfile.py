"""Reads fio job files: sections, comments, include, ${VAR}, keywords. The way in for all others is load()."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence

from blktwin.errors import ConfigError, near
from blktwin.fio.cmdline import parse_arguments
from blktwin.fio.resolve import resolve
from blktwin.fio.sections import Section, Source, is_global_name, raw_option
from blktwin.fio.spec import JobPlan

FILE_BYTES_MAX = 16 << 20
"""Of all job files together."""
INCLUDE_DEPTH_MAX = 16
INCLUDES_MAX = 1000
"""Files that all job files together may include."""
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
    reader = _Reader(env)
    sources = read_sources(paths, job_args, sections=sections, env=env, reader=reader)
    for name in sections:
        if name not in reader.choice:
            file = paths[0] if paths else ""
            raise ConfigError(f"no job section {name!r}{near(name, reader.choice)}", file=file, key="--section")
    plan = resolve(sources, require_runnable=require_runnable, readonly=readonly)
    plan.files = reader.files
    if not plan.jobs:
        raise ConfigError("no job is defined", file=paths[0] if paths else "")
    return plan


def read_sources(
    paths: Sequence[str],
    job_args: Sequence[str],
    *,
    sections: Sequence[str] = (),
    env: Mapping[str, str],
    reader: _Reader | None = None,
) -> list[Source]:
    """Read everything into sections: the command line first (if any), then one Source per file.

    As in fio, the choice of sections holds for the command line and the first file. reader: what else it has seen.
    """
    if "global" in sections:
        raise ConfigError("cannot be the only section", key="--section=global")
    if list(paths).count("-") > 1:
        raise ConfigError("- (standard input) can be read once only")
    reader = reader or _Reader(env)
    sources = [parse_arguments(job_args, sections, reader.choice)] if job_args else []
    for at, path in enumerate(paths):
        nr_names = len(reader.choice)
        sources.append(Source(path, reader.read_sections(path, sections if at == 0 else ())))
        if at > 0:
            del reader.choice[nr_names:]
    return sources


def machine_keywords() -> dict[str, int]:
    """Give fio's keywords: page size, memory in MiB and CPUs of this machine."""
    page = os.sysconf("SC_PAGE_SIZE")
    memory = page * os.sysconf("SC_PHYS_PAGES") >> 20
    return {"pagesize": page, "mb_memory": memory, "ncpus": os.sysconf("SC_NPROCESSORS_ONLN")}


class _Reader:
    """Reads job files: the environment, what has been read so far, and the job sections to choose from."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.machine = machine_keywords()
        self.files: list[str] = []
        self.choice: list[str] = []
        self.nr_includes = 0
        self.nr_bytes = 0

    def read_sections(self, path: str, wanted: Sequence[str]) -> list[Section]:
        """Give the sections of a file that are wanted; none named: all."""
        found: list[Section] = []
        current: Section | None = None
        skipping = False
        for number, line in enumerate(self.read_lines(path), 1):
            text = _strip(line)
            if not text:
                continue
            if text.startswith("["):
                current = _section(text, path, number)
                if not current.is_global:
                    self.choice.append(current.name)
                skipping = bool(wanted) and not current.is_global and current.name not in wanted
                if not skipping:
                    found.append(current)
            elif skipping:
                continue
            elif current is None:
                raise ConfigError("an option must stand below a [section]", file=path, line=number, key=text)
            elif text.startswith("include"):
                self.include(_include_name(text), path, number, current, 1)
            else:
                current.options.append(raw_option(text, path, number, self.env, self.machine))
        return found

    def include(self, name: str, includer: str, line: int, section: Section, depth: int) -> None:
        """Add the options of an included file; the name is looked up here, then beside the file that includes it."""
        if not name:
            raise ConfigError("needs a file name", file=includer, line=line, key="include")
        self.nr_includes += 1
        if depth > INCLUDE_DEPTH_MAX or self.nr_includes > INCLUDES_MAX:
            limit = f"nested more than {INCLUDE_DEPTH_MAX} deep"
            if depth <= INCLUDE_DEPTH_MAX:
                limit = f"more than {INCLUDES_MAX} files are included"
            raise ConfigError(f"{limit}: {name}", file=includer, line=line, key="include")
        path = name
        if "\0" not in name and not os.path.exists(name):
            path = os.path.join(os.path.dirname(includer), name)
        try:
            lines = self.read_lines(path)
        except ConfigError as error:
            raise ConfigError(str(error), file=includer, line=line, key="include") from None
        for number, content in enumerate(lines, 1):
            text = _strip(content)
            if not text:
                continue
            if text.startswith("["):
                raise ConfigError("an included file cannot start a new section", file=path, line=number, key=text)
            if text.startswith("include"):
                self.include(_include_name(text), path, number, section, depth + 1)
            else:
                section.options.append(raw_option(text, path, number, self.env, self.machine))

    def read_lines(self, path: str) -> list[str]:
        """Give the lines of a file; bytes that are not UTF-8 become \\x escapes."""
        data = _read_file(path)
        self.files.append(path)
        self.nr_bytes += len(data)
        if self.nr_bytes > FILE_BYTES_MAX:
            raise ConfigError(f"more than {FILE_BYTES_MAX >> 20} MiB of job files are no job files", file=path)
        if b"\0" in data:
            line = data[: data.index(b"\0")].count(b"\n") + 1
            raise ConfigError("not a text file (it has NUL bytes)", file=path, line=line)
        return data.decode("utf-8", "backslashreplace").split("\n")


def _section(text: str, path: str, line: int) -> Section:
    name = text[1:-1]
    if not text.endswith("]"):
        raise ConfigError("the section header has no closing ] at its end", file=path, line=line, key=text)
    if not name:
        raise ConfigError("the section has no name", file=path, line=line, key=text)
    return Section(name[:254], is_global_name(name), path, line)


def _include_name(text: str) -> str:
    return text[len("include") + 1 :]


def _read_file(path: str) -> bytes:
    try:
        if path != "-":
            with open(path, "rb") as file:
                return file.read(FILE_BYTES_MAX + 1)
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read the job file: {reason}", file=path) from None


def _strip(line: str) -> str:
    """Cut blanks at both ends and, as fio does, everything from the first ; or # on."""
    text = line.lstrip(_BLANK)
    for mark in ";#":
        text = text.partition(mark)[0]
    while text and (text[-1] in _BLANK or ord(text[-1]) < 32 or ord(text[-1]) == 127):
        text = text[:-1]
    return text.lstrip(_BLANK)
