"""Show where the published collections and times of layers are, or download them.

example:
  tpugraphs download layout:xla:random tile:xla --root ~/data/tpugraphs --run
  tpugraphs download layer-times ~/data/layers --run
"""

from tpugraphs.cli.common import Args, Parser, add_root, chosen, emit, option, remark, say
from tpugraphs.errors import ConfigError
from tpugraphs.system.words import counted

LAYERS = "layer-times"


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    meaning = (
        "collection, or COLLECTION/SPLIT such as layout:xla:random/valid (default: all five); or "
        f"`{LAYERS} DIR`: public tables of measured layers, all or those named after it (neusight_linear)"
    )
    option(parser, "collection COLLECTION", meaning, nargs="*")
    add_root(parser, "where to put them")
    meaning = "archives of the authors, or the Kaggle competition (needs an account)"
    option(parser, "--source", meaning, choices=("official", "kaggle"), default="official")
    meaning = "download and unpack now; after an interruption the same command resumes"
    option(parser, "--run", meaning, dest="now", action="store_true")
    option(parser, "--keep", "with --run: keep what was published, in DIR/.download")
    meaning = "folder of the archives, instead of the published one; for layer times, instead of GitHub"
    option(parser, "--url URL", meaning)


def run(args: Args) -> None:
    """Print the commands, or download."""
    from tpugraphs.download import sources as download

    if args.collection[:1] == [LAYERS]:
        return _layer_times(args)
    url = download.OFFICIAL if args.url is None else args.url
    if not args.now:
        plan = download.commands(args.collection, args.root, args.source, url)
        lines = [line for name, part in plan.items() for line in ([f"# {name}"] if name else []) + part]
        emit(args, {**chosen(args, "source", "root"), "commands": plan}, "\n".join(lines))
        if args.source == "official":
            remark(args, "# or: the same command with --run, which resumes, checks and unpacks")
        return
    if args.source == "kaggle":
        raise ConfigError(
            "--run downloads the archives of the authors; Kaggle needs your account: leave out --run and run "
            "the commands that are shown, or use --source official"
        )
    results = download.run(args.collection, args.root, url, keep=args.keep)
    emit(args, results)
    for result in results:
        name = f"{result['collection']}/{result['split']}"
        graphs = counted(result["files"], "graph")
        remark(args, f"{name}: {graphs}, {result['state']}, in {result['folder']}")
    what = f"{' '.join(args.collection)} --root {args.root}" if args.collection else args.root
    remark(args, f"next: tpugraphs audit {what}")


def _layer_times(args: Args) -> None:
    """List the public tables of layers, or download them."""
    from tpugraphs.download import layer_times

    if len(args.collection) < 2:
        raise ConfigError(f"{LAYERS}: give the folder that they go to, for example {LAYERS} ~/data/layers")
    folder, what = args.collection[1], args.collection[2:]
    if not args.now:
        tables = []
        for one in layer_times.tables(what):
            files = len(one.parts)
            tables.append({"table": one.name, "files": files, "bytes": one.size, "source": one.source})
            size = f"{counted(files, 'file')}, {counted(one.size, 'byte')}"
            say(args, f"{one.name}: {size}, of {one.source}")
        remark(args, f"not to be downloaded: {layer_times.PICKLED}.\nthe same command with --run downloads")
        emit(args, {"tables": tables, "pickled": layer_times.PICKLED})
        return
    url = {} if args.url is None else {"url": args.url}
    results = layer_times.run(folder, what, keep=args.keep, **url)
    for result in results:
        remark(args, f"{result['table']}: {result['state']}, {result['file']}, of {result['source']}")
    if layers := [result["file"] for result in results if result["file"].endswith(".gz")]:
        remark(args, f"next: tpugraphs layertime fit {layers[0]} --out model.safetensors")
    emit(args, results)
