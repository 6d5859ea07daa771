"""Lists of layers in JSON: our own, and those of the ml-performance-prediction project.

The project: Justus, Brennan, Bonner and McGough, Predicting the Computational Cost of Deep Learning Models
(2018).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from tpugraphs.errors import DataError
from tpugraphs.layertime.networks.layer import Layer, LayerList, places_of, window
from tpugraphs.system.arguments import is_number
from tpugraphs.system.files import file_name, name_of
from tpugraphs.system.texts import parsed, read_whole

__all__ = ["layers_of_json"]

_DENSE = ("fully_connected", "dense")
_POOLING = {"max_pool": "max", "avg_pool": "average", "average_pool": "average"}


def layers_of_json(source: Any) -> LayerList:
    """Read a list of layers in JSON; see `read_layers` for what it may hold.

    Raises
    ------
    DataError
        Not such a file; the message names the layer and the field.
    """
    where = "layers"
    if hasattr(source, "read") or isinstance(source, (str, os.PathLike)):
        file = source if hasattr(source, "read") else file_name(source)
        where, source = name_of(file), _read(file)
    side = channels = None
    if isinstance(source, Mapping):
        if "layers" not in source:
            raise DataError(f"{where}: expected the field 'layers', found {', '.join(map(str, source))}")
        if isinstance(given := source.get("input"), Mapping):
            side, channels = given.get("size"), given.get("dimension")
        source = source["layers"]
    if isinstance(source, Mapping):
        keys = list(map(str, source))
        numbered = all(key.isascii() and key.isdigit() and len(key) < 10 for key in keys)
        order = sorted(range(len(keys)), key=lambda i: int(keys[i])) if numbered else range(len(keys))
        source = [list(source.values())[i] for i in order]
    if not isinstance(source, (list, tuple)) or not source:
        raise DataError(f"{where}: expected a list of layers, found {source!r:.80}")
    found = LayerList()
    for i, entry in enumerate(source):
        if not isinstance(entry, Mapping):
            raise DataError(f"{where}: layer {i}: expected an object, found {entry!r:.80}")
        try:
            if "kind" in entry:
                found.append(_own_layer(entry, i))
            else:
                layer, side, channels = _published(entry, i, side, channels)
                found.append(layer)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
    return found


def _read(source: Any) -> Any:
    raw = read_whole(source)
    try:
        return parsed(raw)
    except ValueError as error:
        raise DataError(f"{name_of(source)}: not a JSON file, or damaged: {error}") from None


def _own_layer(entry: Mapping[str, Any], number: int) -> Layer:
    columns = {str(name): value for name, value in entry.items() if name not in ("kind", "name", "rows")}
    kind = entry["kind"]
    name = str(entry.get("name", f"{kind}_{number + 1}"))
    if not isinstance(kind, str):
        raise DataError(f"layer {name!r}: kind: expected a word, found {kind!r:.80}")
    return Layer(name, kind, columns, entry.get("rows", 1), kind)


def _published(entry: Mapping[str, Any], number: int, side: Any, channels: Any) -> tuple[Layer, Any, Any]:
    """Return a layer, and the side and channels of its output, which the next may leave out."""
    made_of = str(entry.get("type"))
    name = str(entry.get("name", f"layer_{number + 1}"))
    known, where = made_of.lower(), f"layer {name!r} ({made_of})"
    sizes = {**{"matsize": side, "channels_in": channels}, **entry}

    def whole(field: str, default: Any = None) -> int:
        value: float = default if sizes.get(field) is None else sizes[field]
        if not is_number(value) or not 0 < value < 1 << 31:
            raise DataError(f"{where}: {field}: expected a number above 0, found {value!r:.80}")
        return math.ceil(value)  # the project keeps fractions where a stride does not divide a side

    def dense(cin: int, cout: int) -> tuple[Layer, int, int]:
        columns: dict[str, int | str] = {"dim_input": cin, "dim_output": cout}
        columns["activation"] = _activation(entry)
        return Layer(name, "dense", columns, source=made_of), 1, cout

    if known in _DENSE:
        given = "dim_input" in entry
        cin = whole("dim_input", 0) if given else whole("matsize", 1) ** 2 * whole("channels_in")
        return dense(cin, whole("dim_output" if "dim_output" in entry else "channels_out"))
    if known != "convolution" and known not in _POOLING:
        expected = "Convolution, Fully_connected, Dense, Max_pool, Avg_pool"
        found = entry.get("type")
        raise DataError(f"layer {name!r}: type: expected one of {expected}; found {found!r:.80}")
    side = whole("matsize")
    kernel = whole("pool_size" if "pool_size" in entry else "kernelsize")
    stride, padding = whole("strides", 1), str(entry.get("padding", "VALID")).upper()
    if padding not in ("VALID", "SAME"):
        raise DataError(f"{where}: padding: expected VALID or SAME, found {entry['padding']!r:.80}")
    places = places_of(side, kernel, stride, padding)
    if places < 1:
        raise DataError(f"{where}: kernelsize: expected at most the side {side}, found {kernel}")
    if "output_size" in entry and whole("output_size") != places:
        raise DataError(
            f"{where}: output_size: expected {places}, which follows from the other fields, "
            f"found {entry['output_size']!r:.80}"
        )
    cin = whole("channels_in", entry.get("channels_out") if known in _POOLING else 0)
    if known not in _POOLING and places == 1 and kernel == side:
        return dense(side * side * cin, whole("channels_out"))
    matsize, padding = window(side, kernel, stride, places)
    columns: dict[str, Any] = {
        "matsize": matsize,
        "kernelsize": kernel,
        "strides": stride,
        "padding": padding,
    }
    if known in _POOLING:
        columns |= {"channels": cin, "op": _POOLING[known]}
        return Layer(name, "pooling", columns, source=made_of), places, cin
    cout = whole("channels_out")
    columns |= {"channels_in": cin, "channels_out": cout}
    columns |= {"use_bias": entry.get("use_bias", 0), "activation": _activation(entry)}
    return Layer(name, "conv2d", columns, source=made_of), places, cout


def _activation(entry: Mapping[str, Any]) -> str:
    given = str(entry.get("activation") or "None").lower()
    return "None" if given in ("none", "linear") else given
