"""What scikit-learn expects of an estimator: parameters, tags, clones, metadata, tables as graphs.

scikit-learn is imported when one of its hooks is called, never with this package.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tpugraphs.data import Graph, Schema, arrays
from tpugraphs.data.schema import is_rate
from tpugraphs.errors import ConfigError, DataError, Error
from tpugraphs.system.words import counted
from tpugraphs.training.trainset import as_graphs

_SHOWN = 5  # names of columns that a message lists


class Convention:
    """Parameters, clones, tags and metadata requests, as scikit-learn expects them of an estimator.

    A scorer only has to keep every constructor argument in an attribute of the same name.
    """

    #: Whether tables (n, F) may stand in for graphs.
    takes_tables: bool = False

    @property
    def fitted(self) -> bool:
        """Whether it can predict."""
        return True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name.

        Parameters
        ----------
        deep : bool
            Also return the arguments of nested scorers, such as ``ranker__steps``.

        Raises
        ------
        ConfigError
            The constructor keeps an argument under another name, or takes ``*args`` or ``**kwargs``.
        """
        found: dict[str, Any] = {}
        for name, parameter in inspect.signature(type(self)).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                todo = "define get_params, as the constructor takes any names"
                raise ConfigError(f"{type(self).__name__}: {todo}")
            if not hasattr(self, name):
                raise ConfigError(
                    f"{type(self).__name__}: no attribute {name!r}; keep every argument of the constructor "
                    "under its name, as scikit-learn expects, or define get_params"
                )
            found[name] = getattr(self, name)
        for name, value in [*found.items()] if deep else ():
            if hasattr(value, "get_params"):
                found |= {f"{name}__{key}": own for key, own in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments, and forget what was learnt; nested scorers are copied first.

        Raises
        ------
        ConfigError
            A name that the constructor does not have, or a value that it refuses.
        """
        if not params:
            return self
        given = dict(self.get_params(deep=False))
        inner_last = sorted(params.items(), key=lambda one: "__" in one[0])  # of scorers given in this call
        for name, value in inner_last:
            outer, _, inner = name.partition("__")
            if outer not in given or (inner and not hasattr(given[outer], "set_params")):
                known = f"{type(self).__name__}; there are {', '.join(given)}"
                raise ConfigError(f"unknown parameter {name!r} of {known}")
            given[outer] = copy.copy(given[outer]).set_params(**{inner: value}) if inner else value
        made = vars(type(self)(**given))  # a refused value changes neither this scorer nor nested ones
        routed = {name: value for name, value in vars(self).items() if name == "_metadata_request"}
        vars(self).clear()
        vars(self).update(made, **routed)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return a clone with copies of the arguments; nested scorers keep what they have learnt."""
        made = type(self)(**{name: copy.deepcopy(v) for name, v in self.get_params(deep=False).items()})
        if hasattr(self, "_metadata_request"):
            made._metadata_request = copy.deepcopy(self._metadata_request)
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted

    def __sklearn_tags__(self) -> Any:
        utils = importlib.import_module("sklearn.utils")
        tables = utils.InputTags(two_d_array=self.takes_tables)
        target = utils.TargetTags(required=self.takes_tables, positive_only=True)
        return utils.Tags(estimator_type=None, target_tags=target, input_tags=tables)

    def get_metadata_routing(self) -> Any:
        """Return the metadata that `fit` requests from scikit-learn's routing (``set_fit_request``)."""
        return getattr(self, "_metadata_request", None) or self._request(None)

    def set_fit_request(self, *, sample_weight: bool | str | None = None) -> Self:
        """Choose whether meta-estimators pass `sample_weight` to `fit`, where metadata routing is enabled.

        Parameters
        ----------
        sample_weight : bool, str or None
            True: pass it; False: do not; None: raise an error if it is given; a name: pass the metadata of
            that name.
        """
        self._metadata_request = self._request(sample_weight)
        return self

    def _request(self, sample_weight: bool | str | None) -> Any:
        request = importlib.import_module("sklearn.utils.metadata_routing").MetadataRequest(owner=self)
        if "sample_weight" in inspect.signature(self.fit).parameters:  # type: ignore[attr-defined]
            request.fit.add_request(param="sample_weight", alias=sample_weight)
        return request


def not_fitted(message: str) -> Error:
    """Make the error of an unfitted scorer: also a NotFittedError of scikit-learn, if that is imported."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    return Error(message) if theirs is None else _both(theirs)(message)


@functools.cache
def _both(theirs: Any) -> Any:
    return type("NotFittedError", (Error, theirs), {"__module__": __name__})


def __getattr__(name: str) -> Any:
    """Find the class of `not_fitted` for pickle, for example in joblib's processes."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _both(importlib.import_module("sklearn.exceptions").NotFittedError)


# Tables and runtimes


def is_table(given: Any) -> bool:
    """Whether an argument is meant as a table (n, F): any array except an array of graphs."""
    if hasattr(given, "config_runtime") or not (hasattr(given, "shape") or hasattr(given, "__array__")):
        return False
    return _ndim(given) != 1 or getattr(given, "dtype", None) != np.dtype(object)


def _ndim(array: Any) -> int:
    return len(array.shape) if hasattr(array, "shape") else np.asarray(array).ndim


def as_graph(given: Any, runtime: Any = None, scorer: Any = None) -> Any:
    """Return a table as a graph whose configs are the rows; anything else as it is.

    Parameters
    ----------
    given : graph, or (n, F) array
    runtime : (n,) array, optional
    scorer : Scorer, optional
        If it has learnt from a table, `given` must have the same columns.

    Raises
    ------
    DataError
        Not a table of finite numbers, without rows, or with other columns.
    """
    if not is_table(given):
        return given
    schema = getattr(scorer, "schema", None) if scorer is not None and scorer.fitted else None
    if schema is not None:
        _check_names(arrays.column_names(given), schema.names("config"), type(scorer).__name__)
    if not isinstance(given, np.ndarray) and hasattr(given, "nnz"):
        raise ConfigError("X: expected a dense table, got a sparse one; use X.toarray()")
    table = _numbers("X", given, "fiub", "tg.from_frame reads words")
    if table.ndim != 2:
        found = f"found shape {table.shape}. Reshape your data"
        raise DataError(f"X: expected a 2D table, one row per configuration, {found}")
    columns = table.shape[1] if schema is None else len(schema.config)
    if table.shape[1] != columns:
        whose = f"{type(scorer).__name__} is expecting {columns} features as input"
        raise DataError(f"X has {table.shape[1]} features, but {whose}")
    for size, what in zip(table.shape, ("sample", "feature"), strict=True):
        if size == 0:  # in scikit-learn's words, which its checks look for
            found = f"Found array with 0 {what}(s) (shape={table.shape})"
            raise DataError(f"{found} while a minimum of 1 is required.")
    bad = np.flatnonzero(~np.isfinite(table).all(1))
    if bad.size:
        raise DataError(f"X: expected finite numbers, found NaN or inf in row {int(bad[0])}")
    times = None if runtime is None else _runtimes(runtime, len(table), "row")
    if times is not None:
        if len(table) == 1:
            raise DataError("X: expected rows to compare with each other, found 1 sample")
        todo = "leave these rows out of X and y, or measure them again"
        arrays.refuse("y", ~((times > 0) & np.isfinite(times)), times, "runtimes > 0", todo)
    names = arrays.column_names(given)
    named = names and Schema.infer(config_feat=table, names={"config": names})
    return Graph(config_feat=table, runtime=times, schema=named or None, name="table")


def _numbers(field: str, given: Any, kinds: str, todo: str) -> NDArray[Any]:
    """Return an array as it is if its dtype is of these kinds, else as float64."""
    arrays.check_mask(field, given)
    try:
        array = np.asarray(given)
        array = array if array.dtype.kind in f"{kinds}c" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{field}: expected numbers, found others ({error}); {todo}") from None
    if array.dtype.kind == "c":
        raise DataError(f"{field}: expected real numbers. Complex data not supported; {todo}")
    return array


def _check_names(given: tuple[str, ...] | None, known: tuple[str, ...], whose: str) -> None:
    """Refuse a table whose columns differ from those of the fit, in scikit-learn's words."""
    if not given or not known:
        if bool(given) != bool(known):
            has = "X has feature names" if given else "X does not have valid feature names"
            fitted = "with feature names" if known else "without feature names"
            warnings.warn(f"{has}, but {whose} was fitted {fitted}", stacklevel=4)
        return
    if given == known:
        return
    lines = ["The feature names should match those that were passed during fit."]
    for heading, names in (
        ("Feature names unseen at fit time:", sorted(set(given) - set(known))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(known) - set(given))),
    ):
        some = [f"- {name}" for name in names[:_SHOWN]] + ["- ..."] * (len(names) > _SHOWN)
        lines += [heading, *some] if names else []
    if len(lines) == 1:
        lines.append("Feature names must be in the same order as they were in fit.")
        lines.append(f"Use X[[{', '.join(map(repr, known[:_SHOWN]))}{', ...' * (len(known) > _SHOWN)}]]")
    raise DataError("\n".join(lines) + "\n", field="X", found=", ".join(given), expected=", ".join(known))


