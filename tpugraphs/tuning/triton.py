"""Triton's autotuner: a ranker decides which configs it measures, and a journal keeps the timings.

Neither function imports Triton.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tpugraphs.data.frames import from_frame
from tpugraphs.data.schema import Schema
from tpugraphs.errors import ConfigError
from tpugraphs.evaluation.scorer import Scorer
from tpugraphs.records import Journal, Record, environment
from tpugraphs.system.arguments import check_type

__all__ = ["listener", "perf_model"]


def perf_model(
    ranker: Scorer, schema: Schema | None = None, columns: Mapping[str, Any] | None = None
) -> Callable[..., float]:
    """Make a performance model for ``prune_configs_by`` of a ranker.

    Parameters
    ----------
    ranker : scorer
        One of any schema, trained on a table whose columns have the names of the kernel's arguments and of
        what its configs choose, such as ``BLOCK_M`` and ``num_warps``.
    schema : Schema, optional
        Of the graphs that it was trained on; by default the ranker's own.
    columns : dict of str to value, optional
        Values of columns that are no argument of the kernel, such as the name of the device.

    Returns
    -------
    callable
        Takes arguments and config of a kernel by name, and returns a score that rises with the run time.

    Raises
    ------
    ConfigError
        The ranker has no schema with columns of configs. The model raises it when an argument is missing.

    Examples
    --------
    ::

        model = tg.tuning.triton.perf_model(tg.load_ranker("matmul.safetensors"))

        @triton.autotune(configs, key=["M", "N", "K"], prune_configs_by={"perf_model": model, "top_k": 10})
        @triton.jit
        def matmul(...): ...
    """
    schema = getattr(ranker, "schema", None) if schema is None else schema
    if not isinstance(schema, Schema) or not schema.config:
        text = "expected columns of configs, as of a table; train on graphs of tg.from_frame, or give it"
        raise ConfigError(f"schema: {text}, got {schema!r:.80}")
    features, config = schema.names("graph"), schema.names("config")
    given = dict(check_type("columns", {} if columns is None else columns, dict))

    def model(**arguments: Any) -> float:
        values = arguments | given
        if missing := [name for name in (*features, *config) if name not in values]:
            raise ConfigError(f"perf_model: the kernel has no {', '.join(missing)}; give them as columns=")
        row = {name: [values[name]] for name in (*features, *config)}
        (graph,) = from_frame(row, config=config, features=features, runtime=None, schema=schema)
        return float(ranker.predict(graph)[0])

    return model


def listener(journal: str | os.PathLike[str] | Journal, device: str = "") -> Callable[..., None]:
    """Make a listener that appends every timing of Triton's autotuner to a journal.

    Parameters
    ----------
    journal : path or Journal
        Where to.
    device : str
        Its name in the records.

    Returns
    -------
    callable
        For ``triton.knobs.autotuning.listener``. Timings that came from Triton's cache are left out. The
        problem of a record is the name of the kernel and the autotuner's key, the runtime is in milliseconds,
        and configs that Triton could not compile are failures.

    Examples
    --------
    ::

        triton.knobs.autotuning.listener = tg.tuning.triton.listener("timings.jsonl")
    """
    kept = journal if isinstance(journal, Journal) else Journal(journal)
    check_type("device", device, str)

    def listen(
        *, fn: Any, key: Sequence[Any], configs_timings: Mapping[Any, Any], cache_hit: bool = False, **_: Any
    ) -> None:
        if cache_hit:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        problem = f"{fn.__name__}: {', '.join(map(str, key))}"
        records = []
        for config, timing in configs_timings.items():
            median = float(timing[0] if isinstance(timing, Sequence) else timing)  # two quantiles may follow
            runtimes, status = ((median,), "correct") if median < math.inf else ((), "compile")
            records.append(Record(config.all_kwargs(), runtimes, status, problem, device, environment(), now))
        kept.append(records)

    return listen
