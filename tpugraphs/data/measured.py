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

    def refuse(field: str, text: str, found: str, expected: str) -> DataError:
        return DataError(f"{field}: {text}", file=graph.name, field=field, found=found, expected=expected)

    if runtimes.size and not ran.any():
        every = plural(runtimes.size, "the only config", f"all {runtimes.size:,} configs")
        text = f"{every} failed, so {purpose}: leave it out"
        raise refuse("valid", text, "none that ran", "configs that ran")
    failed = rows[~ran[rows]]
    if failed.size:
        found = f"config {int(failed[0])}"
        text = f"{found} failed ({failed.size} such in all), so {purpose} from it: drop it, with "
        text += "g.select(g.ran)"
        raise refuse("valid", text, found, "configs that ran")
    if not (runtimes > 0).any():
        found = f"placeholders from {runtimes.min()} to {runtimes.max()}" if runtimes.size else "none"
        text = f"expected measured runtimes, found {found}, so {purpose}: {remedy}"
        raise refuse("config_runtime", text, found, "runtimes > 0")
    bad = rows[runtimes[rows] <= 0]
    if bad.size:
        found = f"{runtimes[bad[0]]} {unit}".strip()
        text = f"config {int(bad[0])} has {found} ({bad.size} such in all), which is not a measurement: "
        text += "drop it, with g.select(g.config_runtime > 0)"
        raise refuse("config_runtime", text, found, "runtimes > 0")
