"""Values of a stack file: each reader takes a place and a value, and returns it checked or raises the error there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from blktwin.errors import ConfigError
from blktwin.lab.toml_file import Path_, Table, TomlFile
from blktwin.sim.devices import quantity
from blktwin.sim.hints import near

SIZE_MAX = (1 << 63) - 1
_SIZE = re.compile(r"([0-9]+)(?:\.([0-9]{1,9}))?\s*(?:([kmgtpe])(?:(i?)(b))?|b)?", re.IGNORECASE)
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")
SWITCH = {"on": True, "off": False}


@dataclass(slots=True)
class Place:
    """Where something was said."""

    toml: TomlFile
    where: Path_

    def error(self, message: str, key: str = "") -> ConfigError:
        """Return the error about this place, or about one of its keys."""
        return self.toml.error((*self.where, key) if key else self.where, message)

    def at(self, key: str) -> Place:
        """Return the place of a key."""
        return Place(self.toml, (*self.where, key))


Reader = Callable[[Place, object], object]


def read_size(place: Place, value: object) -> int:
    """Return bytes as losetup reads them: K, KiB, M, MiB ... are powers of 1024, KB, MB ... of 1000."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        size = size_of(place, value)
    else:
        raise place.error(f'{value!r} is not a size such as 4096, "1MiB" or "4g"')
    if not 0 <= size <= SIZE_MAX:
        raise place.error(f"{value} is out of range: 0 to {SIZE_MAX} bytes")
    return size


def size_of(place: Place, text: str) -> int:
    """Return the bytes that a text stands for."""
    if _HEX.fullmatch(text.strip()) and len(text) < 32:
        return int(text, 16)
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(text) > 64:
        raise place.error(f'{text!r} is not a size such as 4096, "1MiB" or "4g" (KB, MB are powers of 1000)')
    whole, part, unit, binary, byte = match.groups()
    base = 1000 if byte and not binary else 1024
    factor = int(base ** " kmgtpe".index((unit or " ").lower()))
    return int(whole) * factor + (int(part) * factor // 10 ** len(part) if part else 0)


def read_flag(place: Place, value: object) -> bool:
    """Return true or false; "on" and "off" are losetup's."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in SWITCH:
        return SWITCH[value]
    raise place.error(f"{value!r} is neither true nor false")


def read_text(place: Place, value: object) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise place.error(f"{value!r} is not a text")
    if not value.isprintable():
        raise place.error("holds a character that cannot be printed")
    return value


def read_texts(place: Place, value: object) -> list[str]:
    """Return a list of texts; one alone is a list of one."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise place.error(f'{value!r} is not a list of texts such as ["a", "b"]')
    return [read_text(place, item) for item in items]


def read_time_ns(place: Place, value: object) -> int:
    """Return the ns of "100us", "1.5ms"."""
    try:
        if isinstance(value, str):
            return quantity.time_ns(value)
        if value == 0 and not isinstance(value, bool):
            return 0
    except ConfigError as error:
        raise place.error(error.message) from None
    raise place.error(f'{value!r} is not a time such as "100us" or "1.5ms"')


def read_number(place: Place, value: object) -> float:
    """Return a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise place.error(f"{value!r} is not a number from 0 on")
    return float(value)


def count_reader(low: int, high: int) -> Reader:
    """Return a reader of whole numbers from low to high."""

    def read(place: Place, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            raise place.error(f"{value!r} is not a whole number")
        if not low <= value <= high:
            raise place.error(f"{value} is out of range: {low} to {high}")
        return value

    return read


def choice_reader(what: str, names: Iterable[str]) -> Reader:
    """Return a reader of one of some names."""
    known = list(names)

    def read(place: Place, value: object) -> object:
        if not isinstance(value, str) or value not in known:
            hint = near(value, known) if isinstance(value, str) else ""
            raise place.error(f"no {what} {value!r}{hint or '; there are ' + ', '.join(known)}")
        return value

    return read


def as_table(place: Place, value: object, example: str) -> Table:
    """Return a table; example: how one looks."""
    if not isinstance(value, dict):
        raise place.error(f"must be a table such as {example}")
    return value


def as_tables(place: Place, value: object) -> list[tuple[Place, Table]]:
    """Return the tables of an array such as [[hog]], with their places."""
    name = place.where[-1]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise place.error(f"must be tables, each begun by [[{name}]]")
    return [(place.at(str(index)), one) for index, one in enumerate(value)]


def read_keys(place: Place, table: Table, readers: dict[str, Reader]) -> dict[str, object]:
    """Return a table's values, each read by the reader of its key."""
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in readers:
            hint = near(key, readers) or f"; there are {', '.join(readers)}"
            raise place.error(f"no such key{hint}", key)
        values[key] = readers[key](place.at(key), value)
    return values


def place_text_of(place: Place) -> str:
    """Return file and line, as messages name them."""
    line = place.toml.line_of(place.where)
    return f"{place.toml.file}:{line}" if line else place.toml.file
