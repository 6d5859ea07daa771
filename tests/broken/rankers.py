"""Broken ranker files: name -> (change of a good file's metadata and tensors, a word of the error)."""

import json
import struct

import numpy as np


def rewrite(path, target, change):
    """Copy of a ranker file with changed metadata and tensors, and the digests of those."""
    from safetensors.numpy import load, save

    from tpugraphs.system.tensorfile import with_digests

    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    metadata = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["tpugraphs"])
    tensors = load(data)
    metadata.pop("_digests")
    change(metadata, tensors)
    metadata = with_digests(metadata, tensors)
    target.write_bytes(save(tensors, {"tpugraphs": json.dumps(metadata)}))
    return target


def changed(**values):
    return lambda metadata, tensors: metadata.update(values)


def in_steps(position, key, value):
    return lambda metadata, tensors: metadata["steps"][position]["attrs"].update({key: value})


BROKEN = {
    "version": (changed(version=99), "version"),
    "kind": (changed(kind="checkpoint"), "kind"),
    "schema": (changed(feature_schema=2), "feature_schema"),
    "recipe": (changed(recipe="seventeenth"), "seventeenth"),
    "recipe is a list": (changed(recipe=[1]), "recipe"),
    "no fields": (lambda m, t: m.pop("fields"), "fields"),
    "unknown field": (lambda m, t: m["fields"].update(nonsense=1), "nonsense"),
    "field out of range": (lambda m, t: m["fields"].update(width=-5), "width"),
    "steps is text": (changed(steps="x"), "steps"),
    "no steps": (changed(steps=[]), "no step makes"),
    "step is a number": (lambda m, t: m["steps"].__setitem__(0, 4), "steps"),
    "many steps": (lambda m, t: m.update(steps=m["steps"] * 40), "steps"),
    "huge layer": (in_steps(2, "out", 10**12), "out"),
    "other layer": (in_steps(2, "out", 24), "linear1.weight"),
    "negative attribute": (in_steps(2, "out", -3), "out"),
    "attribute of 400 places": (in_steps(2, "out", 10**400), "out"),
    "attribute out of its op's range": (
        in_steps(3, "dropout", 1.0),
        "dropout: expected a number in 0..0.9999999999999999",
    ),
    "attribute that there is not": (in_steps(2, "size", 3), "found 'size'"),
    "attribute that is a list": (in_steps(2, "out", [24]), "out"),
    "word that is no choice": (in_steps(3, "act", "sine"), "act"),
    "step without a name": (lambda m, t: m["steps"][1].pop("name"), "name"),
    "shared parameter that is not there": (
        lambda m, t: m["steps"][2].update(share={"table": "nowhere.weight"}),
        "nowhere.weight",
    ),
    "unknown op": (lambda m, t: m["steps"][3].update(op="teleport"), "teleport"),
    "NaN in JSON": (in_steps(7, "dropout", float("nan")), "NaN"),
    "preprocessing": (changed(preprocessing=[]), "linear1.weight"),
    "preprocessing of another kind": (
        lambda m, t: m["preprocessing"][0].update(step="crop"),
        "preprocessing",
    ),
    "pruning": (lambda m, t: m["preprocessing"][0].update(method="haircut"), "preprocessing"),
    "scaler columns": (lambda m, t: m["preprocessing"][3].update(columns=2), "scaler.mean"),
    "missing weight": (lambda m, t: t.pop("head.bias"), "head.bias"),
    "transposed weight": (lambda m, t: t.update({"head.weight": t["head.weight"].T.copy()}), "head.weight"),
    "wide weight": (lambda m, t: t.update({"head.bias": t["head.bias"].astype(np.float64)}), "head.bias"),
    "half weight": (lambda m, t: t.update({"head.bias": t["head.bias"].astype(np.float16)}), "head.bias"),
    "NaN weight": (lambda m, t: t.update({"head.bias": t["head.bias"] * np.nan}), "head.bias"),
    "missing scaler": (lambda m, t: t.pop("scaler.mean"), "scaler.mean"),
    "short scaler": (lambda m, t: t.update({"scaler.mean": t["scaler.mean"][:5]}), "scaler.mean"),
    "negative variance": (lambda m, t: t.update({"scaler.m2": t["scaler.m2"] - 1e9}), "scaler.m2"),
}
