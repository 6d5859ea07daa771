"""The kernels as PyTorch autograd functions, and graphs for PyTorch Geometric (extra ``[torch]``).

Every op of `tpugraphs.kernels` that has gradients and every loss is here under the same name, with the same
arguments except ``out``, for tensors instead of arrays. A loss returns only its value, a 0-dimensional
tensor.

>>> import torch
>>> import tpugraphs as tg
>>> scores = torch.zeros(3, requires_grad=True)
>>> tg.torch.pairwise_hinge(scores, torch.tensor([30, 10, 20])).backward()
>>> scores.grad
tensor([-0.2222,  0.2222,  0.0000])

A custom loss written in PyTorch can train a ranker of the package: see `as_loss`.

What is copied
    C-contiguous float32 tensors on the CPU are read in place, as are whole numbers; results are tensors over
    the memory that the kernel wrote. A float tensor of another dtype, or one that is not contiguous, is
    copied to contiguous float32: once in the forward and once more in the backward pass, which keeps no copy
    in between. So all sums are in float32, whatever the dtype: ``gradcheck`` of float64 tensors sees rounding
    to float32.
What comes back
    The result of an op has the common dtype of its float tensors (`torch.promote_types`), a loss that of the
    scores, and each gradient that of its tensor. Whole numbers are never converted: the error names the
    expected dtype. Loss `values` are read as float64, `runtimes` as they are.
Gradients
    They are computed for the tensors that require them. Graph arrays and targets of losses have none: a float
    tensor there that requires one is refused. There are no second derivatives and no forward mode. Inputs are
    kept by ``save_for_backward``: changes in place are noticed, and hooks for saved tensors see them.
Threads
    Kernels run without the GIL, on ``tpugraphs.set_num_threads`` threads. Where PyTorch uses the same OpenMP
    library, both share one pool of threads, and ``torch.set_num_threads`` limits ours.

Edges
    ``edge_index`` is always (2, E) here, sources and targets, as in PyTorch Geometric; also in `from_pyg`. In
    `tpugraphs.kernels` and in graphs it is (E, 2), which is refused here, except that E = 2 is ambiguous.

Tensors whose memory the CPU cannot read are refused (`ConfigError`): those on another device, sparse, nested,
quantised and fake ones, those within ``torch.vmap``, and those whose storage was freed. Wrong shapes are a
`ShapeError`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tpugraphs.torch needs PyTorch: pip install 'tpugraphs[torch]'", name=error.name
    ) from None

from tpugraphs.torch.bridge import LOSSES, OPS, faces
from tpugraphs.torch.own_loss import as_loss
from tpugraphs.torch.pyg import from_pyg, to_pyg

__all__ = ["LOSSES", "OPS", "as_loss", "from_pyg", "to_pyg"]
_FACES = faces()
globals().update(_FACES)
__all__ += _FACES
