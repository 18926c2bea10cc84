"""Sharding plans as people write them: `#:` lines in a cell, mappings and sequences of `PartitionSpec`s.

What a plan's patterns mean for a given program and mesh is decided in `matching.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from jaxscale_magic.errors import CellError, JaxscaleError

#: How a dimension is written that is not sharded, that the compiler may shard, and any number of the former.
UNSHARDED, FREE, REST = "-", "?", "..."

_MARK = "#:"
_ARRAY = re.compile(r"[\s,]*(?P<path>[^\s\[\],]+)\[(?P<entries>[^\[\]]*)\]")
_ADVICE = "Write `#: name  x[data,-]  w[-,model]`: for each dimension a mesh axis, `a+b` for two, `-` for none."


@dataclass(frozen=True, slots=True)
class Rule:
    """How the arrays under one pattern are sharded.

    Attributes:
        pattern: an argument's name, a path below it or a glob over paths: "x", "params.w1", "params.*.w1".
        entries: one text a dimension: "data", "data+model", "-", "?", "...", or the book's "B_data".
        line: the cell's line that says so, or None.
    """

    pattern: str
    entries: tuple[str, ...]
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.pattern}[{','.join(self.entries)}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A named way to shard a program.

    Attributes:
        name: what the table calls it.
        inputs, outputs: rules for the arrays that go in and that come out; what no rule names is left to the
            compiler.
    """

    name: str
    inputs: tuple[Rule, ...] = ()
    outputs: tuple[Rule, ...] = field(default=())

    def __str__(self) -> str:
        written = "  ".join(map(str, self.inputs))
        return written + ("  -> " + "  ".join(map(str, self.outputs)) if self.outputs else "")


def plans_in_cell(lines: Sequence[str]) -> tuple[Plan, ...]:
    """The plans of a cell's `#:` lines, in order: "#: tp  x[-,-]  w[-,model] -> y[-,model]".

    Args:
        lines: the cell's text as the notebook counts it; `lines[0]` is line 1.

    Raises:
        CellError: a line that is no plan, or a name used twice; says the line and what to write instead.
    """
    found: dict[str, Plan] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip().startswith(_MARK):
            continue
        try:
            plan = _plan(line.strip().removeprefix(_MARK).strip(), number)
            if plan.name in found:
                raise JaxscaleError(f"there are two plans named {plan.name!r}. Give each a name of its own.")
        except JaxscaleError as error:
            raise CellError(str(error), line=number, text=line) from None
        found[plan.name] = plan
    return tuple(found.values())


def _plan(text: str, line: int) -> Plan:
    name, _, rest = text.partition(" ")
    if not name or "[" in name:
        raise JaxscaleError(f"a plan begins with its name. {_ADVICE}")
    inputs, arrow, outputs = rest.partition("->")
    return Plan(name=name, inputs=_rules(inputs, line), outputs=_rules(outputs, line) if arrow else ())


def _rules(text: str, line: int) -> tuple[Rule, ...]:
    rules, position = [], 0
    while text[position:].strip(" \t,"):
        found = _ARRAY.match(text, position)
        if found is None:
            raise JaxscaleError(f"`{text[position:].strip()}` is no array with its axes. {_ADVICE}")
        written = found["entries"].strip()
        entries = tuple(entry.strip() or UNSHARDED for entry in _split(written)) if written else ()
        rules.append(Rule(found["path"], entries, line))
        position = found.end()
    return tuple(rules)


def _split(entries: str) -> list[str]:
    """Split at commas outside braces: "B_{X,Y}, D" has two entries."""
    return re.split(r",(?![^{]*\})", entries)


def plan_from_specs(name: str, specs: Any, arguments: Sequence[str] = ()) -> Plan:
    """A plan given in Python.

    Args:
        name: what the table calls it.
        specs: a mapping of argument name, or glob over `name.path`, to a `PartitionSpec`, a `NamedSharding`, None
            (not sharded) or a pytree of these; or a sequence of them in the order of `arguments`.
        arguments: names of the program's arguments.

    Raises:
        JaxscaleError: something that is no spec, or more specs than arguments.
    """
    if isinstance(specs, Plan):
        return specs
    if isinstance(specs, (str, PartitionSpec, NamedSharding)) or not isinstance(specs, (Mapping, Sequence)):
        raise JaxscaleError(
            f"plan {name!r} is a {type(specs).__name__}; it must map names to PartitionSpecs, or list one for each "
            "argument."
        )
    if not isinstance(specs, Mapping):
        if len(specs) > len(arguments):
            raise JaxscaleError(f"plan {name!r} has {len(specs)} specs for {len(arguments)} arguments.")
        specs = dict(zip(arguments, specs, strict=False))
    return Plan(name=name, inputs=tuple(rule for path, spec in specs.items() for rule in _below(name, str(path), spec)))


def _below(plan: str, path: str, spec: Any) -> list[Rule]:
    """One rule for a spec, or one for each leaf of a pytree of specs."""
    if spec is None:
        return [Rule(path, (REST,))]
    if isinstance(spec, NamedSharding):
        spec = spec.spec
    if isinstance(spec, PartitionSpec):
        return [Rule(path, (*map(_entry, spec), REST))]
    if isinstance(spec, str):
        raise JaxscaleError(f"plan {plan!r}: {path} is {spec!r}; write PartitionSpec({spec!r}).")

    def is_spec(leaf: Any) -> bool:
        return leaf is None or isinstance(leaf, (PartitionSpec, NamedSharding))

    leaves = jax.tree_util.tree_leaves_with_path(spec, is_leaf=is_spec)
    if not leaves or not all(is_spec(leaf) for _, leaf in leaves):
        raise JaxscaleError(f"plan {plan!r}: {path} is a {type(spec).__name__}, which is no PartitionSpec.")
    return [rule for keys, leaf in leaves for rule in _below(plan, dotted(path + jax.tree_util.keystr(keys)), leaf)]


def _entry(axes: Any) -> str:
    if axes is None:
        return UNSHARDED
    if axes is PartitionSpec.UNCONSTRAINED:
        return FREE
    return axes if isinstance(axes, str) else "+".join(axes) or UNSHARDED


def dotted(label: str) -> str:
    """A label as plans write it: "params['layers'][0].w" is "params.layers.0.w"."""
    return re.sub(r"\[(?:'([^']*)'|\"([^\"]*)\"|([^\]]*))\]", lambda m: f".{m[1] or m[2] or m[3] or ''}", label)
