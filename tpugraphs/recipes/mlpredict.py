"""The network of ml-performance-prediction: predicts the time of a row of numbers, such as a GPU layer.

Linear layers with ReLU, each twice as wide as the one before up to `width`, then `layers` of that width, and
dropout after the last. The output has no bias. Numbers are standardised, without logarithms. The loss
compares logarithms of 1 + time. Nodes of a graph are not used.

Published in milliseconds for 20 columns: layers of 32, 64 and four of 128 for several GPUs, two for one. Two
things differ. There the output passed a ReLU; here the loss has a slope below 0, and callers clip times at 0.
With the ReLU a tenth of the seeds begin with an output of 0 for nearly all rows and learn nothing. Adam's eps
is added after the bias correction of the second moment, in TensorFlow before it, so the first thousand of the
published 244,200 steps are larger here.
"""

from tpugraphs.data.schema import Schema
from tpugraphs.errors import RecipeError
from tpugraphs.preprocess.pipeline import Sizes
from tpugraphs.recipes.base import Recipe, Steps, TrainingFields, always, option
from tpugraphs.recipes.blocks import encode, step


class MLPredict(TrainingFields):
    """Fields of ``mlpredict``: a network for tables of measured times."""

    width: int = option(128, 4, 4096, doc="columns of a layer; the first two have a quarter and half")
    layers: int = option(4, 1, 16, doc="layers of that width")
    dropout: float = option(0.2, 0.0, 0.99, doc="share of the last layer that is dropped in training")
    configs: int = 128
    dedup: str = "none"
    target: str = option("runtime", choices=("runtime", "seconds", "min-max"))
    steps: int | None = 244_200
    epochs: int | None = None
    optimizer: str = "adam"
    learning_rate: float = 0.1
    eps: float = 0.1
    weight_decay: float = option(1e-5, doc="of the hidden layers' weights: their L2 penalty (adam)")
    schedule: str = "step"
    decay: float = 0.5
    decay_every: float = 40 / 300
    clip: float = 1e9
    chunk: int = 8192


def preprocessing(fields: MLPredict, schema: Schema) -> Steps:
    """Merge equal configs (training only), if asked for; standardise numbers."""
    merged: Steps = [{"step": "dedup", "keep": fields.dedup}] if fields.dedup != "none" else []
    return [*merged, encode(schema)]


def steps(fields: MLPredict, sizes: Sizes) -> Steps:
    """List the steps of the model for graphs of these sizes."""
    if sizes.config == 0:
        raise RecipeError("recipe mlpredict: expected configs with numbers (config_feat), got none")
    inputs = ["config_feat", "graph_feat"] if sizes.graph else ["config_feat"]
    model: Steps = []
    for i, width in enumerate((fields.width // 4, fields.width // 2, *[fields.width] * fields.layers)):
        model.append(step("linear", f"hidden{i}", inputs, out=width, act="relu", init="xavier"))
        inputs = [f"hidden{i}"]
    return [
        *model,
        step("dropout", "dropout", inputs, p=fields.dropout),
        step("linear", "head", ["dropout"], "scores", out=1, use_bias=False, init="xavier"),
    ]


_CPU = {  # as accurate as the published training, in half of the time
    "steps": 60_000,
    "configs": 256,
    "dropout": 0.0,
    "eps": 1e-8,
    "learning_rate": 2e-3,
    "schedule": "warmup-cosine",
}
RECIPES = (
    Recipe(
        name="mlpredict",
        summary="Times of layers, or of any rows of numbers, as ml-performance-prediction learns them.",
        options=MLPredict,
        presets={"cpu": _CPU, "full": {}},
        steps=steps,
        preprocessing=preprocessing,
        loss=always([{"loss": "msle"}]),
        groups=always([{"match": name, "weight_decay": 0.0} for name in ("*.bias", "head.weight")]),
        source="Justus, Brennan, Bonner and McGough: Predicting the computational cost of deep learning "
        "models (2018); github.com/CDECatapult/ml-performance-prediction",
        kind="graph",
    ),
)
