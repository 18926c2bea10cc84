"""Replica groups in every spelling that XLA prints, read back through XLA's own parser."""

import pytest

from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.jax_internals import text_to_module_bytes

TEXT = """
HloModule m, replica_count={count}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY e {{
  x = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(x), replica_groups={groups}, to_apply=add
}}
"""


def groups_of(text, count):
    cost, _ = count_module(read_module(text_to_module_bytes(TEXT.format(groups=text, count=count))))
    return [list(group) for group in cost.collectives[0].groups]


@pytest.mark.parametrize(
    ("text", "count", "groups"),
    [
        ("{{0,1},{2,3}}", 4, [[0, 1], [2, 3]]),
        ("[2,2]<=[4]", 4, [[0, 1], [2, 3]]),
        ("[2,4]<=[4,2]T(1,0)", 8, [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("mesh['a'=2,'b'=2] {'b'}", 4, [[0, 1], [2, 3]]),
        ("mesh['a'=2,'b'=2] {'a'}", 4, [[0, 2], [1, 3]]),
        ("mesh['a'=2,'b'=2] {'a','b'}", 4, [[0, 1, 2, 3]]),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", 8, [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", 8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", 4, [[0, 2], [1, 3]]),
        ("mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'a'}", 4, [[0, 1], [2, 3]]),
    ],
)
def test_groups(text, count, groups):
    assert sorted(groups_of(text, count)) == sorted(groups)
