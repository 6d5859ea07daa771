"""A zoo of small programs written in plain JAX, on which configurations of the compiler are measured.

A family is one program written once, at two to four sizes. The sizes differ in shape, not only in the batch,
so that another layout or option may win. Families that resemble each other form a group, and a group is in
one split: a program of the test split has no near-duplicate among those of the other splits. Programs
composed of random steps add to the train split.
"""

# A module adds its families to the table when it is imported.
from tpugraphs.xla.zoo import (  # noqa: F401
    attention,
    composed,
    convolution,
    dense,
    irregular,
    numeric,
    recurrent,
    spectral,
    training,
)
from tpugraphs.xla.zoo.registry import GROUPS, Family, Program, families, programs

__all__ = ["GROUPS", "Family", "Program", "families", "programs"]
