"""Wheels that run on any Linux from 2018 on: manylinux_2_28, for x86_64 and aarch64, with libgomp inside.

    python release/wheels.py                    # both, into dist/, with the source distribution
    python release/wheels.py x86_64 --out DIR

The compiler is this machine's, for aarch64 the cross compiler of Debian. Headers, libraries and libgomp are
those of Debian 11, whose symbols suffice for glibc 2.28; auditwheel checks that, and puts libgomp into the
wheel. Needs a Debian or Ubuntu machine and `pip install '.[release]'`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "release"
GLIBC = (2, 28)
BASE = "bullseye"  # the oldest release that the mirrors of Debian hold
PACKAGES = ["libc6-dev", "libgomp1", "base-files"]
LIMIT = 5_000_000  # bytes of a wheel, with the sources of the C library
EXPRESSION = "Apache-2.0 AND GPL-3.0-or-later WITH GCC-exception-3.1"
NOTICE = """\
{library} is libgomp, the OpenMP runtime of GCC: {version} of Debian,
as that project distributes it, but for its name, which auditwheel changed. It is free software under the GNU
General Public License, version 3 or later, with the GCC Runtime Library Exception, which lets programs under
any licence use it. Its source is Debian's source package {source}.
Everything else in this wheel is under the licence in LICENSE. The texts of Debian follow.

"""


def run(command: list[str | os.PathLike[str]], env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed; what fails ends the script with its output."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout}\nfailed with exit code {done.returncode}"
        )
    return str(done.stdout)


def compiler(machine: str, root: Path) -> dict[str, str]:
    """Return the environment that compiles for this machine with headers and libraries of `root` only."""
    triplet = debian.TRIPLETS[machine]
    gcc = debian.need(f"{triplet}-gcc", f"gcc-{triplet.replace('_', '-')}")
    headers = run([gcc, "-print-file-name=include"]).strip()
    own = Path(sysconfig.get_path("include"))
    # Debian's Python keeps one header per architecture. The stable interface reads all alike.
    here = Path("/usr/include", f"{platform.machine()}-linux-gnu", own.name)
    if here.is_dir():
        shutil.copytree(here, root / "usr/include" / triplet / own.name, dirs_exist_ok=True)
    cc = f"{gcc} --sysroot={root} -nostdinc -isystem {headers}"
    cc += f" -isystem {root}/usr/include/{triplet} -isystem {root}/usr/include"
    libraries = root / "usr/lib" / triplet
    return {
        **os.environ,
        "CC": cc,
        "LDSHARED": f"{cc} -shared -s -B{libraries} -L{libraries} -L{root}/lib/{triplet}",
        "LDFLAGS": "",
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }


def licence(machine: str, root: Path, library: str) -> str:
    """Return what the wheel says of the libgomp in it."""
    name = next((root.parent / "archives").glob("libgomp1_*.deb")).name
    fields = run(["dpkg-deb", "-f", root.parent / "archives" / name, "Version", "Source"])
    found = dict(re.findall(r"^(\w+): (.*)$", fields, re.M))
    notice = NOTICE.format(
        library=library,
        version=f"package libgomp1 {found['Version']}",
        source=f"{found.get('Source', 'libgomp1')} {found['Version']}",
    )
    texts = [root / "usr/share/doc/libgomp1/copyright", root / "usr/share/common-licenses/GPL-3"]
    return notice + "\n\n".join(path.read_text() for path in texts)


def finish(wheel: Path, machine: str, root: Path, out: Path) -> Path:
    """Return the wheel for others: auditwheel's, with the tag of `GLIBC` and the licence of libgomp."""
    work = wheel.parent / "repaired"
    libraries = f"{root}/usr/lib/{debian.TRIPLETS[machine]}"
    # "auto": only so does auditwheel take other architectures. It finds the oldest glibc that suffices.
    run([
        sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat",
        "--ldpaths", libraries, "-w", work, wheel,
    ])  # fmt: skip
    (repaired,) = work.glob("*.whl")
    found = re.search(rf"manylinux_(\d+)_(\d+)_{machine}\.whl$", repaired.name)
    if found is None or (int(found[1]), int(found[2])) > GLIBC:
        raise SystemExit(f"{repaired.name}: needs a newer glibc than {GLIBC[0]}.{GLIBC[1]}")
    run([sys.executable, "-m", "wheel", "unpack", "-d", work, repaired])
    (folder,) = (path for path in work.iterdir() if path.is_dir())
    (info,) = folder.glob("*.dist-info")
    (library,) = (folder / "tpugraphs.libs").iterdir()
    (info / "licenses" / "libgomp.txt").write_text(licence(machine, root, library.name))
    edit(info / "METADATA", r"^License-Expression: .*$", f"License-Expression: {EXPRESSION}")
    edit(info / "METADATA", r"^License-File: LICENSE$", "License-File: LICENSE\nLicense-File: libgomp.txt")
    edit(info / "WHEEL", r"^Tag: .*$", f"Tag: cp311-abi3-manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}")
    run([sys.executable, "-m", "wheel", "pack", "-d", work, folder])
    name = re.sub(r"manylinux_\d+_\d+", f"manylinux_{GLIBC[0]}_{GLIBC[1]}", repaired.name)
    # Once more with the best level, which wheel does not take.
    with zipfile.ZipFile(work / name) as packed, zipfile.ZipFile(out / name, "w") as small:
        for info in packed.infolist():
            small.writestr(info, packed.read(info), compresslevel=9)
    return out / name


