"""A Transformer train step of LLaMA-70B's shape, on abstract inputs, and its FLOPs by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

D, F, HEADS, KV_HEADS, HEAD, VOCABULARY = 8192, 28672, 64, 8, 128, 32_000
SEQUENCE, BATCH = 8192, 16


def layer(x: jax.Array, w: dict[str, jax.Array]) -> tuple[jax.Array, None]:
    """Full unmasked attention with grouped heads and a gated SiLU MLP; x is (batch, sequence, D)."""
    batch, sequence, _ = x.shape
    groups = HEADS // KV_HEADS
    q = (x @ w["q"]).reshape(batch, sequence, KV_HEADS, groups, HEAD)
    k = (x @ w["k"]).reshape(batch, sequence, KV_HEADS, HEAD)
    v = (x @ w["v"]).reshape(batch, sequence, KV_HEADS, HEAD)
    scores = jax.nn.softmax(jnp.einsum("bskgh,btkh->bkgst", q, k), axis=-1)
    attended = jnp.einsum("bkgst,btkh->bskgh", scores, v).reshape(batch, sequence, HEADS * HEAD)
    x = x + attended @ w["o"]
    return x + (jax.nn.silu(x @ w["gate"]) * (x @ w["up"])) @ w["down"], None


def loss(layers: dict[str, jax.Array], embedding: jax.Array, tokens: jax.Array, targets: jax.Array, data: Any) -> Any:
    x = jax.lax.with_sharding_constraint(embedding[tokens], data)
    x, _ = jax.lax.scan(jax.checkpoint(layer), x, layers)
    logits = (x @ embedding.T).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def traced_step(layers: int, data: int, model: int) -> Any:
    """`value_and_grad` with respect to the layers' weights, traced on shapes alone."""
    mesh = AbstractMesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def array(spec: P, dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    bf16 = jnp.bfloat16
    into, out = P(None, "data", "model"), P(None, "model", "data")
    weights = {
        "q": array(into, bf16, layers, D, HEADS * HEAD),
        "k": array(into, bf16, layers, D, KV_HEADS * HEAD),
        "v": array(into, bf16, layers, D, KV_HEADS * HEAD),
        "o": array(out, bf16, layers, HEADS * HEAD, D),
        "gate": array(into, bf16, layers, D, F),
        "up": array(into, bf16, layers, D, F),
        "down": array(out, bf16, layers, F, D),
    }
    embedding = array(P("model", "data"), bf16, VOCABULARY, D)
    tokens = array(P("data", None), jnp.int32, BATCH, SEQUENCE)
    step = jax.value_and_grad(partial(loss, data=NamedSharding(mesh, P("data", None, None))))
    return jax.jit(step).trace(weights, embedding, tokens, tokens)


def flops_by_hand(layers: int) -> int:
    """Matrix FLOPs over all devices.

    Forward a layer, T tokens: projections 2T(2D² + 2D·1024), MLP 2T·3DF, attention 2 products of 2BS²D. The step
    runs it forward, again (checkpoint) and backward twice, except that the last MLP product is not run again; the
    logits forward and the product for their input's gradient (the embedding is not differentiated).
    """
    tokens = BATCH * SEQUENCE
    forward = 2 * tokens * (2 * D * D + 2 * D * KV_HEADS * HEAD + 3 * D * F) + 4 * BATCH * SEQUENCE**2 * D
    return layers * (4 * forward - 2 * tokens * D * F) + 4 * tokens * D * VOCABULARY
