"""Build and install libtpugraphs, the library in C that scores with rankers.

example:
  tpugraphs clib --prefix ~/.local
"""

import os
import subprocess
import tempfile
from pathlib import Path

from tpugraphs.cli.common import Args, Parser, emit, option, remark
from tpugraphs.errors import ConfigError, Error

PACKED = Path(__file__).parents[1] / "clib"  # in a wheel; a checkout has its sources above the package


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    option(parser, "--prefix DIR", "folder to install to, which gets include/ and lib/", required=True)
    option(parser, "--serial", "without OpenMP: on the threads of the caller, or those that it gives, alone")
    option(parser, "--small", "for size (-Os), with the kernels of the plainest processor alone")
    option(parser, "--only RANKER ...", "small, and for networks like this one alone")


def run(args: Args) -> None:
    """Run `make install` of the sources in this package, in a folder that is removed again."""
    sources = PACKED if PACKED.is_dir() else PACKED.parents[1]
    if not (sources / "include" / "tpugraphs.h").is_file():
        todo = "install tpugraphs from a wheel, or from a checkout"
        raise ConfigError(f"{sources}: no sources of the library here; {todo}")
    prefix = Path(args.prefix).expanduser().absolute()
    with tempfile.TemporaryDirectory() as folder:
        command = ["make", "-s", "-C", str(sources), f"-j{os.cpu_count()}", "install"]
        command += [f"PREFIX={prefix}", f"LIB={folder}/lib"]
        command += ["SERIAL=1"] * args.serial + ["SMALL=1", "OPT=-Os"] * (args.small or bool(args.only))
        command += needed(args.only) if args.only else []
        remark(args, f"compiling {sources}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except FileNotFoundError:
            raise ConfigError("make: not found; install make and a compiler of C") from None
    if done.returncode != 0:
        raise Error(f"make: exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    text = f"{prefix}: libtpugraphs; pkg-config finds it in {prefix / 'lib' / 'pkgconfig'}"
    emit(args, {"prefix": str(prefix)}, text)


def needed(rankers: list[str]) -> list[str]:
    """Return the options of make that leave out what none of these rankers has."""
    from tpugraphs.system import tensorfile

    found = [tensorfile.read(path, "ranker")[0] for path in rankers]
    if any("boosters" in metadata for metadata in found):
        raise ConfigError("--only: expected networks, found trees; leave it out, and give --small")
    lists = {"OPS": ("steps", "op"), "STEPS": ("preprocessing", "step")}
    names = {
        option: {one[key].replace("-", "_") for metadata in found for one in metadata.get(entry, ())}
        for option, (entry, key) in lists.items()
    }
    made = [f"{option}={' '.join(sorted(chosen))}" for option, chosen in names.items()]
    return made + ["BF16=1"] * any(metadata.get("precision") == "bf16" for metadata in found)
