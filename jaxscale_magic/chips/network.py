"""How the devices of a slice or a node are wired, and what one collective costs on those wires: pure arithmetic.

Figures come from the chip's record. Which collectives a program has is read in `hlo/collectives.py`; nothing here
knows of modules or meshes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxscale_magic.chips.record import Chip
from jaxscale_magic.errors import ChipError

Group = Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """The stretch of one physical axis that a replica group lies on.

    Attributes:
        axis: number of the physical axis.
        length: members of the group along it.
        closed: whether wraparound links make it a ring.
        stride: links from one member to the next; that many groups share every link.
    """

    axis: int
    length: int
    closed: bool
    stride: int = 1

    @property
    def hops(self) -> int:
        """Links that the farthest message crosses."""
        return (self.length // 2 if self.closed else self.length - 1) * self.stride

    @property
    def ways(self) -> float:
        """Links' worth of bandwidth into one chip: two on a closed ring, one at the end of a line."""
        return (2.0 if self.closed else 1.0) / self.stride


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """What one collective costs on one network.

    Attributes:
        seconds: from first to last byte, the latency floor included; None where a figure is missing.
        medium: "ICI", "DCN", "NVLink", "scale-out", or "" where nothing is sent.
        rings: the physical axes used (TPU).
        latency: seconds of the hops alone.
        reason: why `seconds` is None, or what was assumed; may be empty.
    """

    seconds: float | None
    medium: str = ""
    rings: tuple[Ring, ...] = ()
    latency: float = 0.0
    reason: str = ""

    @property
    def latency_bound(self) -> bool:
        """Whether the hops take longer than the bytes."""
        return self.seconds is not None and self.latency > 0 and self.seconds <= self.latency


@dataclass(frozen=True, kw_only=True, slots=True)
class Torus:
    """TPU slices: chips on a torus of ICI links, slices joined by the data-center network.

    Attributes:
        chip: whose figures hold.
        shape: chips along each physical axis of one slice.
        wraps: whether each axis closes.
        coords: device id -> place: one coordinate an axis.
        slices: device id -> slice number.
    """

    chip: Chip
    shape: tuple[int, ...]
    wraps: tuple[bool, ...]
    coords: tuple[tuple[int, ...], ...]
    slices: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """GPUs: nodes whose members reach one another at full NVLink bandwidth, joined by a scale-out network.

    Attributes:
        chip: whose figures hold.
        size: GPUs a node.
        count: nodes.
        reducing: whether the switches add on the way (SHARP): every byte of an all-reduce is then sent once.
    """

    chip: Chip
    size: int
    count: int
    reducing: bool = False


Network = Torus | Nodes


def torus(chip: Chip, shape: Sequence[int], *, slices: int = 1, coords: Sequence[Sequence[int]] | None = None) -> Torus:
    """The wiring of `slices` slices of a TPU.

    Args:
        chip: a TPU's record.
        shape: chips along each axis of one slice, such as (4, 4, 4).
        slices: how many such slices the data-center network joins.
        coords: the place of each device of one slice as its compiler lists them, a device's number on its chip
            left out; default: row-major, the last axis fastest, `chip.devices_per_chip` devices a place.
    """
    if coords is None:
        places = [tuple(_unraveled(k, shape)) for k in range(math.prod(shape))]
        coords = [place for place in places for _ in range(chip.devices_per_chip)]
    one = [tuple(place) for place in coords]
    return Torus(
        chip=chip,
        shape=tuple(shape),
        wraps=wraps(chip, shape),
        coords=tuple(one * slices),
        slices=tuple(k for k in range(slices) for _ in one),
    )


def _unraveled(number: int, shape: Sequence[int]) -> list[int]:
    place = []
    for length in reversed(shape):
        number, k = divmod(number, length)
        place.append(k)
    return place[::-1]


def wraps(chip: Chip, shape: Sequence[int]) -> tuple[bool, ...]:
    """Which axes of a slice close, by the rule that the chip's record names."""
    match chip.facts.get("wrap"):
        case "axis-of-16":
            return tuple(length == 16 for length in shape)
        case "cubes-of-4":
            return (all(length % 4 == 0 for length in shape),) * len(shape)
    pod = chip.facts.get("pod_shape")
    return (isinstance(pod, (list, tuple)) and tuple(pod) == tuple(shape),) * len(shape)


def rings_of(group: Group, network: Torus) -> tuple[Ring, ...]:
    """The stretches of physical axes that a group of one slice lies on, none for devices of one chip.

    A group that is no box of evenly spaced places is taken for the box around it.
    """
    found = []
    for axis, length in enumerate(network.shape):
        at = sorted({network.coords[device][axis] for device in group})
        if len(at) < 2:
            continue
        gaps = {b - a for a, b in itertools.pairwise(at)}
        stride = max(gaps)
        closed = network.wraps[axis] and len(gaps) == 1 and stride * len(at) == length and length > 2
        found.append(Ring(axis=axis, length=len(at), closed=closed, stride=stride))
    return tuple(found)


