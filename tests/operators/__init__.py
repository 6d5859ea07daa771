"""One module per op, with its float64 reference and its cases.

A module is called as its op and has

- ``forward(...)`` and ``backward(dy, ...)``: the reference; arguments are the op's inputs, parameters and graph arrays
  by name, and its attributes but ``init`` and ``stats``; ``backward`` returns a dict of the gradients of all inputs and
  parameters given (and ``"digits"`` if the op reads them);
- ``GRADIENTS``: names of the arguments that have a gradient;
- ``cases()``: ``(name, make, attrs)`` of small calls, ``make(rng)`` being the array arguments (None: left out); an
  entry ``floor`` in attrs is the size below which an expected value counts as this (see ``cases.distance``);
- ``large()``: ``(make, attrs)`` of calls with several chunks, for the bits over threads.
"""

import importlib
import pkgutil

MODULES = {
    found.name: importlib.import_module(f"operators.{found.name}") for found in pkgutil.iter_modules(__path__)
}
