"""Try a wheel for aarch64 on another machine: Debian's Python under qemu runs tests of the suite.

    python release/emulated.py dist/tpugraphs-*_aarch64.whl                     # the smoke test and TESTS
    python release/emulated.py WHEEL --numpy 1.26.4 tests/test_losses.py        # with this NumPy, these tests
    python release/emulated.py WHEEL --release trixie --smoke              # Python 3.13; smoke test alone

Needs a Debian or Ubuntu machine with qemu-user-static. What the tests need comes from the index of pip.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "release"
MACHINE = "aarch64"
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
# Numbers of every kernel, op and loss, the same bits for any number of threads, optimizers.
TESTS = [
    "vmath",
    "losses",
    "threads",
    "reference_ops",
    "optim",
    "op_ranges",
    "precision",
    "metrics",
    "safetensors",
]
# Counts the threads of a process: qemu has one of its own.
NOT_UNDER_QEMU = "tests/test_threads.py::test_forked_child_neither_hangs_nor_differs"
NEEDED = ["pytest", "hypothesis", "scipy", "threadpoolctl", "scikit-learn"]


def interpreter(release: str) -> Path:
    """Return a program that is Python for aarch64: tests may start it themselves."""
    qemu = debian.need("qemu-aarch64-static", "qemu-user-static")
    version = PYTHONS[release]
    root = debian.unpack(
        [f"python{version}", "libstdc++6"], release, MACHINE, WORK / f"python-{MACHINE}-{version}"
    )
    program = root.parent / "python"
    # The name it is called by becomes sys.executable, from which Python would look for its library.
    program.write_text(
        f"#!/bin/sh\nPYTHONHOME={root}/usr exec {qemu} -0 {program} "
        f'-L {root} {root}/usr/bin/python{version} "$@"\n'
    )
    program.chmod(0o755)
    return program


def install(wheel: Path, numpy: str, version: str, folder: Path) -> None:
    """Unpack the wheel, NumPy and what tests need into a folder: pip of this machine does not run them."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        str(folder),
        "--only-binary",
        ":all:",
    ]
    command += ["--python-version", version]
    for glibc in ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28"):
        command += ["--platform", f"manylinux{glibc}_{MACHINE}"]
    subprocess.run([*command, str(wheel), f"numpy{numpy}", *NEEDED], check=True)


def main() -> int:
    """Install, then run the smoke test and pytest."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("wheel", type=Path)
    made.add_argument("tests", nargs="*", metavar="TEST", help="files of tests, or other arguments of pytest")
    made.add_argument("--numpy", metavar="VERSION", help="default: the newest")
    made.add_argument("--release", choices=PYTHONS, default="bookworm", help="of Debian, for its Python")
    made.add_argument("--smoke", action="store_true", help="run no test of the suite")
    args = made.parse_args()
    python = interpreter(args.release)
    site = python.parent / "site"
    install(args.wheel, f"=={args.numpy}" if args.numpy else "", PYTHONS[args.release], site)
    # Not from the checkout: Python would import the package from there, without a core for this machine.
    work = python.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", work)
    env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
    env.pop("OMP_NUM_THREADS", None)  # tests of threads set it themselves
    subprocess.run([python, ROOT / ".ci" / "smoke.py"], env=env, check=True)
    tests = args.tests or [f"tests/test_{name}.py" for name in TESTS]
    if args.smoke:
        return 0
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--deselect={NOT_UNDER_QEMU}", *tests]
    return subprocess.run(command, env=env, cwd=work, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
