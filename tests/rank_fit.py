"""What one rank does in the tests of ranks: fits, and a digest of each for the first rank's file.

python rank_fit.py OUT.json CHECKPOINTS [RECIPE ...]
"""

import json
import sys
import warnings
from pathlib import Path

from check_recipe import SMALL
from golden import digest, graphs
from rankers import having, state

import tpugraphs as tg
from tpugraphs import distributed
from tpugraphs.recipes import get_recipe

SHAPES = {"as it is": {}, "six slates": {"slates": 3, "accumulate": 2}, "bf16": {"precision": "bf16"}}


def fit(name, communicator, steps=3, folder=None, **options):
    *train, valid, _ = graphs(get_recipe(name).kind)
    small = having(name, **{k: v for k, v in SMALL.items() if k not in options})
    ranker = tg.Ranker(
        name, seed=3, preset="cpu", **{**small, "evaluate_every": 2, "steps": steps, **options}
    )
    checkpoints = {} if folder is None else {"checkpoint_dir": folder, "checkpoint_every": 2}
    ranker.fit(train, [valid], verbose=False, communicator=communicator, **checkpoints)
    curves = [ranker.history_.loss, ranker.history_.valid_metric]
    return digest(*state(ranker), json.dumps(curves).encode()), ranker


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    out, folder, *names = sys.argv[1:]
    comm = distributed.communicator() or distributed.SingleCommunicator()
    if names == ["long"]:  # to be killed on its way, and gone on with
        found = {"long": fit("first-layout", comm, steps=40, folder=folder, slates=4)[0]}
    else:
        found = {
            f"{name}, {shape}": fit(name, comm, **more)[0]
            for name in names for shape, more in SHAPES.items()
        }  # fmt: skip
    if comm.rank == 0:
        Path(out).write_text(json.dumps(found), encoding="utf-8")
