"""Show, merge and convert records of measured configurations.

example:
  tpugraphs records show tuning.jsonl
  tpugraphs records merge all.jsonl laptop.jsonl cluster.jsonl
  tpugraphs records export cache.json cache.csv
"""

from __future__ import annotations

COMMANDS = "show merge export".split()