def _runtimes(given: Any, count: int, what: str, file: str | None = None) -> NDArray[Any]:
    """Return runtimes as an array (count,) of numbers."""
    name = getattr(given, "name", None)
    if is_rate(name):
        text = f"y: less is taken as better, though {name!r} looks like a quantity of which more is"
        todo = "give 1 / y without that name, as (1 / y).to_numpy() does"
        warnings.warn(f"{text}: {todo}", stacklevel=6)
    times = _numbers("y", given, "fiu", "pass a number per config")
    times = times.ravel() if times.ndim == 2 and times.shape[1] == 1 else times
    if times.shape != (count,):
        expected, todo = f"one runtime per {what} ({count},)", f"give as many as there are {what}s"
        raise DataError.of("y", expected, f"shape {times.shape}", todo, file=file)
    return times


def is_runtimes(given: Any) -> bool:
    """Whether the second argument of `fit` is y: runtimes, and not validation graphs or a share."""
    if given is None or isinstance(given, (Real, str, Mapping)) or hasattr(given, "config_runtime"):
        return False
    if is_table(given):
        return _ndim(given) > 0
    if not (isinstance(given, (list, tuple, np.ndarray)) or hasattr(given, "iloc")) or not len(given):
        return False
    first = next((one for one in given if one is not None), None)  # None: that graph has its own
    return first is None or isinstance(first, (Real, list, tuple)) or is_table(first)


