r"""Measure, learn and predict how long layers of networks take on a device.

example:
  tpugraphs layertime measure dense conv2d --count 500 --out times
  tpugraphs layertime fit times/dense.csv --out dense.safetensors
  tpugraphs layertime predict dense.safetensors --layer batch=32 dim_input=1024 dim_output=4096 \
      --device this
"""

from __future__ import annotations

COMMANDS = "measure audit fit calibrate suggest predict network".split()
