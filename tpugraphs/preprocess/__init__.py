"""From a stored graph to what a model takes: pruning, merging of equal configs, scaling, encoding."""

from tpugraphs.kernels.graph import ConfigSampler
from tpugraphs.kernels.scaler import StandardScaler
from tpugraphs.preprocess.blocks import block_divergence, filter_blocks
from tpugraphs.preprocess.pruning import dedup, fix_padding, prune
from tpugraphs.preprocess.tables import layout_table, layout_table_names

__all__ = [
    "ConfigSampler", "StandardScaler", "block_divergence", "dedup", "filter_blocks", "fix_padding",
    "layout_table", "layout_table_names", "prune",
]  # fmt: skip
