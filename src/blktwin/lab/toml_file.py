"""A TOML file as the command line takes it: its tables, the line of everything in it, and errors that name both."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

from blktwin.errors import ConfigError

FILE_BYTES_MAX = 16 << 20
DEPTH_MAX = 50

Path_ = tuple[str, ...]
"""Where a value stands: ("cgroup", "/a", "io.bfq.weight"), or ("at", "0", "time")."""
Table = dict[str, object]

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+')
_KEY = re.compile(rf"\s*((?:{_WORD.pattern})(?:\s*\.\s*(?:{_WORD.pattern}))*)\s*=")
_HEADER = re.compile(rf"\s*(\[\[?)\s*((?:{_WORD.pattern})(?:\s*\.\s*(?:{_WORD.pattern}))*)\s*\]")
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(slots=True)
class TomlFile:
    """Where everything stands in a file."""

    file: str
    lines: dict[str, int] = field(default_factory=dict)
    """Numbers of the lines, by the dotted place."""

    def line_of(self, where: Path_) -> int:
        """Return the line of a place, or of what it is in; 0 if that is nowhere by itself."""
        for length in range(len(where), 0, -1):
            line = self.lines.get(".".join(where[:length]))
            if line:
                return line
        return 0

    def error(self, where: Path_, message: str) -> ConfigError:
        """Return the error about a place."""
        return ConfigError(message, file=self.file, line=self.line_of(where), key=place_text(where))


def place_text(where: Path_) -> str:
    """Return a place as one would write it; tables of [[at]] and the like are numbered from 1."""
    parts = [part if _PLAIN.fullmatch(part) else f'"{part}"' for part in where]
    if len(where) > 1 and where[1].isdigit():
        parts[:2] = [f"{parts[0]}[{int(where[1]) + 1}]"]
    return ".".join(parts)


def read_text(path: str, what: str) -> str:
    """Return a file's text; what: of which FILE_BYTES_MAX are too many."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"more than {FILE_BYTES_MAX >> 20} MiB of {what}", file=path)
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(error.strerror or "cannot be read", file=path) from None
    except UnicodeDecodeError:
        raise ConfigError("is not text in UTF-8", file=path) from None


def parse_tables(text: str, file: str) -> Table:
    """Return the tables of TOML text; ConfigError names file and line of a mistake."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found.group(1) or len(text.splitlines())) if found else 0
        raise ConfigError(f"not TOML: {_AT_LINE.sub('', str(error))}", file=file, line=line) from None
    except RecursionError:
        raise ConfigError("nested too deep", file=file) from None
    except ValueError:
        raise ConfigError("holds a number of thousands of digits", file=file) from None
    if is_deeper(tables, DEPTH_MAX):
        raise ConfigError("nested too deep", file=file)
    return tables


def is_deeper(tables: Table, limit: int) -> bool:
    """Say whether tables or lists stand in one another more than limit times."""
    level: list[object] = [tables]
    for _ in range(limit):
        inner: list[object] = []
        for value in level:
            found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            inner += [one for one in found if isinstance(one, dict | list)]
        if not inner:
            return False
        level = inner
    return True


def find_lines(text: str) -> dict[str, int]:
    """Return the first line of every table and key, by its dotted place; tables of [[at]] are numbered from 0."""
    lines: dict[str, int] = {}
    header: list[str] = []
    arrays: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _HEADER.match(line)
        if match:
            header = words(match.group(2))
            name = header[0]
            if match.group(1) == "[[":
                arrays[name] = arrays.get(name, -1) + 1
            if name in arrays:
                header.insert(1, str(arrays[name]))
            add_line(lines, header, number)
            continue
        match = _KEY.match(line)
        if match:
            add_line(lines, header + words(match.group(1)), number)
    return lines


def add_line(lines: dict[str, int], parts: list[str], number: int) -> None:
    """Note where a place begins, and the places that it is in."""
    for length in range(1, len(parts) + 1):
        lines.setdefault(".".join(parts[:length]), number)


def words(dotted: str) -> list[str]:
    """Split a dotted key."""
    return [word.strip("\"'") for word in _WORD.findall(dotted)]
