"""Reports made by hand on a chip of round numbers, for the renderings."""

from jaxscale_magic.advice import Advice
from jaxscale_magic.chips.record import Chip, Figure
from jaxscale_magic.cost import Cost, OpCost, Source, Unmodelled, Work, total_work
from jaxscale_magic.report.record import Fit, RooflineReport, Target
from jaxscale_magic.roofline import price
from jaxscale_magic.timing import Measured


def figure(value):
    return Figure(value=value, source="made up")


CHIP = Chip(
    name="round",
    title="Round Numbers",
    kind="tpu",
    matrix_flops={"bf16": figure(100e12)},
    vector_flops=figure(1e12),
    hbm_bytes=figure(16e9),
    hbm_bandwidth=figure(1e12),
)


def op(label, line, flops=0, nbytes=10**6, text="", count=1):
    source = Source(file="cell", line=line, text=text or label)
    work = Work(flops={"bf16": flops} if flops else {}, hbm_bytes=nbytes)
    return OpCost(name=label, opcode="fusion", label=label, source=source, count=count, work=work)


#: compute 1e12 / 1e14 = 10 ms; memory 4e9 / 1e12 = 4 ms
OPS = (op("dot", 2, flops=10**12, nbytes=10**9, text="h = x @ w"), op("copy", 3, nbytes=3 * 10**9, text="y = h.T"))


def report(ops=OPS, *, min_bytes=None, title="y = h.T", **more):
    work = total_work(o.work for o in ops)
    cost = Cost(
        work=work,
        min_hbm_bytes=work.hbm_bytes if min_bytes is None else min_bytes,
        unmodelled=more.pop("unmodelled", ()),
    )
    return RooflineReport(
        title=title,
        target=Target(name="round", chip=CHIP, compiler="XLA:TEST", stands_in=more.pop("stands_in", "")),
        cost=cost,
        module_ops=tuple(ops),
        verdict=price(cost, ops, CHIP),
        **more,
    )


def full():
    """A report with everything in it."""
    return report(
        measured=Measured(minimum=0.0125, median=0.013, spread=0.0005, runs=20, fresh_outputs=0.02),
        fit=Fit(arguments=10**9, outputs=10**9, temporaries=0, aliased=0, peak=20 * 10**9, capacity=16 * 10**9),
        advice=(Advice(rule="made up", text="Twice the batch would help.", saves=0.001),),
        notes=("Something to know.",),
        unmodelled=(Unmodelled(name="mystery_call", count=3, reason="custom call: FLOPs unknown"),),
    )


HOSTILE = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "x" * 10_000,
    "\x1b[31mred\x1b[0m \x07\x00",
    "\u202egnp.exe \u2066hidden\u2069",
    "שלום עולם 🎉 👩‍👩‍👧",
    "lone \ud800 surrogate",
    "| pipe | `tick` **bold** [link](javascript:alert(1))",
    "a\nb\tc\r\nd",
)
