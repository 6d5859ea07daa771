"""``tpugraphs layertime``: how long layers and networks take on a device."""

from __future__ import annotations

HELP = "measure, learn and predict how long layers of networks take on a device"
EXAMPLE = (
    "tpugraphs layertime measure dense conv2d --count 500 --out times\n"
    "  tpugraphs layertime fit times/dense.csv --out dense.safetensors\n"
    "  tpugraphs layertime predict dense.safetensors --layer batch=32 dim_input=1024 dim_output=4096 "
    "--device this"
)
COMMANDS = "measure audit fit calibrate suggest predict network".split()
