"""Training of several networks side by side, in threads that take turns and on ranks that share them."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tpugraphs.data.graph import Valid
from tpugraphs.distributed.ranks import CommunicatorLike, Ranks
from tpugraphs.ranker.estimator import NetworkEstimator
from tpugraphs.system import check_whole
from tpugraphs.training.crew import Crew
from tpugraphs.training.fit import Fit, FitOptions, locked_folder


def train_together(
    networks: Sequence[NetworkEstimator],
    train: Any,
    valid: Valid,
    options: Sequence[FitOptions],
    workers: int | None,
    shared: bool = False,
    communicator: CommunicatorLike | None = None,
) -> Crew:
    """Train networks side by side, from scratch; each gets the same bits as if trained alone.

    Parameters
    ----------
    networks : sequence of NetworkEstimator
        Not fitted yet.
    train, valid
        See :meth:`tpugraphs.Ranker.fit`.
    options : sequence of FitOptions
        Checked options of every network; `verbose` is that of the first.
    workers : int or None
        Number of steps taken at the same time; None: as many as networks or threads.
    shared : bool
        Whether all prepare graphs in the same way, as several seeds of one recipe do; it is then done once.
    communicator : CommunicatorLike, optional
        Ranks that share the networks, and all get them.

    Returns
    -------
    Crew
        All fits in order, those that failed, and whether Ctrl-C ended the training. The other fits are
        complete.
    """
    if workers is not None:
        check_whole("workers", workers, 1)
    rank, size = (0, 1) if communicator is None else (communicator.rank, communicator.size)
    with ExitStack() as stack:
        fits = list[Fit]()
        for i, (network, how) in enumerate(zip(networks, options, strict=True)):
            mine = i % size == rank
            folder = stack.enter_context(locked_folder(how.checkpoint_dir)) if mine else None
            fits.append(network.begin(train, valid, folder, how, fits[0].data if shared and fits else None))
        crew = Crew(fits[rank::size], workers)

        def work() -> bytes:
            crew.run(options[0].verbose)
            for fit in crew.fits:
                if fit.step > 0 and fit not in crew.failed:
                    fit.end(crew.stop.pressed)
            return b"" if communicator is None else _packed(crew)

        if communicator is None:
            work()
        else:
            ranks = Ranks(communicator)
            ranks.agree_on_bits(lambda: {**fits[0].facts(), "rankers": [fit.identity for fit in fits]})
            for other, message in enumerate(ranks.exchange(work)):
                if other != rank:
                    _adopt(crew, fits[other::size], message)
            crew.fits = fits
    return crew


def _packed(crew: Crew) -> bytes:
    """Return the final states of a crew's fits as bytes, for `_adopt`."""
    states = [b"" if fit in crew.failed else fit.state() for fit in crew.fits]
    facts = [[crew.failed.get(fit), len(state)] for fit, state in zip(crew.fits, states, strict=True)]
    return json.dumps([crew.stop.pressed, facts]).encode() + b"\n" + b"".join(states)


def _adopt(crew: Crew, fits: Sequence[Fit], message: bytes) -> None:
    """Take over the fits of another rank."""
    head, _, rest = message.partition(b"\n")
    pressed, facts = json.loads(head)
    crew.stop.pressed |= pressed
    for fit, (failed, length) in zip(fits, facts, strict=True):
        if failed is not None:
            crew.failed[fit] = failed
        else:
            fit.adopt(rest[:length], pressed)
        rest = rest[length:]
