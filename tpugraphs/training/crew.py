"""Several fits at the same time, in threads that take turns with them."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from tpugraphs import _core
from tpugraphs.errors import Error
from tpugraphs.system import Interrupts, Progress
from tpugraphs.training.fit import Fit

_POLL = 0.05  # seconds between looks at the workers


class Crew:
    """Workers that take turns with the fits, one step at a time, always of the fit that is furthest behind.

    A worker is a thread that calls the core, so several steps run at the same time, each with its share of
    the core's threads: these wait for one another less than all threads do on one step. The models share
    their working memory: there is one for each worker.
    """

    def __init__(self, fits: Sequence[Fit], workers: int | None) -> None:
        self.fits, self.waiting = fits, list(fits)
        for fit in fits:
            fit.model.share_memory(fits[0].model)
        self.failed: dict[Fit, str] = {}
        self.threads, self.lock = _core.get_num_threads(), threading.Lock()
        self.live = min(len(fits), self.threads if workers is None else int(workers))
        self.stop = Interrupts()  # for the fits: the workers get no signals

    def run(self, verbose: bool | None) -> None:
        """Train until all fits are over, or one breaks, or Ctrl-C. A fit that diverges ends alone."""
        if not self.fits:
            return
        recipes = ", ".join(dict.fromkeys(fit.ranker.recipe for fit in self.fits))
        total = sum(fit.total for fit in self.fits)
        bar = Progress(total, f"{len(self.fits)} x {recipes}", "step", verbose)
        with bar, Interrupts() as interrupts, ThreadPoolExecutor(self.live) as pool:
            for fit in self.fits:
                fit.begin(interrupts)
            self.stop.pressed = interrupts.pressed
            jobs = [pool.submit(self._work, i) for i in range(self.live)]
            try:
                while not interrupts.pressed and wait(jobs, _POLL).not_done:
                    self._show(bar)
            except KeyboardInterrupt:  # of another handler of the signal
                if interrupts.pressed:
                    raise
            finally:
                while wait(jobs, _POLL).not_done:
                    self.stop.pressed = True
                    for fit in self.fits:  # this ends only passes that run now: ask again
                        fit.model.cancel()
            self._show(bar)
        for job in jobs:
            job.result()

    def _show(self, bar: Progress) -> None:
        best = [fit.history.best_metric for fit in self.fits if fit.history.best_metric is not None]
        metrics = {fit.ranker.metric for fit in self.fits}
        values = {metrics.pop(): float(np.mean(best))} if best and len(metrics) == 1 else {}
        bar.show(sum(fit.step for fit in self.fits), values)

    def _take(self, number: int) -> tuple[Fit, int] | None:
        """Return the fit that trains next, and its number of threads; None if nothing is left to do."""
        with self.lock:
            if self.stop.pressed or not self.waiting:  # the others do what is left
                self.live -= 1
                return None
            fit = min(self.waiting, key=lambda fit: fit.step)
            self.waiting.remove(fit)
            return fit, max(1, self.threads // self.live + (number < self.threads % self.live))

    def _work(self, number: int) -> None:
        while (taken := self._take(number)) is not None:
            fit, threads = taken
            _core.limit_threads(threads)
            try:
                if fit.advance(self.stop):
                    self.waiting.append(fit)
            except KeyboardInterrupt:
                pass
            except BaseException as error:
                if type(error) is not Error:
                    self.stop.pressed = True
                    raise
                self.failed[fit] = str(error)  # it diverged
