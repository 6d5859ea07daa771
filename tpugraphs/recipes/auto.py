"""The recipe `auto`: choose among a process, trees, a network and their means by cross-validation.

Which one ranks a table best depends on its size, its noise and on what is asked: the order of all
configurations, or a fast one. :mod:`tpugraphs.ranker.auto` tries them on graphs that were left out.
"""

from tpugraphs.recipes.base import EstimatorFields, Recipe, option


class AutoFields(EstimatorFields):
    """Fields of ``auto``."""

    objective: str = option(
        "first",
        choices=("first", "best-of-k", "order"),
        doc="what is to be good: the config ranked first, the best of some that are measured, or the order",
    )
    tried: int = option(5, 1, 10**6, doc="configs that are measured (best-of-k)")
    seconds: float = option(30.0, 0.0, 1e9, doc="time for choosing and training, about")
    cv: int = option(5, 2, 1000, doc="folds of the cross-validation, at most")
    members: str = option("", doc="what to train without choosing, such as 'process + network'")
    steps: int | None = option(None, 1, 10**9, doc="of the network; None: as many as pay in the time")
    epochs: int | None = option(None, 1, 10**9, doc="another name for steps")
    metric: str = option("tau", doc="of the method score")


RECIPES = (
    Recipe(
        name="auto",
        summary="Chooses a process, trees, a network or a mean of them by cross-validation, in 30 seconds.",
        options=AutoFields,
        presets={"cpu": {}},
        estimator="auto",
        source="this project",
        kind="graph",
    ),
)
