"""Collectives on wires, against the worked figures of "How to Scale Your Model" and counts by hand."""

import itertools

import pytest

import jaxscale_magic as jm
from jaxscale_magic.chips.network import Nodes, Ring, collective_time, rings_of, torus, wraps
from jaxscale_magic.errors import ChipError


def along(axes, shape):
    """Replica groups over some axes of a row-major mesh of `shape`, the last axis fastest."""
    others = [d for d in range(len(shape)) if d not in axes]
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]

    def offsets(dims):
        return [
            sum(k * strides[d] for k, d in zip(place, dims, strict=True))
            for place in itertools.product(*(range(shape[d]) for d in dims))
        ]

    return [[start + step for step in offsets(axes)] for start in offsets(others)]


@pytest.mark.parametrize(
    ("chip", "shape", "closed"),
    [
        ("v5e", (16, 16), (True, True)),
        ("v5e", (8, 16), (False, True)),
        ("v5e", (4, 4), (False, False)),
        ("v6e", (16, 8), (True, False)),
        ("v5p", (4, 4, 4), (True, True, True)),
        ("v5p", (8, 16, 16), (True, True, True)),
        ("v5p", (2, 2, 4), (False, False, False)),
        ("v4", (4, 4, 8), (True, True, True)),
        ("v3", (32, 32), (True, True)),
        ("v3", (4, 4), (False, False)),
    ],
)
def test_which_axes_close(chip, shape, closed):
    assert wraps(jm.chip(chip), shape) == closed


@pytest.mark.parametrize(
    ("shape", "group", "rings"),
    [
        ((4, 4, 4), range(64), [(0, 4, True, 1), (1, 4, True, 1), (2, 4, True, 1)]),
        ((4, 4, 4), range(4), [(2, 4, True, 1)]),
        ((4, 4, 4), [0, 1], [(2, 2, False, 1)]),
        ((4, 4, 4), [0, 2], [(2, 2, True, 2)]),  # two links apart both ways, shared with the group 1, 3
        ((2, 2, 4), [0, 2], [(2, 2, False, 2)]),
        ((4, 4, 4), range(0, 64, 16), [(0, 4, True, 1)]),
        ((4, 4, 8), range(0, 8, 2), [(2, 4, True, 2)]),  # closes, every link carries two groups
        ((4, 4, 4), [0, 1, 4, 5], [(1, 2, False, 1), (2, 2, False, 1)]),
    ],
)
def test_where_a_group_lies(shape, group, rings):
    # v5p: one device a chip.
    found = rings_of(list(group), torus(jm.chip("v5p"), shape))
    assert [(r.axis, r.length, r.closed, r.stride) for r in found] == rings


def test_a_ring_of_two_is_a_line():
    assert Ring(axis=0, length=2, closed=False).hops == 1
    assert not rings_of([0, 1], torus(jm.chip("v5p"), (4, 4, 4)))[0].closed


