"""Golden bits: what every recipe, scorer and layer model gives, before and after a change that must not show.

    python tests/golden.py write DIR      on the build before
    python tests/golden.py check DIR      on the build after, on the same machine with as many threads

DIR gets ``bits.json``, a digest per result, and the files of everything that can be saved. `check` makes all of it
again, compares, and opens the files of before: they must give the scores they gave then. Run by hand: bits depend on
the instruction set, and a change of arithmetic changes them knowingly.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from check_recipe import SMALL
from rankers import SMALL_GRAPHS, having, state

import tpugraphs as tg
from tpugraphs.recipes import get_recipe

LAYERS = {
    "residual": {"members": 2, "steps": 40},
    "roofline": {},
    "mlpredict": {"steps": 40},
    "lightgbm": {"members": 2, "rounds": 20},
}
LAYER_KINDS = ("conv2d", "dense", "softmax")


def digest(*parts):
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        h.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return h.hexdigest()


def graphs(kind):
    make = SMALL_GRAPHS["layout" if kind == "any" else kind]
    return [make(seed) for seed in range(4)]


def of_recipes(folder):
    """A short fit with validation, a single step, and what the saved ranker says of a graph never seen."""
    for name in tg.list_recipes():
        recipe = get_recipe(name)
        *train, valid, unseen = graphs(recipe.kind)
        for preset in recipe.presets:
            small = having(name, **{k: v for k, v in SMALL.items() if preset == "cpu" or k != "width"})
            ranker = tg.Ranker(name, seed=3, preset=preset, **{**small, "steps": 3})
            history = ranker.fit(train, [valid], verbose=False).history_
            yield f"{name} {preset}: fit", digest(*state(ranker), repr(history.loss).encode())
            if recipe.estimator == "network":
                loss = ranker.partial_fit(train[0], range(8))
                yield f"{name} {preset}: step", digest(*state(ranker), repr(loss).encode())
            yield from of_scorer(f"{name} {preset}", ranker, unseen, folder)


def of_scorers(folder):
    kinds = {kind: graphs(kind) for kind in SMALL_GRAPHS}
    layout, anything = kinds["layout"], kinds["graph"]
    rankers = tg.ranker
    for kind, (*train, _, unseen) in kinds.items():
        yield from of_scorer(f"random {kind}", rankers.RandomBaseline(seed=5).fit(train), unseen, folder)
    linear = rankers.LinearBaseline().fit(layout[0])
    yield from of_scorer("linear", linear, layout[0], folder)
    process = rankers.GaussianProcess().fit(anything[0])
    yield from of_scorer("GaussianProcess", process, anything[0], folder)
    data = tg.open_collection("options:xla:cpu")
    known, unseen = [data.train[i] for i in range(8)], data.test[0]
    yield from of_scorer("MeanEffect", rankers.MeanEffect().fit(known), unseen, folder)
    multi = rankers.MultiTaskGaussianProcess().fit(known)
    yield "MultiTaskGaussianProcess: choose", digest(multi.choose(unseen, 5))
    yield from of_scorer("MultiTaskGaussianProcess", multi, unseen, folder)
    runs = tg.train_seeds("first-layout", layout[:2], seeds=2, verbose=False, steps=2, width=16, configs=12)
    yield from of_scorer("ensemble", tg.Ensemble(runs.rankers, normalize="rank"), layout[3], folder)


def of_scorer(name, scorer, unseen, folder):
    scores = scorer.predict(unseen)
    path = folder / f"{name}.safetensors".replace(" ", "_")
    if hasattr(scorer, "save") and not path.exists():
        scorer.save(path)
    yield f"{name}: scores", digest(scores)
    try:
        again = digest(tg.load_ranker(path).predict(unseen))
    except tg.Error as error:
        again = f"refused: {error}"
    yield f"{name}: of the file", again


def of_layer_models(folder):
    for kind in LAYER_KINDS:
        table = tg.layertime.measured_layers(kind)
        for method, fields in LAYERS.items():
            path = folder / f"layers_{kind}_{method}.safetensors"
            model = tg.layertime.LayerTimeModel(kind, method=method, seed=0, **fields).fit(table)
            if not path.exists():
                model.save(path)
            device = table.devices[0] if hasattr(table, "devices") else None
            for said, some in (("times", model), ("of the file", tg.layertime.LayerTimeModel.load(path))):
                times = some.predict(table, device=device) if device else some.predict(table)
                yield f"{kind} {method}: {said}", digest(times)


def results(folder):
    for part in (of_recipes, of_scorers, of_layer_models):
        yield from part(folder)


def main(what, folder):
    folder = Path(folder)
    if what == "write":
        folder.mkdir(parents=True)
    known = {} if what == "write" else json.loads((folder / "bits.json").read_text())
    made, wrong = {}, 0
    for name, bits in results(folder):
        made[name] = bits
        if what == "check" and known.get(name) != bits:
            wrong += 1
            print(f"{name}: {'new' if name not in known else 'differs'}", flush=True)
    gone = known.keys() - made.keys()
    for name in sorted(gone):
        print(f"{name}: gone")
    if what == "write":
        (folder / "bits.json").write_text(json.dumps(made, indent=1))
    print(f"{len(made)} results, {wrong + len(gone)} differ")
    return int(wrong + len(gone) > 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
