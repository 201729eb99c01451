"""`--showcmd`: job files as the command line that means the same, byte for byte as fio prints it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from blktwin.fio.jobfile import read_sources
from blktwin.fio.resolve import listings


def render(
    paths: Sequence[str],
    job_args: Sequence[str] = (),
    sections: Sequence[str] = (),
    *,
    env: Mapping[str, str] | None = None,
) -> str:
    """Give one line per job file; job_args set global options for the first file but are not printed, as in fio.

    env: for ${VAR}; None is this process's. Errors: ConfigError.
    """
    sources = read_sources(paths, job_args, sections=sections, env=os.environ if env is None else env)
    lines = []
    for rows in listings(sources):
        text = "fio " if rows else ""
        for section, listing in rows:
            if not section.is_global:
                text += f"--name={section.name} "
            text += "".join(_word(name, value) for name, value in listing)
        lines.append(text + "\n")
    return "".join(lines)


def _word(name: str, value: str | None) -> str:
    if value is None:
        return f"--{name} "
    quote = '"' if name == "description" else ""
    return f"--{name}={quote}{value}{quote} "
