"""Whether the runtimes of a graph are measurements."""

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data.graph import Graph
from tpugraphs.errors import DataError
from tpugraphs.system.words import plural


def require_measured(graph: Graph, rows: NDArray[np.int64], purpose: str, remedy: str) -> None:
    """Raise DataError unless all configs in `rows` (n,) of a graph ran and have runtimes above 0.

    In the error, `purpose` is the consequence, such as ``"nothing can be learnt"``; `remedy` is what to do
    about a graph that was not measured.
    """
    runtimes, unit = graph.runtime, "" if graph.schema.maximized else graph.schema.unit or ""
    ran = np.ones(runtimes.size, np.bool_) if graph.valid is None else graph.valid

    failed, bad = rows[~ran[rows]], rows[runtimes[rows] <= 0]
    field, expected = "config_runtime", "runtimes > 0"
    if runtimes.size and not ran.any():
        every = plural(runtimes.size, "the only config", f"all {runtimes.size:,} configs")
        field, expected, found = "valid", "configs that ran", "none that ran"
        text = f"{every} failed, so {purpose}: leave it out"
    elif failed.size:
        field, expected, found = "valid", "configs that ran", f"config {int(failed[0])}"
        todo = "drop it, with g.select(g.ran)"
        text = f"{found} failed ({failed.size} such in all), so {purpose} from it: {todo}"
    elif not (runtimes > 0).any():
        found = f"placeholders from {runtimes.min()} to {runtimes.max()}" if runtimes.size else "none"
        text = f"expected measured runtimes, found {found}, so {purpose}: {remedy}"
    elif bad.size:
        found = f"{runtimes[bad[0]]} {unit}".strip()
        text = f"config {int(bad[0])} has {found} ({bad.size} such in all), which is not a measurement: "
        text += "drop it, with g.select(g.config_runtime > 0)"
    else:
        return
    raise DataError(f"{field}: {text}", file=graph.name, field=field, found=found, expected=expected)
