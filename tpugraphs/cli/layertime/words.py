"""Words of the commands of layer times. Made by docs/stubs.py; a test fails when it is out of date."""

# ruff: noqa
from __future__ import annotations


__all__ = ["KINDS", "OPTIMIZERS", "FIGURES", "METHODS", "FRAMEWORKS"]


KINDS = """
conv1d conv2d conv3d depthwise conv dense linear bmm attention lstm elementwise softmax layernorm
batchnorm pooling embedding
""".split()
OPTIMIZERS = "None SGD Momentum Adagrad RMSProp Adadelta Adam".split()
FIGURES = "peak_gflops bandwidth_gbps clock_mhz units cache_mb memory_gb".split()
METHODS = "residual roofline lightgbm mlpredict".split()
FRAMEWORKS = "torch jax".split()
