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
from tpugraphs.system.files import file_name, name_of
from tpugraphs.system.texts import parsed, read_whole

__all__ = ["layers_of_json"]

_CONVOLUTIONS = ("convolution",)
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
    if hasattr(source, "read"):
        where, source = name_of(source), _read(source)
    elif isinstance(source, (str, os.PathLike)):
        where = file_name(source)
        source = _read(where)
    size: dict[str, Any] = {}
    if isinstance(source, Mapping):
        if "layers" not in source:
            raise DataError(f"{where}: expected the field 'layers', found {', '.join(map(str, source))}")
        given = source.get("input")
        size = dict(given) if isinstance(given, Mapping) else {}
        source = source["layers"]
    if isinstance(source, Mapping):
        source = list(source.values()) if not _numbered(source) else _in_order(source)
    if not isinstance(source, (list, tuple)) or not source:
        raise DataError(f"{where}: expected a list of layers, found {_short(source)}")
    found, side, channels = LayerList(), size.get("size"), size.get("dimension")
    for i, entry in enumerate(source):
        if not isinstance(entry, Mapping):
            raise DataError(f"{where}: layer {i}: expected an object, found {_short(entry)}")
        try:
            if "kind" in entry:
                found.append(_own(entry, i))
            else:
                layer, side, channels = _theirs(entry, i, side, channels)
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


def _numbered(layers: Mapping[Any, Any]) -> bool:
    return all(str(key).isascii() and str(key).isdigit() and len(str(key)) < 10 for key in layers)


def _in_order(layers: Mapping[Any, Any]) -> list[Any]:
    return [layers[key] for key in sorted(layers, key=lambda key: int(str(key)))]


def _own(entry: Mapping[str, Any], number: int) -> Layer:
    columns = {str(name): value for name, value in entry.items() if name not in ("kind", "name", "rows")}
    kind = entry["kind"]
    name = str(entry.get("name", f"{kind}_{number + 1}"))
    if not isinstance(kind, str):
        raise DataError(f"layer {name!r}: kind: expected a word, found {_short(kind)}")
    return Layer(name, kind, columns, entry.get("rows", 1), kind)


def _theirs(entry: Mapping[str, Any], number: int, side: Any, channels: Any) -> tuple[Layer, Any, Any]:
    """Return a layer, and the side and channels of its output, which the next may leave out."""
    made_of = str(entry.get("type"))
    name = str(entry.get("name", f"layer_{number + 1}"))
    known, where = made_of.lower(), f"layer {name!r} ({made_of})"
    sizes = {**{"matsize": side, "channels_in": channels}, **entry}

    def whole(field: str, default: Any = None) -> int:
        value = sizes.get(field)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1 << 31:
            raise DataError(f"{where}: {field}: expected a number above 0, found {_short(value)}")
        return math.ceil(value)  # the project keeps fractions where a stride does not divide a side

    if known in _DENSE:
        cin = (
            whole("dim_input", 0) if "dim_input" in entry else whole("matsize", 1) ** 2 * whole("channels_in")
        )
        cout = whole("dim_output" if "dim_output" in entry else "channels_out")
        return _dense(name, made_of, cin, cout, entry), 1, cout
    if known not in _CONVOLUTIONS and known not in _POOLING:
        expected = "Convolution, Fully_connected, Dense, Max_pool, Avg_pool"
        raise DataError(
            f"layer {name!r}: type: expected one of {expected}; found {_short(entry.get('type'))}"
        )
    side = whole("matsize")
    kernel = whole("pool_size" if "pool_size" in entry else "kernelsize")
    stride, padding = whole("strides", 1), str(entry.get("padding", "VALID")).upper()
    if padding not in ("VALID", "SAME"):
        raise DataError(f"{where}: padding: expected VALID or SAME, found {_short(entry['padding'])}")
    places = places_of(side, kernel, stride, padding)
    if places < 1:
        raise DataError(f"{where}: kernelsize: expected at most the side {side}, found {kernel}")
    if "output_size" in entry and whole("output_size") != places:
        raise DataError(
            f"{where}: output_size: expected {places}, which follows from the other fields, "
            f"found {_short(entry['output_size'])}"
        )
    cin = whole("channels_in", 0 if known in _CONVOLUTIONS else entry.get("channels_out"))
    if known in _CONVOLUTIONS and places == 1 and kernel == side:
        cout = whole("channels_out")
        return _dense(name, made_of, side * side * cin, cout, entry), 1, cout
    matsize, padding = window(side, kernel, stride, places)
    columns: dict[str, int | str] = {
        "matsize": matsize,
        "kernelsize": kernel,
        "strides": stride,
        "padding": padding,
    }
    if known in _POOLING:
        columns |= {"channels": cin, "op": _POOLING[known]}
        return Layer(name, "pooling", columns, source=made_of), places, cin
    cout = whole("channels_out")
    columns |= {"channels_in": cin, "channels_out": cout, "use_bias": entry.get("use_bias", 0)}
    columns["activation"] = _activation(entry)
    return Layer(name, "conv2d", columns, source=made_of), places, cout


def _dense(name: str, made_of: str, cin: int, cout: int, entry: Mapping[str, Any]) -> Layer:
    columns: dict[str, int | str] = {"dim_input": cin, "dim_output": cout}
    columns["activation"] = _activation(entry)
    return Layer(name, "dense", columns, source=made_of)


def _activation(entry: Mapping[str, Any]) -> str:
    given = str(entry.get("activation") or "None").lower()
    return "None" if given in ("none", "linear") else given


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:76]}..."
