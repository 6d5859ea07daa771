"""Submission files of the competition: written, checked, merged, scored, filled from a ranker."""

from tpugraphs.submission import competition
from tpugraphs.submission.files import (
    Problem,
    Score,
    Validation,
    merge,
    read,
    score,
    to_frame,
    validate,
    write,
)

__all__ = [
    "Problem", "Score", "Validation", "competition", "merge", "read", "score", "to_frame", "validate",
    "write",
]  # fmt: skip