def collective_time(
    kind: str, payload: float, groups: Sequence[Group], network: Network, *, exact: bool = True
) -> Transfer:
    """Seconds of one execution of a collective, the slowest group counting.

    Args:
        kind: "all-gather", "all-reduce", "reduce-scatter", "all-to-all" or "collective-permute".
        payload: bytes per device as XLA reports them: the result of a gather, the operand of everything else.
        groups: device ids of each replica group; of a permute, its (source, target) pairs.
        network: how the devices are wired.
        exact: with the factor (X-1)/X; without it, closed rings cost what "How to Scale Your Model" says, which
            holds for large X.

    Raises:
        ChipError: an unknown kind.
    """
    formulas = _TORUS if isinstance(network, Torus) else _NODES
    if kind not in formulas:
        raise ChipError(f"no formula for the collective {kind!r}; known: {', '.join(formulas)}.")
    groups = [group for group in groups if len(set(group)) > 1]
    if not groups or not payload:
        return Transfer(seconds=0.0)
    if kind == "collective-permute":
        return _permute(payload, groups, network)
    price = _torus_group if isinstance(network, Torus) else _nodes_group
    alike: dict[object, Group] = {}
    for group in groups:
        alike.setdefault(_signature(group, network), group)
    each = [price(kind, payload, group, network, exact) for group in alike.values()]  # type: ignore[arg-type]
    return max(each, key=lambda t: math.inf if t.seconds is None else t.seconds)


def _signature(group: Group, network: Network) -> object:
    """What decides the price of a group."""
    if isinstance(network, Torus):
        slices = len({network.slices[device] for device in group})
        return slices, len(group), rings_of(_in_one_slice(group, network), network)
    return len(group), tuple(sorted(_by_node(group, network).values()))


def _in_one_slice(group: Group, network: Torus) -> list[int]:
    first = network.slices[group[0]]
    return [device for device in group if network.slices[device] == first]


# --- TPU: rings and lines of ICI links (chips' figures: one way, per link) ---


def _gather_share(rings: Sequence[Ring], members: int, exact: bool) -> float:
    """Seconds x (link bandwidth / V) of gathering V bytes: every chip takes in V (N-1)/N over all its links."""
    others = (members - 1) / members if exact or not all(ring.closed for ring in rings) else 1.0
    return others / sum(ring.ways for ring in rings)