def measured(graphs: Any, y: Any, scorer: Any = None) -> Any:
    """Return graphs, or a table, with runtimes `y` in place of their own.

    Parameters
    ----------
    graphs : graph, sequence of graphs, or (n, F) array
    y : (C,) array, or one such array per graph, or None
        Runtimes, so smaller is better. None, here or in the list, stands for a graph's own runtimes.
    scorer : Scorer, optional
        See `as_graph`.

    Raises
    ------
    ConfigError
        Not one array per graph.
    DataError
        Not one runtime per config, or one that is not above 0; see also `as_graph`.
    """
    if is_table(graphs):
        if y is None:
            none = "the target y is None: a table has no runtimes of its own"
            raise ConfigError(f"requires y to be passed, but {none}")
        return as_graph(graphs, y, scorer)
    if y is None:
        return graphs
    if hasattr(graphs, "config_runtime"):
        return _with(graphs, y)
    listed = as_graphs("graphs", graphs)
    found = len(y) if hasattr(y, "__len__") else type(y).__name__
    if found != len(listed):
        expected = f"None, or {counted(len(listed), 'array')} of runtimes, one per graph"
        raise ConfigError(f"y: expected {expected}, got {found}")
    return [_with(listed[i], times) for i, times in enumerate(y)]  # by place, also of a pandas Series


def _with(graph: Graph, runtime: Any) -> Graph:
    if not hasattr(graph, "config_runtime"):
        found, todo = type(graph).__name__, "tg.load(path) to read a file, np.asarray(X) for a table"
        raise ConfigError(f"X: expected graphs or a table, found a list of {found}; use {todo}")
    if runtime is None:
        return graph
    times = _runtimes(runtime, graph.num_configs, "config", str(graph.name))
    if np.array_equal(times, graph.runtime, equal_nan=times.dtype.kind == "f"):
        return graph
    return graph.replace(**{"runtime" if "runtime" in graph.fields() else "config_runtime": times})


def learnable(train: Any, second: Any, y: Any = None) -> tuple[Any, Any]:
    """Return the graphs that `fit` learns from and validates on, from its first two arguments and `y`.

    scikit-learn passes runtimes as the second argument; otherwise that is validation graphs or a share.
    """
    if is_table(train):
        given, second = (y, second) if y is not None or isinstance(second, Real) else (second, None)
        return measured(train, given), second
    if is_runtimes(second):
        if y is not None:
            raise ConfigError("y: runtimes are given twice, as the second argument and as y=")
        y, second = second, None
    return measured(train, y), second


def every_graph(what: str, graphs: Any) -> Iterator[Graph]:
    """Return an iterator over graphs, given as one graph, a sequence that may load them, or any iterable."""
    sequence = as_graphs(what, graphs)
    return (sequence[i] for i in range(len(sequence)))
