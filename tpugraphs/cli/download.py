"""``tpugraphs download``: the published collections, as commands or right away."""

from __future__ import annotations

import argparse

from tpugraphs.cli import common
from tpugraphs.errors import ConfigError

HELP = "show the commands that download the published collections, or run the download"
EXAMPLE = "tpugraphs download layout:xla:random tile:xla --root ~/data/tpugraphs --run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    common.option(
        parser,
        "collection COLLECTION",
        "collection, or COLLECTION/SPLIT such as layout:xla:random/valid (default: all five)",
        nargs="*",
    )
    common.add_root(parser, "where to put them")
    common.option(
        parser,
        "--source",
        "archives of the authors, or the Kaggle competition (needs an account); default: %(default)s",
        choices=("official", "kaggle"),
        default="official",
    )
    meaning = "download and unpack now; after an interruption the same command resumes"
    common.option(parser, "--run", meaning, dest="now", action="store_true")
    common.option(parser, "--keep", "with --run: keep the archives, in DIR/.download")
    common.option(parser, "--url URL", "folder of the archives, instead of the published one")


def run(args: argparse.Namespace) -> int:
    """Print the commands, or download."""
    from tpugraphs.download import sources as download

    url = download.OFFICIAL if args.url is None else args.url
    if not args.now:
        plan = download.commands(args.collection, args.root, args.source, url)
        common.emit(args, {"source": args.source, "root": args.root, "commands": plan})
        lines = [line for name, part in plan.items() for line in ([f"# {name}"] if name else []) + part]
        common.say(args, "\n".join(lines))
        if args.source == "official":
            common.say(args, "# or: the same command with --run, which resumes, checks and unpacks")
        return 0
    if args.source == "kaggle":
        raise ConfigError(
            "--run downloads the archives of the authors; Kaggle needs your account: leave out --run and run "
            "the commands that are shown, or use --source official"
        )
    verbose = False if args.json else (True if common.show_progress(args) else None)
    results = download.run(args.collection, args.root, url, keep=args.keep, verbose=verbose)
    common.emit(args, results)
    for result in results:
        name = f"{result['collection']}/{result['split']}"
        common.say(args, f"{name}: {result['files']:,} graphs, {result['state']}, in {result['folder']}")
    what = f"{' '.join(args.collection)} --root {args.root}" if args.collection else args.root
    common.say(args, f"next: tpugraphs audit {what}")
    return 0