def _exchange_share(rings: Sequence[Ring], members: int, exact: bool) -> float:
    """The same for an all-to-all of V bytes in all: the busiest directed link of the busiest axis.

    On a ring of X a byte for everyone crosses X/4 links on average, half of them each way: V X/(8 N) a link (odd
    X: X^2 - 1 for X^2); on a line the middle link carries floor(X/2) ceil(X/2)/X of V/N each way.
    """
    return max(
        (
            (ring.length**2 - (exact and ring.length % 2)) / (8 * ring.length)
            if ring.closed
            else (ring.length // 2) * -(-ring.length // 2) / ring.length
        )
        * ring.stride
        / members
        for ring in rings
    )


def _reduce_share(rings: Sequence[Ring], members: int, exact: bool) -> float:
    return 2 * _gather_share(rings, members, exact)


#: kind -> (share of V that the busiest link carries, V / payload for N members, times that the hops are crossed)
_TORUS: dict[str, tuple[Callable[[Sequence[Ring], int, bool], float], Callable[[int], float], int]] = {
    "all-gather": (_gather_share, lambda n: 1.0, 1),
    "reduce-scatter": (_gather_share, lambda n: 1.0, 1),
    "all-reduce": (_reduce_share, lambda n: 1.0, 2),
    "all-to-all": (_exchange_share, lambda n: float(n), 1),
    "collective-permute": (_gather_share, lambda n: 1.0, 1),
}


def _torus_group(kind: str, payload: float, group: Group, network: Torus, exact: bool) -> Transfer:
    figures = network.chip.figures
    share, volume, crossings = _TORUS[kind]
    near = _in_one_slice(group, network)
    rings = rings_of(near, network)
    slices = len({network.slices[device] for device in group})
    if slices > 1:
        return _across_slices(kind, payload, len(group), slices, rings, network, exact)
    if not rings:
        return Transfer(seconds=None, reason="no figure is known for the link between the devices of one chip")
    if "ici_link_bandwidth" not in figures:
        return Transfer(seconds=None, rings=rings, reason=f"no ICI bandwidth is known for {network.chip.title}")
    members = len({network.coords[device] for device in near})
    link = figures["ici_link_bandwidth"].value
    hop = figures["hop_latency"].value if "hop_latency" in figures else 0.0
    latency = crossings * hop * sum(ring.hops for ring in rings)
    box = math.prod(ring.length for ring in rings)
    assumed = "" if box == members else "the group is no box of the torus: the box around it is priced"
    seconds = volume(members) * payload * share(rings, members, exact) / link
    return Transfer(seconds=max(latency, seconds), medium="ICI", rings=rings, latency=latency, reason=assumed)


def _across_slices(
    kind: str, payload: float, members: int, slices: int, rings: tuple[Ring, ...], network: Torus, exact: bool
) -> Transfer:
    """ICI inside the slices and the data-center network between them work at once: the slower one counts.

    Every chip takes in its share of what the other slices hold over its own part of the network: V (S-1)/S over
    members/S chips; of an all-to-all, the part of its operand that is for other slices.
    """
    figures = network.chip.figures
    if "dcn_bandwidth" not in figures:
        reason = f"no bandwidth between slices is known for {network.chip.title}"
        return Transfer(seconds=None, medium="DCN", rings=rings, reason=reason)
    outside = payload * ((slices - 1) / slices if exact else 1.0)
    if kind != "all-to-all":
        outside *= slices / members
    far = (2 if kind == "all-reduce" else 1) * outside / figures["dcn_bandwidth"].value
    near = 0.0
    if rings and "ici_link_bandwidth" in figures:
        share, volume, _ = _TORUS[kind]
        inside = members // slices
        near = volume(inside) * payload * share(rings, inside, exact) / figures["ici_link_bandwidth"].value
    return Transfer(seconds=max(far, near), medium="DCN" if far >= near else "ICI", rings=rings)


def _permute(payload: float, pairs: Sequence[Group], network: Network) -> Transfer:
    """Every pair sends at once; the farthest counts. A message over n axes leaves by n links."""
    if isinstance(network, Nodes):
        crosses = any(source // network.size != target // network.size for source, target in pairs)
        return _nodes_permute(payload, crosses, network)
    figures = network.chip.figures
    if any(network.slices[source] != network.slices[target] for source, target in pairs):
        if "dcn_bandwidth" not in figures:
            return Transfer(seconds=None, medium="DCN", reason="no bandwidth between slices is known")
        return Transfer(seconds=payload / figures["dcn_bandwidth"].value, medium="DCN")
    if "ici_link_bandwidth" not in figures:
        return Transfer(seconds=None, reason=f"no ICI bandwidth is known for {network.chip.title}")
    link = figures["ici_link_bandwidth"].value
    hop = figures["hop_latency"].value if "hop_latency" in figures else 0.0
    worst = Transfer(seconds=0.0)
    for source, target in pairs:
        steps = [
            min(abs(a - b), length - abs(a - b) if wrapped else abs(a - b))
            for a, b, length, wrapped in zip(
                network.coords[source], network.coords[target], network.shape, network.wraps, strict=True
            )
        ]
        ways = sum(step > 0 for step in steps)
        if ways:
            # Everyone shifts alike, so a link on the way carries as many messages as the way has links.
            seconds = payload * max(steps) / ways / link if len(pairs) > 1 else payload / ways / link
            latency = sum(steps) * hop
            if seconds + latency > (worst.seconds or 0.0):
                worst = Transfer(seconds=seconds + latency, medium="ICI", latency=latency)
    return worst


# --- GPU: NVLink inside a node, the scale-out network between nodes ---


#: kind -> how often the bytes cross the wires
_NODES = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "all-to-all": 1, "collective-permute": 1}


def _by_node(group: Group, network: Nodes) -> dict[int, int]:
    members: dict[int, int] = {}
    for device in group:
        members[device // network.size] = members.get(device // network.size, 0) + 1
    return members


def _nodes_group(kind: str, payload: float, group: Group, network: Nodes, exact: bool) -> Transfer:
    """A tree: inside the node V (k-1)/(k W_gpu), between M nodes V (M-1)/(M W_node); the slower level counts.

    A group with k of a node's GPUs shares the node's way out with the groups of the others.
    """
    figures, size = network.chip.figures, len(group)
    members = _by_node(group, network)
    nodes, inside = len(members), max(members.values())
    if "nvlink_bandwidth" not in figures:
        return Transfer(seconds=None, reason=f"no NVLink bandwidth is known for {network.chip.title}")
    gpu = figures["nvlink_bandwidth"].value
    reducing = kind == "all-reduce" and network.reducing
    times = 1 if reducing else _NODES[kind]

    def part(n: int) -> float:
        return (n - 1) / n if exact and not reducing else 1.0

    near = times * payload * part(inside) / gpu if inside > 1 else 0.0
    if nodes == 1:
        return Transfer(seconds=near, medium="NVLink")
    if "scale_out_node_bandwidth" not in figures:
        reason = f"no bandwidth between nodes is known for {network.chip.title}"
        return Transfer(seconds=None, medium="scale-out", reason=reason)
    out = figures["scale_out_node_bandwidth"].value * inside / network.size
    if kind == "all-to-all":
        near, far = payload * (inside - 1) / size / gpu, inside * payload * (nodes - 1) / nodes / out
    else:
        far = times * payload * part(nodes) / out
    return Transfer(seconds=max(near, far), medium="scale-out" if far >= near else "NVLink")


def _nodes_permute(payload: float, crosses: bool, network: Nodes) -> Transfer:
    figures = network.chip.figures
    name = "scale_out_bandwidth" if crosses else "nvlink_bandwidth"
    if name not in figures:
        return Transfer(seconds=None, reason=f"{network.chip.title} has no figure {name}")
    return Transfer(seconds=payload / figures[name].value, medium="scale-out" if crosses else "NVLink")