MB = 1e6
V4, V5E, V5P = (4, 4, 4), (16, 16), (16, 16, 16)
#: (chip, shape, kind, axes, payload, exact, seconds, how it was worked out)
TORUS = [
    # bf16 [1024, 4096] on a v4 4x4x4; a closed axis gathers at 9e10 B/s.
    ("v4", V4, "all-gather", (0,), 2 * 1024 * 1024, False, 23.3e-6, "2 BD/4 / 9e10"),
    ("v4", V4, "all-gather", (0, 2), 2 * 1024 * 1024, False, 11.65e-6, "an idle axis helps: 2 BD/4 / 1.8e11"),
    ("v4", V4, "all-gather", (0, 1, 2), 2 * 1024 * 4096, False, 31.07e-6, "2 BD / 2.7e11"),
    ("v4", V4, "all-gather", (0,), 2 * 1024 * 1024, True, 23.3e-6 * 3 / 4, "3 of 4 shards come in"),
    ("v4", V4, "all-gather", (0,), 256, True, 2e-6, "latency: 2 hops of 1 us"),
    ("v5e", V5E, "all-gather", (0,), 90 * MB, True, 1e-3 * 15 / 16, "V 15/16 / 9e10"),
    ("v5e", V5E, "reduce-scatter", (0,), 90 * MB, True, 1e-3 * 15 / 16, "as the gather"),
    ("v5e", V5E, "all-reduce", (0,), 90 * MB, True, 2e-3 * 15 / 16, "scatter and gather"),
    ("v5e", V5E, "all-gather", (0, 1), 90 * MB, True, 0.5e-3 * 255 / 256, "two rings take in 255/256"),
    # Two chips exchange halves of V both ways, twice: V / 4.5e10.
    ("v5e", (2, 1), "all-reduce", (0,), 45 * MB, True, 1e-3, "2 V/2 / 4.5e10"),
    # A line of four: the end chip takes 3/4 V in over one link.
    ("v5e", (4, 4), "all-gather", (0,), 45 * MB, True, 0.75e-3, "3/4 V / 4.5e10"),
    ("v5e", (2, 2), "all-gather", (0, 1), 2 * 128 * 8192, True, 17.476e-6, "3/4 of 2 BD over two links"),
    # All-to-all of V = X payload: a quarter of the gather on a ring.
    ("v5e", V5E, "all-to-all", (0,), 90 * MB / 16, True, 0.25e-3, "V / (4 x 9e10)"),
    ("v4", V4, "all-to-all", (0, 1, 2), 90 * MB / 64, True, 1e-3 / 64, "V 4 / (4 x 64 x 9e10)"),
    ("v5e", (4, 4), "all-to-all", (0,), 45 * MB / 4, True, 0.25e-3, "a line: V/4 through the middle link"),
]


@pytest.mark.parametrize(("chip", "shape", "kind", "axes", "payload", "exact", "seconds", "how"), TORUS)
def test_collectives_on_a_torus(chip, shape, kind, axes, payload, exact, seconds, how):
    record = jm.chip(chip)
    network = torus(record, shape)
    each = record.devices_per_chip
    groups = [[device * each for device in group] for group in along(axes, shape)]
    got = collective_time(kind, payload, groups, network, exact=exact)
    assert got.seconds == pytest.approx(seconds, rel=1e-3), how
    assert got.medium == "ICI"


def test_an_all_to_all_costs_what_its_busiest_link_carries():
    # Counted link by link: every pair's message takes the shorter way, ties half each way.
    for length in (3, 4, 5, 8):
        links = [0.0] * length  # clockwise; the other way is alike
        for a, b in itertools.permutations(range(length), 2):
            ahead = (b - a) % length
            share = 1.0 if 2 * ahead < length else 0.5 if 2 * ahead == length else 0.0
            for k in range(ahead):
                links[(a + k) % length] += share
        network = torus(jm.chip("v3"), (32, length), coords=[(0, k) for k in range(length)])
        closed = network.__class__(
            chip=network.chip, shape=(1, length), wraps=(True, True), coords=network.coords, slices=network.slices
        )
        payload = 1e9 * length  # one message of 1 GB for each
        got = collective_time("all-to-all", payload, [range(length)], closed)
        assert got.seconds == pytest.approx(max(links) * 1e9 / 1e11)


def test_a_permute_goes_the_shorter_way_by_every_port():
    # bf16 [8, 128, 8192] from corner to corner of a v5e 4x4: 6 hops of 1 us, two ports.
    got = collective_time("collective-permute", 2 * 8 * 128 * 8192, [(0, 15)], torus(jm.chip("v5e"), (4, 4)))
    assert got.seconds == pytest.approx(186.4e-6 + 6e-6, rel=1e-3)
    # A shift on a closed ring is one hop for all, the last one through the wraparound link.
    ring = [(k, (k + 1) % 16) for k in range(16)]
    got = collective_time("collective-permute", 45 * MB, ring, torus(jm.chip("v5e"), (1, 16)))
    assert got.seconds == pytest.approx(1e-3 + 1e-6)


