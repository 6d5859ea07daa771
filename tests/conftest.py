"""Shared by all tests: parity tests are skipped, not failed, where PyTorch is not installed."""

import importlib.util

import pytest


def pytest_collection_modifyitems(items):
    missing = [name for name in ("torch", "torch_geometric") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    skip = pytest.mark.skip(reason=f"parity needs {' and '.join(missing)}: pip install '.[parity]'")
    for item in items:
        if item.get_closest_marker("parity"):
            item.add_marker(skip)
