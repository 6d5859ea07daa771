"""One row per refusal: the call, the class of its error, and what the message must name.

    refuses(lambda: tg.load("none.npz"), FileNotFoundError, "none.npz")

Names are arguments, fields, files and values. The words around them are free, so none of them is pinned.
"""

import pytest


def refuses(call, error, *names):
    """Return what `call()` raises: of class `error`, with a message in which each of the `names` stands."""
    with pytest.raises(error) as caught:
        call()
    missing = [name for name in names if name not in str(caught.value)]
    if missing:
        pytest.fail(f"the message does not name {', '.join(missing)}: {caught.value}")
    return caught.value
