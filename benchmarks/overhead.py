"""What the magic itself costs: loading the extension, and analysing a large module, side by side.

    python benchmarks/overhead.py

Prints ratios; nothing here fails on a slow machine.
"""

import json
import subprocess
import sys
import time
from statistics import median

LOAD = """
import time, json
import IPython, jax
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
start = time.perf_counter()
shell.run_line_magic("load_ext", "jaxscale_magic")
seconds = time.perf_counter() - start
import sys
heavy = [m for m in ("ipywidgets", "bqplot", "pandas", "matplotlib", "google.protobuf") if m in sys.modules]
print(json.dumps({"seconds": seconds, "heavy": heavy}))
"""


def load_extension(repeats=5):
    results = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    seconds = median(r["seconds"] for r in results)
    print(
        f"%load_ext once jax and IPython are imported: {seconds:.3f} s, heavy imports: {results[0]['heavy'] or 'none'}"
    )


def train_step(layers, width=256):
    """An unrolled Transformer train step with Adam: many small instructions."""
    import jax
    import jax.numpy as jnp

    def layer(x, p):
        q, k, v = (x @ p[n] for n in "qkv")

        def heads(t):
            return t.reshape(*t.shape[:2], 8, -1)

        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", heads(q), heads(k)))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, heads(v)).reshape(x.shape) @ p["o"]
        x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x + jax.nn.gelu(x @ p["a"]) @ p["b"]

    def loss(params, x):
        for p in params:
            x = layer(x, p)
        return (x**2).mean()

    def step(params, m, v, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
        params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, m, v, value

    square = jax.ShapeDtypeStruct((width, width), jnp.float32)
    wide = jax.ShapeDtypeStruct((width, 4 * width), jnp.float32)
    tall = jax.ShapeDtypeStruct((4 * width, width), jnp.float32)
    params = [{**dict.fromkeys("qkvo", square), "a": wide, "b": tall} for _ in range(layers)]
    x = jax.ShapeDtypeStruct((2, 128, width), jnp.float32)
    return jax.jit(step).lower(params, params, params, x).compile()


def best(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def analyse_module():
    from jaxscale_magic.hlo.count import count_module
    from jaxscale_magic.hlo.read import read_module
    from jaxscale_magic.jax_internals import module_bytes

    print(f"{'instructions':>12} {'as_text':>9} {'serialize':>9} {'read':>9} {'count':>9} {'ours/as_text':>12}")
    for layers in (2, 6, 18):
        compiled = train_step(layers)
        text, _ = best(compiled.as_text)
        serialize, data = best(lambda c=compiled: module_bytes(c))
        read, module = best(lambda d=data: read_module(d))
        count, _ = best(lambda m=module: count_module(m))
        total = serialize + read + count
        print(
            f"{module.instruction_count:12} {text:9.3f} {serialize:9.3f} {read:9.3f} {count:9.3f} {total / text:12.2f}"
        )


if __name__ == "__main__":
    load_extension()
    analyse_module()
