"""Packages of Debian, unpacked into a folder: for any architecture and release, without root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
NAMES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Debian calls them
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Missing(SystemExit):
    """Something that this machine lacks; the message says what to install."""


def need(program: str, package: str) -> str:
    """Return the path of a program, or end with the name of the package that has it."""
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{program} is missing: apt install {package}")
    return found


def mirror() -> str:
    """Return the mirror of Debian that this machine uses, or `DEBIAN_MIRROR`."""
    if chosen := os.environ.get("DEBIAN_MIRROR"):
        return chosen
    need("apt-get", "apt (these scripts need Debian, or a system derived from it)")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    for uri in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split():
        if uri.rstrip("/").endswith("/debian"):
            return uri
    raise Missing("apt knows no mirror of Debian here: set DEBIAN_MIRROR to the address of one")


def relative_links(root: Path) -> None:
    """Let absolute links in an unpacked system lead into it, not into the system of this machine."""
    for path in root.rglob("*"):
        if path.is_symlink() and os.readlink(path).startswith("/"):
            target = os.path.relpath(f"{root}{os.readlink(path)}", path.parent)
            path.unlink()
            path.symlink_to(target)


def unpack(packages: list[str], release: str, machine: str, folder: Path) -> Path:
    """Return a root with these packages and what they depend on; nothing of them is run.

    apt checks their signatures. A root that was made of the same packages before is used again.

    Parameters
    ----------
    packages : list of str
        Names of packages.
    release : str
        Of Debian, as "bullseye".
    machine : str
        "x86_64" or "aarch64".
    folder : Path
        Where to keep the packages and, in `root`, the files in them.
    """
    folder = folder.resolve()
    root, stamp = folder / "root", folder / "packages.txt"
    wanted = " ".join([release, machine, *packages])
    if stamp.exists() and stamp.read_text() == wanted:
        return root
    if not KEYRING.exists():
        raise Missing(f"{KEYRING} is missing: apt install debian-archive-keyring")
    need("dpkg-deb", "dpkg")
    shutil.rmtree(folder, ignore_errors=True)
    for sub in ("lists/partial", "archives/partial", "root/usr/lib"):
        (folder / sub).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {release} main\n")
    name = NAMES[machine]
    apt = ["apt-get", "-qq", "-y", "--no-install-recommends", "--download-only"]
    for option in (
        f"Dir::State={folder}",
        f"Dir::State::status={folder}/status",
        f"Dir::Cache={folder}",
        f"Dir::Etc::sourcelist={folder}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"APT::Architecture={name}",
        f"APT::Architectures={name}",
        "APT::Sandbox::User=root",
        "Debug::NoLocking=1",
    ):
        apt += ["-o", option]
    subprocess.run([*apt, "update"], check=True)
    # Only its output tells what it would run on this machine, which --download-only never does.
    subprocess.run([*apt, "install", *packages], check=True, stdout=subprocess.DEVNULL)
    (root / "lib").symlink_to("usr/lib")  # as on every current system; older packages have files in /lib
    for package in sorted((folder / "archives").glob("*.deb")):
        listing = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        subprocess.run(
            ["tar", "-x", "--keep-directory-symlink", "-C", root], stdin=listing.stdout, check=True
        )
        if listing.wait():
            raise SystemExit(f"{package.name} cannot be unpacked")
    relative_links(root)
    stamp.write_text(wanted)
    return root
