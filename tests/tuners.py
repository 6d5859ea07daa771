"""A table that is replayed, and a tuner without a model, for tests of the loop and what uses it."""

import random

import tpugraphs as tg

VALUES = {"block": [16, 32, 64, 128], "unroll": [1, 2, 4, 8], "fast": [False, True]}
CONFIGS = [
    {"block": b, "unroll": u, "fast": f}
    for b in VALUES["block"]
    for u in VALUES["unroll"]
    for f in VALUES["fast"]
]
DEFAULT = CONFIGS[0]
SPACE = tg.Space(VALUES, default=DEFAULT)


def cost(config):
    """The runtime in the table; 128 with unroll 8 fails."""
    if config["block"] == 128 and config["unroll"] == 8:
        raise tg.tuning.Failed("compile", "out of registers")
    return 1 + abs(config["block"] - 64) / 64 + abs(config["unroll"] - 4) / 10 - 0.05 * config["fast"]


class Halves:
    """Asks in an order that follows from the seed and what it was told: near the best, or anywhere."""

    def __init__(self, seed=0):
        self.seed, self.told = seed, []

    def ask(self, n=1):
        told = {str(config) for config, *_ in self.told}
        left = [config for config in CONFIGS if str(config) not in told]
        good = [(runtime, config) for config, runtime, status in self.told if status == "correct"]
        best = min(good, key=lambda pair: pair[0])[1] if good else CONFIGS[0]
        rng = random.Random(repr((self.seed, self.told)))
        rng.shuffle(left)
        return sorted(left, key=lambda config: sum(config[k] != best[k] for k in config) > 1)[:n]

    def tell(self, configs, runtimes, status=None):
        self.told += zip(configs, runtimes, status, strict=True)


class Sampled:
    """Made as Tuner is; asks for a random order of the space."""

    def __init__(self, space, seed=0, **given):
        self.space, self.seed, self.given, self.told = space, seed, given, {}

    def ask(self, n=1):
        return [one for one in self.space.sample(10**4, self.seed) if str(one) not in self.told][:n]

    def tell(self, configs, runtimes, status=None):
        self.told |= {
            str(config): (time, how) for config, time, how in zip(configs, runtimes, status, strict=True)
        }
