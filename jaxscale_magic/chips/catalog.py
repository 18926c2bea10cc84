"""Finding a chip by name, alias or JAX device kind, and reading chips from TOML: shipped ones or a user's.

What a record holds is in `record.py`, the figures are in `tpu.toml` and `gpu.toml`, the host is in `host.py`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jaxscale_magic.chips.record import DTYPE_FAMILY, PRECISIONS, Chip, Figure
from jaxscale_magic.errors import ChipError, nearest

KINDS = ("tpu", "gpu", "cpu")
#: Names of the machine that is here; its figures are measured, not looked up.
HOST_NAMES = ("host", "cpu")
#: Words in a GPU's device kind that mean another product, or a part of one, with lower rates.
OTHER_PRODUCTS = ("mig", "nvl", "pcie")
#: What may stand in `matrix_flops` and `runs_as`: XLA's short names, f32 also with a precision.
DTYPES = {"bf16", "f16", "f32", "tf32", "f64", *DTYPE_FAMILY, *DTYPE_FAMILY.values()}
DTYPES |= {f"f32:{precision}" for precision in PRECISIONS}

#: Lower-case name -> chip, and the sources described, of the files given to `load_chips`.
_loaded: dict[str, Chip] = {}
_loaded_sources: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Section:
    """One chip's section of a file; `own_source` is cited where a figure names none (None: it must)."""

    file: str
    chip: str
    sources: Mapping[str, str]
    own_source: str | None

    def refuse(self, key: str, reason: str) -> ChipError:
        return ChipError(f"{self.file}, [{self.chip}]{key and ', '}{key}: {reason}")

    def want(self, key: str, value: Any, right: bool, needed: str) -> Any:
        if not right:
            raise self.refuse(key, f"{needed} is needed, not {value!r}.")
        return value

    def only(self, key: str, given: Iterable[str], known: Iterable[str]) -> None:
        for name in sorted(set(given) - set(known)):
            close = nearest(name, known, limit=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise self.refuse(key, f"unknown key {name!r}; {meant}Known here: {', '.join(sorted(known))}.")

    def text(self, key: str, value: Any) -> Any:
        return self.want(key, value, isinstance(value, str) and value.strip() != "", "a text")

    def texts(self, key: str, value: Any) -> Any:
        self.want(key, value, isinstance(value, list), "a list of texts")
        return tuple(self.text(key, each) for each in value)

    def table(self, key: str, value: Any) -> Any:
        return self.want(key, value, isinstance(value, dict), "a table")

    def kind(self, key: str, value: Any) -> Any:
        return self.want(key, value, value in KINDS, f"one of {', '.join(KINDS)}")

    def count(self, key: str, value: Any) -> Any:
        return self.want(key, value, type(value) is int and value > 0, "a whole number of at least 1")

    def number(self, key: str, value: Any) -> float:
        right = type(value) in (int, float) and 0 < value <= sys.float_info.max
        return float(self.want(key, value, right, "a positive number, in SI units,"))

    def source(self, key: str, value: Any) -> str:
        """Descriptions for the keys of [sources]; a user's file may also cite in plain words."""
        cited = self.text(key, self.own_source if value is None else value)
        names = cited.split(", ")
        if self.own_source is None or set(names) <= set(self.sources):
            self.only(f"{key}.source", names, self.sources)
            return "; ".join(self.sources[name] for name in names)
        return str(cited)

    def figure(self, key: str, value: Any) -> Figure:
        entry = value if isinstance(value, dict) else {"value": value}
        self.only(key, entry, [field.name for field in fields(Figure)])
        sure = entry.get("confidence", "high")
        others = self.table(f"{key}.alternatives", entry.get("alternatives", {}))
        return Figure(
            value=self.number(key, entry.get("value")),
            source=self.source(key, entry.get("source")),
            note=self.text(f"{key}.note", entry["note"]) if "note" in entry else "",
            confidence=self.want(f"{key}.confidence", sure, sure in ("high", "low"), '"high" or "low"'),
            alternatives={name: self.number(f"{key}.alternatives.{name}", v) for name, v in others.items()},
        )

    def figures(self, key: str, value: Any) -> dict[str, Figure]:
        return {name: self.figure(f"{key}.{name}", each) for name, each in self.table(key, value).items()}

    def matrix_flops(self, key: str, value: Any) -> dict[str, Figure]:
        self.only(key, self.table(key, value), DTYPES)
        return self.figures(key, value)

    def runs_as(self, key: str, value: Any) -> dict[str, tuple[str, float]]:
        self.only(key, self.table(key, value), DTYPES)
        for name, pair in value.items():
            right = isinstance(pair, list) and len(pair) == 2
            self.want(f"{key}.{name}", pair, right, 'a pair such as ["bf16", 1]')
        where = f"{key}.%s"
        return {k: (self.text(where % k, unit), self.number(where % k, n)) for k, (unit, n) in value.items()}


#: Key of a chip's section -> what reads it into the field of that name.
_FIELDS: dict[str, Callable[[_Section, str, Any], Any]] = {
    "title": _Section.text,
    "kind": _Section.kind,
    "aliases": _Section.texts,
    "device_kinds": _Section.texts,
    "devices_per_chip": _Section.count,
    "matrix_flops": _Section.matrix_flops,
    **dict.fromkeys(("vector_flops", "hbm_bytes", "hbm_bandwidth"), _Section.figure),
    **dict.fromkeys(("cache_bytes", "cache_bandwidth"), _Section.figure),
    "runs_as": _Section.runs_as,
    "figures": _Section.figures,
    "facts": _Section.table,
}
#: Fields to which a section with a base adds entries; any other takes the place of the base's.
_MERGED = ("matrix_flops", "runs_as", "figures", "facts")


def _read(section: _Section, entry: Mapping[str, Any], base: Chip | None = None) -> Chip:
    section.only("", entry, (*_FIELDS, "base", "replaces"))
    given: dict[str, Any] = {"title": section.chip, "aliases": (), "device_kinds": ()}
    given |= {key: _FIELDS[key](section, key, value) for key, value in entry.items()}
    if base is None:
        for key in ("kind", "hbm_bandwidth", "matrix_flops"):
            if key not in given:
                raise section.refuse(key, "missing; give it, or name a base chip to take it from.")
        found = Chip(name=section.chip, **given)
    else:
        given |= {key: {**getattr(base, key), **given[key]} for key in _MERGED if key in given}
        found = replace(base, name=section.chip, **given)
    for dtype in found.runs_as:
        try:
            found.unit(dtype)
        except ChipError as error:
            raise section.refuse(f"runs_as.{dtype}", f"it leads to no figure: {error}") from None
    return found


@lru_cache(maxsize=1)
def _shipped() -> tuple[dict[str, Chip], dict[str, str]]:
    """This package's chips by name, and the sources they cite by key."""
    found: dict[str, Chip] = {}
    sources: dict[str, str] = {}
    for file in ("tpu.toml", "gpu.toml"):
        entries = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
        sources |= entries["sources"]
        for name, entry in entries.items():
            if name != "sources":
                found[name] = _read(_Section(file, name, entries["sources"], None), entry)
    return found, sources


def _spellings(found: Chip) -> list[str]:
    return [text.lower() for text in (found.name, *found.aliases, *found.device_kinds)]


def _find(name: str, known: Mapping[str, Chip]) -> Chip:
    wanted = str(name).strip().lower()
    if wanted in HOST_NAMES:
        from jaxscale_magic.chips.host import host_chip

        return host_chip()
    index = {text: each for each in known.values() for text in _spellings(each)}  # the later one wins
    if wanted in index:
        return index[wanted]
    close = ", ".join(dict.fromkeys(index[text].name for text in nearest(wanted, index)))
    raise ChipError(
        f"no chip is called {name!r}; {close and 'nearest: '}{close}{close and '; '}"
        f"known: {', '.join(each.name for each in known.values())}, host. "
        'To add one, describe it in a TOML file and call load_chips("my_chips.toml").'
    )


def _known() -> dict[str, Chip]:
    return _shipped()[0] | _loaded


def chips() -> tuple[Chip, ...]:
    """Every chip known: those shipped, then those of `load_chips`; not the host, which is measured."""
    return tuple(_known().values())


def chip(name: str | Chip, *, edition: str | None = None) -> Chip:
    """The chip of that name, alias or JAX device kind, in upper or lower case; "host" is the machine here.

    Args:
        name: such as "v5e", "TPU v5 lite", "h100"; a `Chip` is returned as it is.
        edition: key of a source ("S", "GC", "JAX", ...) whose value is taken for every figure that has one.

    Raises:
        ChipError: no chip is called that, or no source; the message names the nearest.
    """
    found = name if isinstance(name, Chip) else _find(name, _known())
    if edition is None:
        return found
    sources = _shipped()[1] | _loaded_sources
    offered = {key for figure in found.all_figures().values() for key in figure.alternatives}
    if edition not in offered | set(sources):
        raise ChipError(
            f"no edition {edition!r} is known; {found.title} has other figures by: "
            f"{', '.join(sorted(offered)) or 'none'}; all editions: {', '.join(sorted(sources))}."
        )
    return found.in_edition(edition, sources.get(edition, edition))


def chip_for_device_kind(kind: str) -> Chip | None:
    """The chip that JAX calls `kind` (`jax.Device.device_kind`), or None.

    A GPU is also known by how its kind begins ("NVIDIA B200 180GB"), unless the rest names another product.
    """
    wanted = kind.strip().lower()
    known = {text.lower(): each for each in chips() for text in each.device_kinds}
    if wanted in known:
        return known[wanted]
    for text, each in known.items():
        rest = wanted.removeprefix(text).replace("-", " ")
        if each.kind == "gpu" and rest != wanted and rest.startswith(" "):
            return None if set(rest.split()) & set(OTHER_PRODUCTS) else each
    return None


def load_chips(path: str | Path) -> tuple[Chip, ...]:
    """Make the chips of a TOML file known, and return them. Loading a file again takes its new values.

    A section `[name]` has the form of this package's own files, in SI units; a figure may be a plain number.
    `base = "v5e"` takes everything not given from that chip; `replaces = true` lets the section take a name,
    alias or device kind that another chip has. Nothing is made known where anything is refused.

    Raises:
        ChipError: the file cannot be read, or a value in it is wrong; the message names file, chip and key.
    """
    file = Path(path).name
    if "\0" in str(path):
        raise ChipError(f"{str(path)!r} is no path of a file: it holds a NUL character.")
    try:
        entries = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ChipError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ChipError(f"{file} is not valid TOML: {error}.") from None
    own = f"user file {file}"
    outer = _Section(file, "sources", {}, own)
    described = {k: outer.text(k, v) for k, v in outer.table("", entries.pop("sources", {})).items()}
    sources = _shipped()[1] | described
    new: dict[str, Chip] = {}
    for name, entry in entries.items():
        section = _Section(file, name, sources, own)
        new[name.lower()] = _load_section(section, dict(section.table("", entry)), _known() | new)
    _loaded.update(new)
    _loaded_sources.update(described)
    return tuple(new.values())


def _load_section(section: _Section, entry: dict[str, Any], known: dict[str, Chip]) -> Chip:
    name = section.chip.lower()
    replaces = entry.pop("replaces", False)
    section.want("replaces", replaces, isinstance(replaces, bool), "true or false")
    base = None
    if "base" in entry:
        wanted = section.text("base", entry.pop("base"))
        own_name = wanted.lower() == name  # a section that replaces its base starts from the one shipped
        try:
            base = _find(wanted, _shipped()[0] if own_name else known)
        except ChipError as error:
            raise section.refuse("base", str(error)) from None
    if replaces and name in known:
        entry = {"aliases": list(known[name].aliases), "device_kinds": list(known[name].device_kinds)} | entry
    found = _read(section, entry, base)
    others = [each for key, each in known.items() if key != name or name in _shipped()[0]]
    for text in _spellings(found):
        owner = next((each for each in others if text in _spellings(each)), None)
        if text in HOST_NAMES or (owner and not replaces):
            meaning = owner.title if owner else "the machine that is here"
            raise section.refuse(
                "", f"{text!r} means {meaning}; choose another, or write `replaces = true` to replace a chip."
            )
    return found
