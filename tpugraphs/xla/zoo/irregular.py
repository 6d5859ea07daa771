"""Gathers, scatters, segments, embeddings, sorting, neighbours, prefix sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tpugraphs.xla.zoo.layers import relu
from tpugraphs.xla.zoo.registry import Built, Draw, family


@family(
    "embedding-pool",
    "embedding",
    {"batch": 256, "tokens": 32, "words": 4096, "width": 64, "classes": 16},
    {"batch": 32, "tokens": 200, "words": 500, "width": 128, "classes": 100},
    {"batch": 1300, "tokens": 64, "words": 50000, "width": 64, "classes": 20},
    {"batch": 1600, "tokens": 128, "words": 400000, "width": 128, "classes": 100},
)
def embedding_pool(draw: Draw, batch: int, tokens: int, words: int, width: int, classes: int) -> Built:
    """Mean of the embeddings of the words present, then classes."""

    def forward(text: Array, table: Array, out: Array) -> Array:
        present = (text > 0).astype(jnp.float32)[..., None]
        total = jnp.sum(jnp.take(table, text, axis=0) * present, axis=1)
        return jax.nn.log_softmax(total / (1.0 + jnp.sum(present, axis=1)) @ out)

    return forward, (
        draw.below(words, batch, tokens),
        draw.normal(words, width),
        draw.weights(width, classes),
    )


@family(
    "ngram",
    "embedding",
    {"batch": 256, "order": 3, "words": 500, "width": 32, "hidden": 64},
    {"batch": 64, "order": 8, "words": 4000, "width": 16, "hidden": 64},
    {"batch": 180, "order": 4, "words": 10000, "width": 64, "hidden": 128},
    {"batch": 330, "order": 5, "words": 32000, "width": 64, "hidden": 256},
)
def ngram(draw: Draw, batch: int, order: int, words: int, width: int, hidden: int) -> Built:
    """Language model of words: embeddings of a context, hidden layer, likelihood of the next word."""

    def forward(context: Array, following: Array, table: Array, w: Array, out: Array) -> Array:
        joined = jnp.take(table, context, axis=0).reshape(batch, order * width)
        likelihood = jax.nn.log_softmax(jnp.tanh(joined @ w) @ out, axis=-1)
        return -jnp.take_along_axis(likelihood, following[:, None], axis=1)[:, 0]

    words_read = draw.below(words, batch, order), draw.below(words, batch)
    weights = draw.normal(words, width), draw.weights(order * width, hidden), draw.weights(hidden, words)
    return forward, (*words_read, *weights)


@family(
    "segment-sums",
    "segments",
    {"edges": 2048, "segments": 512, "width": 64, "axis": 0},
    {"edges": 4096, "segments": 1500, "width": 128, "axis": 1},
    {"edges": 85000, "segments": 5000, "width": 64, "axis": 0},
    {"edges": 200000, "segments": 20000, "width": 128, "axis": 1},
)
def segment_sums(draw: Draw, edges: int, segments: int, width: int, axis: int) -> Built:
    """Segments summed one column at a time; ``axis`` says where the columns end up (jax issue 39959)."""

    def forward(x: Array, ids: Array) -> tuple[Array, Array]:
        def total(column: Array) -> Array:
            return jax.ops.segment_sum(column, ids, segments)

        count = 1.0 + total(jnp.ones(edges))
        sums = jax.vmap(total, in_axes=1, out_axes=axis)(x)
        return sums / (count[:, None] if axis else count), jnp.mean(jnp.square(sums), axis=axis)

    return forward, (draw.normal(edges, width), np.sort(draw.below(segments, edges)))


@family(
    "graph-convolution",
    "message passing",
    {"nodes": 512, "edges": 4096, "inputs": 32, "width": 64},
    {"nodes": 2000, "edges": 8000, "inputs": 8, "width": 16},
    {"nodes": 5000, "edges": 29000, "inputs": 32, "width": 64},
    {"nodes": 50000, "edges": 46000, "inputs": 64, "width": 64},
)
def graph_convolution(draw: Draw, nodes: int, edges: int, inputs: int, width: int) -> Built:
    """Two rounds of messages along edges, averaged at the receiver, then a mean over the nodes."""

    def forward(
        x: Array, sender: Array, receiver: Array, w1: Array, w2: Array, own: Array
    ) -> tuple[Array, Array]:
        degree = 1.0 + jnp.zeros(nodes).at[receiver].add(1.0)[:, None]

        def gathered(messages: Array) -> Array:
            return jnp.zeros((nodes, width)).at[receiver].add(messages[sender]) / degree

        h = relu(gathered(x @ w1) + x @ own)
        h = relu(gathered(h @ w2) + h)
        return h, jnp.mean(h, axis=0)

    weights = draw.weights(inputs, width), draw.weights(width, width), draw.weights(inputs, width)
    return forward, (draw.normal(nodes, inputs), draw.below(nodes, edges), draw.below(nodes, edges), *weights)


@family(
    "gather-scatter",
    "gather",
    {"rows": 4000, "width": 64, "picks": 3200},
    {"rows": 200, "width": 800, "picks": 600},
    {"rows": 50000, "width": 64, "picks": 3800},
    {"rows": 120000, "width": 128, "picks": 20000},
)
def gather_scatter(draw: Draw, rows: int, width: int, picks: int) -> Built:
    """Rows of a table read, changed, added back, and read again in another order."""

    def forward(table: Array, at: Array, other: Array, gate: Array) -> tuple[Array, Array]:
        picked = table[at]
        table = table.at[at].add(jnp.tanh(picked * gate) - picked)
        best = jnp.zeros((rows, width)).at[other].max(picked)
        return table[other] * picked, best + table[::-1]

    return forward, (
        draw.normal(rows, width),
        draw.below(rows, picks),
        draw.below(rows, picks),
        draw.normal(width),
    )


@family(
    "nearest-neighbours",
    "neighbours",
    {"queries": 64, "points": 512, "width": 32, "k": 8},
    {"queries": 256, "points": 200, "width": 3, "k": 4},
    {"queries": 370, "points": 2000, "width": 64, "k": 8},
    {"queries": 1200, "points": 8000, "width": 64, "k": 4},
)
def nearest_neighbours(draw: Draw, queries: int, points: int, width: int, k: int) -> Built:
    """Distances of all pairs, the smallest ``k`` of a query, and a kernel average."""

    def forward(q: Array, p: Array, values: Array) -> tuple[Array, Array]:
        squares = jnp.sum(q * q, axis=1)[:, None] + jnp.sum(p * p, axis=1) - 2.0 * q @ p.T
        nearest = -lax.top_k(-squares, k)[0]
        weight = jnp.exp(-squares / width)
        return nearest / width, weight @ values / jnp.sum(weight, axis=1, keepdims=True)

    return forward, (draw.normal(queries, width), draw.normal(points, width), draw.normal(points, 4))


@family(
    "sort-top-k",
    "sorting",
    {"rows": 64, "columns": 256, "k": 16},
    {"rows": 4, "columns": 4096, "k": 8},
    {"rows": 19, "columns": 1024, "k": 16},
    {"rows": 8, "columns": 16384, "k": 32},
)
def sort_top_k(draw: Draw, rows: int, columns: int, k: int) -> Built:
    """Rows and columns sorted, the largest, the median, and gaps between neighbours in order."""

    def forward(x: Array, scale: Array) -> tuple[Array, Array, Array]:
        ordered = jnp.sort(x, axis=1)
        gaps = ordered[:, 1:] - ordered[:, :-1]
        largest = lax.top_k(x * scale, k)[0]
        return gaps, jax.nn.softmax(largest, axis=-1), jnp.median(x, axis=0)

    return forward, (draw.normal(rows, columns), draw.uniform(columns, low=0.5, high=1.5))


@family(
    "prefix-sums",
    "prefix",
    {"rows": 128, "columns": 128},
    {"rows": 8, "columns": 2048},
    {"rows": 490, "columns": 512},
    {"rows": 1200, "columns": 2048},
)
def prefix_sums(draw: Draw, rows: int, columns: int) -> Built:
    """Cumulative sums and maxima, and sums of boxes out of an integral image."""

    def forward(x: Array) -> tuple[Array, Array, Array]:
        integral = jnp.cumsum(jnp.cumsum(x, axis=0), axis=1)
        boxes = integral[4:, 4:] - integral[:-4, 4:] - integral[4:, :-4] + integral[:-4, :-4]
        return (
            boxes / 16.0,
            lax.cummax(x, axis=1),
            jnp.cumsum(jnp.tanh(x), axis=1, dtype=jnp.float32) / columns,
        )

    return forward, (draw.normal(rows, columns),)
