"""Training of several networks side by side, in threads that take turns and on ranks that share them."""

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
    ranks = Ranks(communicator)
    with ExitStack() as stack:
        fits = list[Fit]()
        for i, (network, how) in enumerate(zip(networks, options, strict=True)):
            mine = i % ranks.size == ranks.rank
            folder = stack.enter_context(locked_folder(how.checkpoint_dir)) if mine else None
            fits.append(network.begin(train, valid, folder, how, fits[0].data if shared and fits else None))
        crew = Crew(fits[ranks.rank :: ranks.size], workers)

        def work() -> Any:
            crew.run(options[0].verbose)
            for fit in crew.fits:
                if fit.step > 0 and fit not in crew.failed:
                    fit.end(crew.stop.pressed)
            if ranks.alone:
                return None
            return crew.stop.pressed, [crew.failed.get(fit) or fit.state() for fit in crew.fits]

        ranks.agree_on_bits(lambda: {**fits[0].facts(), "rankers": [fit.identity for fit in fits]})
        for other, found in enumerate(ranks.exchange(work)):
            if other != ranks.rank:
                _adopt(crew, fits[other :: ranks.size], *found)
        crew.fits = fits
    return crew


def _adopt(crew: Crew, fits: Sequence[Fit], pressed: bool, ends: Sequence[Any]) -> None:
    """Take over the fits of another rank, where each ended with a state, or failed with a text."""
    crew.stop.pressed |= pressed
    for fit, end in zip(fits, ends, strict=True):
        if isinstance(end, str):
            crew.failed[fit] = end
        else:
            fit.adopt(end, pressed)
