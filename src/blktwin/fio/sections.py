"""The text of a job description before it means anything: sections with their option lines, from files and arguments.

jobfile.py and cmdline.py make sections; resolve.py gives them meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from blktwin.errors import ConfigError
from blktwin.fio.arithmetic import evaluate

ENVIRONMENT_MAX = 65536
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_KEYWORD = re.compile(r"\$(pagesize|mb_memory|ncpus)")


@dataclass(slots=True)
class RawOption:
    """One option as written; value None means no "=". Environment and keywords are already replaced."""

    key: str
    value: str | None
    file: str
    line: int
    odd: str = ""

    def error(self, message: str) -> ConfigError:
        """Make the error that points at this option."""
        return ConfigError(message, file=self.file, line=self.line, key=self.key)


@dataclass(slots=True)
class Section:
    """A [section] or --name: its options in order. is_global: it sets defaults for the sections after it."""

    name: str
    is_global: bool
    file: str
    line: int
    options: list[RawOption] = field(default_factory=list)
    on_command_line: bool = False


@dataclass(slots=True)
class Source:
    """All sections of one job file, or those of the command line."""

    file: str
    sections: list[Section]
    on_command_line: bool = False


def is_global_name(name: str) -> bool:
    """Every name that starts so is a global section for fio."""
    return name.startswith("global")


def substitute(text: str, env: Mapping[str, str], machine: Mapping[str, int]) -> tuple[str, str]:
    """Replace ${VAR} and $pagesize $mb_memory $ncpus in `key=value`, and compute the value if a keyword was there.

    Returns the new text and a remark ("" if nothing depends on this machine). machine: keyword -> number.
    """
    text = _VARIABLE.sub(lambda match: env.get(match.group(1), ""), text)
    if len(text) > ENVIRONMENT_MAX:
        raise ConfigError(f"an option of {len(text)} characters is too long")
    used = sorted(set(_KEYWORD.findall(text)))
    if not used:
        return text, ""
    text = _KEYWORD.sub(lambda match: str(machine[match.group(1)]), text)
    key, equals, value = text.partition("=")
    if equals and re.search(r"[+\-*/%^]", value):
        text = f"{key}={evaluate(value, lambda unit: None if unit else 1)}"
    return text, ", ".join(f"${name} of this machine is {machine[name]}" for name in used)


def raw_option(text: str, file: str, line: int, env: Mapping[str, str], machine: Mapping[str, int]) -> RawOption:
    """Make an option from `key=value` or `key`."""
    odd = ""
    if "$" in text:
        try:
            text, odd = substitute(text, env, machine)
        except ConfigError as error:
            key = text.partition("=")[0].strip()
            raise ConfigError(error.message, file=file, line=line, key=key) from None
    key, equals, value = text.partition("=")
    return RawOption(key.strip(" \t"), value if equals else None, file, line, odd)
