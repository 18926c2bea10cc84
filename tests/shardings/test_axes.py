"""Replica groups by the names of the user's mesh axes."""

import pytest

from jaxscale_magic.cost import Collective
from jaxscale_magic.shardings.axes import axes_of_groups, with_axes

MESH = {"data": 4, "model": 2}


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        ([[0, 1], [2, 3], [4, 5], [6, 7]], ("model",)),
        ([[0, 2, 4, 6], [1, 3, 5, 7]], ("data",)),
        ([list(range(8))], ("data", "model")),
        ([[0], [1]], ()),
        ([[0, 2], [4, 6]], ("data",)),  # half of an axis
        ([(0, 1), (1, 0), (2, 3)], ("model",)),  # a permute's pairs
        ([(0, 2), (2, 4), (4, 6), (6, 0)], ("data",)),
        ([[0, 9]], ()),  # no device of this mesh
        ([], ()),
    ],
)
def test_axes(groups, axes):
    assert axes_of_groups(groups, MESH) == axes


def test_axes_are_filled_in():
    gather = Collective(kind="all-gather", dtype="bf16", bytes=8, count=1, groups=((0, 1), (2, 3)))
    assert with_axes([gather], {"x": 2, "y": 2})[0].mesh_axes == ("y",)
