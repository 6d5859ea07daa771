"""A zoo of programs written in plain JAX, on which configurations of the compiler are measured.

A family is one program written once, at four sizes: two small ones, most of which take less than a
millisecond on two cores, one of about 5 ms and one of tens of milliseconds. They differ in shape, not only in
the batch, so that another layout or option may win. Families that resemble each other form a group, and each
group is in one split, so a program of the test split has no near-duplicate in other splits. The train split
also has programs composed of random steps.
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