def test_slices_are_joined_by_the_data_center_network():
    # Two v5p slices of 64 chips reduce gradients of V bytes: 2 x V/2 over 64 x 6.25e9 B/s.
    network = torus(jm.chip("v5p"), (4, 4, 4), slices=2)
    groups = [[k, k + 64] for k in range(64)]
    got = collective_time("all-reduce", 1e9 / 64, groups, network)
    assert (got.medium, got.seconds) == ("DCN", pytest.approx(2 * 0.5e9 / (64 * 6.25e9)))
    # All 128 at once: inside a slice six links take in 63/64 of V, twice, and that takes longer.
    everyone = collective_time("all-reduce", 1e9, [range(128)], network)
    assert (everyone.medium, everyone.seconds) == ("ICI", pytest.approx(2 * 63 / 64 * 1e9 / (6 * 9e10)))


GPU = [
    ("h100", 8, 1, "all-gather", range(8), 2 * 4096 * 65536, True, 1.044e-3, "V 7/8 / 450e9"),
    ("h100", 8, 1, "all-gather", range(8), 2 * 4096 * 65536, False, 1.193e-3, "V / 450e9"),
    ("h100", 8, 1, "all-gather", range(8), 2 * 1024 * 16384, True, 65.24e-6, "V 7/8 / 450e9"),
    ("h100", 8, 1, "all-reduce", range(8), 45 * MB, True, 2 * 7 / 8 * 1e-4, "twice that"),
    ("h100", 8, 1, "all-to-all", range(8), 45 * MB, True, 7 / 8 * 1e-4, "V (N-1)/(W N^2), V = 8 x 45 MB"),
    ("h100", 8, 32, "all-gather", range(256), 400 * MB, True, 1e-3 * 31 / 32, "a leaf: 413e9 B/s"),
    ("h100", 8, 2, "all-gather", range(16), 450 * MB, True, 1e-3 * 7 / 8, "two nodes: 7V/8/450e9 beats V/2/400e9"),
    # Sharded on eight inside: eight groups share the way out of every node.
    ("h100", 8, 4, "all-gather", range(0, 32, 8), 50 * MB, True, 1e-3 * 3 / 4, "V 3/4 / (400e9/8)"),
    ("h100", 8, 2, "all-to-all", range(16), 10 * MB, True, 1e-4, "8 x 10 MB/2 out of a node at 400e9"),
    ("gb200", 72, 1, "all-gather", range(72), 900 * MB, False, 1e-3, "V / 900e9"),
]


@pytest.mark.parametrize(("chip", "size", "count", "kind", "group", "payload", "exact", "seconds", "how"), GPU)
def test_collectives_on_gpus(chip, size, count, kind, group, payload, exact, seconds, how):
    network = Nodes(chip=jm.chip(chip), size=size, count=count)
    got = collective_time(kind, payload, [list(group)], network, exact=exact)
    assert got.seconds == pytest.approx(seconds, rel=1e-3), how


def test_switches_that_add_send_every_byte_once():
    network = Nodes(chip=jm.chip("h100"), size=8, count=1, reducing=True)
    assert collective_time("all-reduce", 450 * MB, [range(8)], network).seconds == pytest.approx(1e-3)


@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"])
def test_a_group_of_one_sends_nothing(kind):
    assert collective_time(kind, 1e9, [[0], [1]], torus(jm.chip("v5e"), (2, 2))).seconds == 0


def test_what_is_not_known_is_absent_with_a_reason():
    nodes = Nodes(chip=jm.chip("a100"), size=8, count=2)
    got = collective_time("all-gather", 1e9, [range(16)], nodes)
    assert got.seconds is None
    assert "between nodes" in got.reason
    inside = collective_time("all-gather", 1e9, [[0, 1]], torus(jm.chip("v4"), (4, 4, 4)))
    assert inside.seconds is None
    assert "devices of one chip" in inside.reason
    with pytest.raises(ChipError, match="no formula"):
        collective_time("all-sing", 1e9, [[0, 1]], nodes)


def test_the_slowest_group_counts():
    network = torus(jm.chip("v5e"), (4, 4))
    near, far = [[0, 1]], [[0, 3]]
    both = collective_time("all-gather", 1e9, near + far, network)
    assert both == collective_time("all-gather", 1e9, far, network)
    assert both.seconds > collective_time("all-gather", 1e9, near, network).seconds


def test_a_group_that_is_no_box_says_so():
    got = collective_time("all-gather", 1e9, [[0, 5]], torus(jm.chip("v5e"), (4, 4)))
    assert "no box" in got.reason
