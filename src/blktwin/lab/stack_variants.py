"""[[variant]] of a stack file: dotted overrides, laid over the tables before anything is read."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from blktwin.lab.toml_file import Path_, Table, TomlFile
from blktwin.lab.toml_values import Place, as_table, as_tables, read_text
from blktwin.sim.hints import near

KEYS = ("name", "set")
NO_PLACE = 'is not a place such as loop.loop0.policy or device."/dev/sda".scheduler'
NAMED = ("file", "loop", "mount", "cgroup")
"""Sections whose tables must be there before a variant can change a key in one."""


@dataclass(slots=True)
class Variant:
    """One [[variant]]: its name, and values by the dotted place that they go to."""

    name: str
    changes: Table
    at: Place


def read_variants(toml: TomlFile, tables: Table) -> list[Variant]:
    """Return all variants of a file, in order."""
    variants: list[Variant] = []
    for place, table in as_tables(Place(toml, ("variant",)), tables.get("variant", [])):
        for key in table:
            if key not in KEYS:
                hint = near(key, KEYS) or '; there are name and set = {"loop.loop0.policy" = "workqueue"}'
                raise place.error(f"no such key{hint}", key)
        if "name" not in table:
            raise place.error('needs name = "..."')
        name = read_text(place.at("name"), table["name"]).strip()
        if any(name == other.name for other in variants):
            raise place.error(f"{name} is the name of another variant", "name")
        example = '{"loop.loop0.policy" = "workqueue"}'
        changes = as_table(place.at("set"), table.get("set", {}), example)
        variants.append(Variant(name, changes, place))
    return variants


def find_variant(variants: list[Variant], name: str, toml: TomlFile) -> Variant:
    """Return the variant of that name; ConfigError with the near match."""
    for variant in variants:
        if variant.name == name:
            return variant
    names = [variant.name for variant in variants]
    hint = near(name, names) or (f"; there are {', '.join(names)}" if names else "; it has none")
    raise toml.error((), f"no variant '{name}'{hint}")


def lay_over(toml: TomlFile, tables: Table, variant: Variant) -> tuple[TomlFile, Table]:
    """Return the tables with a variant's changes; what it changes stands in the line of its `set`."""
    changed = copy.deepcopy(tables)
    lines = dict(toml.lines)
    for dotted, value in variant.changes.items():
        place = variant.at.at("set").at(dotted)
        where = put(changed, dotted, copy.deepcopy(value), place)
        line = toml.line_of(place.where)
        text = ".".join(where)
        for known in [known for known in lines if known == text or known.startswith(text + ".")]:
            del lines[known]
        for length in range(1, len(where) + 1):
            lines.setdefault(".".join(where[:length]), line)
    return TomlFile(toml.file, lines), changed


def put(tables: Table, dotted: str, value: object, place: Place) -> Path_:
    """Write value at a dotted place, and return the place's parts."""
    if not dotted or dotted.endswith("."):
        raise place.error(NO_PLACE)
    where: list[str] = []
    table = tables
    rest = dotted
    while True:
        part, rest = next_part(table, rest, place)
        where.append(part)
        if not rest:
            table[part] = value
            return tuple(where)
        inner = table.get(part)
        if inner is None:
            if len(where) == 2 and where[0] in NAMED:
                hint = near(part, table) or (f"; there are {', '.join(table)}" if table else "; there is none")
                raise place.error(f"there is no [{where[0]}.{part}]{hint}")
            inner = table[part] = {}
        if not isinstance(inner, dict):
            kind = "an array: give all of it" if isinstance(inner, list) else "a value, and no table"
            raise place.error(f"{'.'.join(where)} is {kind}")
        table = inner


def next_part(table: Table, text: str, place: Place) -> tuple[str, str]:
    """Split the first part off a dotted place: what the table has, what is quoted, or what goes up to the dot."""
    known = [key for key in table if text == key or text.startswith(key + ".")]
    if known:
        part = max(known, key=len)
        return part, text[len(part) + 1 :]
    if text[0] in "\"'":
        end = text.find(text[0], 1)
        if end > 0 and text[end + 1 : end + 2] in ("", "."):
            return text[1:end], text[end + 2 :]
    part, _, rest = text.partition(".")
    if not part:
        raise place.error(NO_PLACE)
    return part, rest
