"""Modules of the real TPU v5e compiler (libtpu 0.0.52), kept as data: what a TPU's spelling must be read as.

There every dot is a convolution, loops print no trip count, layouts carry memory spaces, and operands are
prefetched into VMEM by copies of their own.
"""

import gzip
from pathlib import Path

import pytest

from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module

DATA = Path(__file__).parent.parent / "data" / "v5e"
SQUARE = 2 * 512**3


def count(name):
    return count_module(read_module(gzip.decompress((DATA / f"{name}.hlo.pb.gz").read_bytes())))


@pytest.mark.parametrize(
    ("name", "flops", "compulsory", "scheduled"),
    [
        # 1024^3 bf16: three arrays of 2 MiB; one operand is prefetched, the other read by the product.
        ("matmul", 2 * 1024**3, 3 * 2 * 2**20, 3 * 2 * 2**20),
        # Ten f32 layers of 512^2 and a carry that stays in VMEM: 1 + 10 + 1 MiB.
        ("scan", 10 * SQUARE, 12 * 2**20, 12 * 2**20),
        ("scan_gradient", 30 * SQUARE, 21 * 2**20, 21 * 2**20),
        # 1024 rows are needed; the compiler prefetches the whole table of 32 000 rows of 1 KiB.
        ("row_gather", 0, 2 * 1024 * 1024 + 4096, 32000 * 1024 + 1024 * 1024 + 4096),
        # The score matrix never leaves VMEM: q, k, v and the result.
        ("attention", 2 * 2 * 2 * 8 * 1024 * 1024 * 64, 4 * 2 * 2**20, 4 * 2 * 2**20),
        ("int8_weights", 2 * 64 * 4096 * 16384, 69_730_304, 69_730_304),
        ("batched", 2 * 16 * 128 * 256 * 128, 16 * 2 * (2 * 128 * 256 + 128 * 128), 2_621_440),
    ],
)
def test_flops_and_bytes(name, flops, compulsory, scheduled):
    cost, _ = count(name)
    assert cost.work.matrix_flops == flops
    assert cost.min_hbm_bytes == compulsory
    assert cost.hbm_bytes == pytest.approx(scheduled, rel=0.001)
    assert cost.unmodelled == ()


def test_the_loop_is_counted_although_no_trip_count_is_printed():
    _, ops = count("scan")
    assert max(op.count for op in ops if op.work.flops) == 10
