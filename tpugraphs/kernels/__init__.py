"""The C kernels over NumPy arrays, for numeric checks and for building one's own models.

Arrays are C-contiguous and of exactly the dtype a function names: nothing is cast or copied silently.
"""

from tpugraphs.kernels.losses import list_mle, pairwise_hinge

__all__ = ["list_mle", "pairwise_hinge"]
