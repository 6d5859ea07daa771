"""Benchmarks against installed peers, as ratios in one run: ``python -m benchmarks --help``."""
