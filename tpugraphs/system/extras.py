"""Packages that not every installation has."""

import importlib
from typing import Any

from tpugraphs.errors import ConfigError


def optional(module: str, missing: str) -> Any:
    """Import an optional package; ConfigError with the text `missing` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(missing) from None