def edit(path: Path, pattern: str, text: str) -> None:
    """Replace the one line that matches."""
    changed, count = re.subn(pattern, text, path.read_text(), flags=re.M)
    if count != 1:
        raise SystemExit(f"{path.name}: {count} lines match {pattern}, expected one")
    path.write_text(changed)


def check(files: list[Path]) -> None:
    """Show what auditwheel and twine say of the files; their sizes have a limit."""
    for wheel in (path for path in files if path.suffix == ".whl"):
        said = " ".join(run([sys.executable, "-m", "auditwheel", "show", wheel]).split())
        print(said.split(" The wheel references")[0])
        size = wheel.stat().st_size
        print(f"{wheel.name}: {size:,} bytes (limit {LIMIT:,})")
        if size > LIMIT:
            raise SystemExit(f"{wheel.name}: larger than {LIMIT:,} bytes")
    print(run([sys.executable, "-m", "twine", "check", "--strict", *files]).strip())


def build(machine: str, sdist: Path, out: Path) -> Path:
    """Return the finished wheel for this machine, built from the source distribution."""
    root = debian.unpack(PACKAGES, BASE, machine, WORK / f"debian-{machine}")
    work = WORK / f"wheel-{machine}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run(["tar", "-xzf", sdist, "-C", work])
    source = work / sdist.name.removesuffix(".tar.gz")
    # Not isolated: there, pip would fetch a NumPy for the machine that is built for.
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", work / "built", source],
        env=compiler(machine, root),
    )
    (wheel,) = (work / "built").glob("*.whl")
    return finish(wheel, machine, root, out)


def main() -> int:
    """Build and check what was asked for."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "machines", nargs="*", metavar="MACHINE", help=f"{', '.join(debian.TRIPLETS)} (default: all)"
    )
    made.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "dist", help="default: dist")
    made.add_argument(
        "--sdist", metavar="FILE", type=Path, help="build this source distribution, not the checkout"
    )
    args = made.parse_args()
    if unknown := set(args.machines) - set(debian.TRIPLETS):
        made.error(f"{', '.join(sorted(unknown))}: expected {' or '.join(debian.TRIPLETS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.sdist is None:
        run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", args.out, ROOT])
        version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
        args.sdist = args.out / f"tpugraphs-{version[1] if version else ''}.tar.gz"
    machines = args.machines or list(debian.TRIPLETS)
    wheels = [build(machine, args.sdist.resolve(), args.out.resolve()) for machine in machines]
    check([args.sdist, *wheels])
    return 0


if __name__ == "__main__":
    sys.exit(main())
