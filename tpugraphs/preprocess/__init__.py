"""From a stored graph to what a model takes: pruning, merging of equal configs, scaling, encoding."""

from tpugraphs.preprocess.pruning import ConfigSampler, StandardScaler, dedup, fix_padding, prune

__all__ = ["ConfigSampler", "StandardScaler", "dedup", "fix_padding", "prune"]
