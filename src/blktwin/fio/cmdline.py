"""Jobs on the command line: `--name=global --rw=randread --name=a --bs 8k` is a job description, as in fio."""

from __future__ import annotations

from collections.abc import Sequence

from blktwin.errors import UsageError, shown
from blktwin.fio.options import find, nearest
from blktwin.fio.sections import RawOption, Section, Source, is_global_name

FILE = "command line"


def split_arguments(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part a command line into job file paths and job arguments (options with their values).

    Every word that starts with "-" is an option, except "-" itself; a word after an option that needs a value and
    has no "=" is its value.
    """
    paths: list[str] = []
    arguments: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token == "--":
            paths.extend(tokens[at:])
            break
        if token == "-" or not token.startswith("-"):
            paths.append(token)
            continue
        arguments.append(token)
        if takes_next_word(token) and at < len(tokens):
            arguments.append(tokens[at])
            at += 1
    return paths, arguments


def takes_next_word(token: str) -> bool:
    """Say whether the word after this option is its value."""
    option = find(token.lstrip("-"))
    return "=" not in token and option is not None and option.takes_value


def is_job_option(token: str) -> bool:
    """Say whether a word such as --bs=4k or --bs names an option of fio's jobs."""
    return token.startswith("-") and find(token.lstrip("-").partition("=")[0]) is not None


def parse_arguments(arguments: Sequence[str], sections: Sequence[str] = (), names: list[str] | None = None) -> Source:
    """Read job arguments into sections; options before the first --name (and after --name=global) are global.

    sections: only these jobs; as in fio the options of a skipped --name then count as global ones.
    names takes the names of all jobs, skipped or not.
    Errors: UsageError (exit 2).
    """
    source = Source(FILE, [], on_command_line=True)
    current: Section | None = None
    for raw in _options(arguments):
        if raw.key == "name":
            current = None
            name = raw.value or ""
            if names is not None and not is_global_name(name):
                names.append(name)
            if sections and not is_global_name(name) and name not in sections:
                continue
        if current is None:
            is_job = raw.key == "name" and not is_global_name(raw.value or "")
            current = Section((raw.value or "") if is_job else "global", not is_job, FILE, 0, on_command_line=True)
            source.sections.append(current)
        current.options.append(raw)
    return source


def _options(arguments: Sequence[str]) -> list[RawOption]:
    options: list[RawOption] = []
    at = 0
    while at < len(arguments):
        token = arguments[at]
        at += 1
        key, equals, value = token.lstrip("-").partition("=")
        if not token.startswith("-") or not key:
            raise UsageError(f"{shown(token)!r} is neither an option (--name=value) nor the value of one", file=FILE)
        option = find(key)
        if option is None:
            near = nearest(key)
            hint = f"; did you mean --{near}?" if near else ""
            raise UsageError(f"fio has no such option{hint}", file=FILE, key=f"--{key}")
        text: str | None = value if equals else None
        if not equals and option.takes_value:
            if at == len(arguments):
                raise UsageError("needs a value", file=FILE, key=f"--{key}")
            text = arguments[at]
            at += 1
        if text == "" and option.takes_value:
            raise UsageError("needs a value", file=FILE, key=f"--{key}")
        options.append(RawOption(option.name, text, FILE, 0))
    return options
