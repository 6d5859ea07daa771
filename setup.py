"""Build of the one extension module, tpugraphs._core, and of the stubs that are made by asking it.

Sources are globbed from csrc/; the flags are in csrc/flags.mk, which the Makefile reads too. An object is
compiled again only if its command, its source or a header it includes has changed (the compiler lists them
in a .d file next to it). Switches:

    TPUGRAPHS_SANITIZE=1   AddressSanitizer + UndefinedBehaviorSanitizer
    TPUGRAPHS_WERROR=1     warnings are errors (CI)
    TPUGRAPHS_DEBUG=1      -O1 -g
Stubs (docs/stubs.py) go to the source folder, as they do for a checker that reads it. A build for another
machine, which cannot load its core, takes those that a source distribution has; one with sanitizers has none.
The last and the first switch also turn on the core's own checks (csrc/base/check.h): redzones, NaN-fill,
assertions.
"""

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist


def read_flags(path):
    """{name: [flag, ...]} of the lines NAME = flags."""
    with open(path) as file:
        lines = [line.partition(" = ") for line in file if " = " in line and not line.startswith("#")]
    return {name: flags.split() for name, _, flags in lines}


FLAGS = read_flags("csrc/flags.mk")
SANITIZER = "-fsanitize=address,undefined"
SANITIZE = f"-O1 -g1 -fno-omit-frame-pointer {SANITIZER} -fno-sanitize-recover=undefined".split()
X86 = sysconfig.get_platform().endswith(("x86_64", "amd64"))  # of what is built for, not of what builds
ISA_FLAGS = {name.removeprefix("FLAGS_"): flags for name, flags in FLAGS.items() if name.startswith("FLAGS_")}
STUB = "tpugraphs/__init__.pyi"  # one of those that are made


def enabled(name):
    return os.environ.get(name, "") not in ("", "0")


def compile_flags():
    flags = FLAGS["CORE_FLAGS"] + FLAGS["WARNINGS"]
    if enabled("TPUGRAPHS_WERROR"):
        flags.append("-Werror")
    if enabled("TPUGRAPHS_DEBUG"):
        flags += ["-O1", "-g"]
    if enabled("TPUGRAPHS_SANITIZE"):
        flags += SANITIZE
    return flags


def is_current(obj, command):
    """Whether `obj` was made by this command from files that have not changed since."""
    try:
        with open(f"{obj}.command") as file:
            if file.read() != command:
                return False
        with open(f"{obj}.d") as file:
            files = shlex.split(file.read().replace("\\\n", " "))[1:]
        made = os.path.getmtime(obj)
        return all(os.path.getmtime(path) <= made for path in files)
    except OSError:
        return False


class BuildExt(build_ext):
    """build_ext with per-file flags for the ISA objects, compiled on all cores, and only what has changed.

    The core that is built then says what is in the stubs.
    """

    def run(self):
        super().run()
        if not self.extensions or enabled("TPUGRAPHS_SANITIZE"):
            return
        if sysconfig.get_platform().endswith((platform.machine(), "universal2")):
            subprocess.run([sys.executable, "docs/stubs.py", self.get_ext_fullpath(core.name)], check=True)
        elif not os.path.exists(STUB):
            raise SystemExit(
                f"{STUB}: not there, and a core for {sysconfig.get_platform()} cannot be asked here; build "
                "from a source distribution, which has the stubs, or run `make build` first"
            )

    def build_extension(self, ext):
        compile_one, compile_all = self.compiler._compile, self.compiler.compile
        jobs = []

        def compile_changed(obj, src, suffix, cc_args, flags, pp_opts):
            command = repr((self.compiler.compiler_so, cc_args, flags, pp_opts))
            if is_current(obj, command):
                return
            compile_one(obj, src, suffix, cc_args, [*flags, "-MD", "-MF", f"{obj}.d"], pp_opts)
            with open(f"{obj}.command", "w") as file:
                file.write(command)

        def compile_later(obj, src, suffix, cc_args, extra, pp_opts):
            stem = os.path.splitext(os.path.basename(src))[0]
            flags = list(extra) + ISA_FLAGS.get(stem, [])
            jobs.append(pool.submit(compile_changed, obj, src, suffix, cc_args, flags, pp_opts))

        def compile_and_wait(*args, **kwargs):
            objects = compile_all(*args, **kwargs)
            for job in jobs:
                job.result()
            jobs.clear()
            return objects

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.compiler._compile, self.compiler.compile = compile_later, compile_and_wait
            try:
                super().build_extension(ext)
            finally:
                self.compiler._compile, self.compiler.compile = compile_one, compile_all


# What `make install` of the C library reads; `tpugraphs clib` runs it in an installed package.
CLIB = [
    "Makefile",
    "pyproject.toml",
    "csrc/flags.mk",
    "include/*.h",
    "release/clib/*",
    "csrc/*/*.[ch]",
    "csrc/*/*.inc",
]


class BuildPy(build_py):
    """build_py after build_ext, which makes the stubs that are packed, with the sources of the C library."""

    def run(self):
        self.run_command("build_ext")
        super().run()
        for path in (path for pattern in CLIB for path in glob(pattern)):
            if not path.startswith((os.path.join("csrc", "py", ""), os.path.join("csrc", "fuzz", ""))):
                to = os.path.join(self.build_lib, "tpugraphs", "clib", path)
                self.mkpath(os.path.dirname(to))
                self.copy_file(path, to)


class Sdist(sdist):
    """sdist with the stubs."""

    def run(self):
        if not os.path.exists(STUB):
            self.run_command("build_ext")
        super().run()


def sources():
    rooms = [p for p in glob("csrc/*/") if os.path.basename(p[:-1]) not in ("fuzz", "clib")]
    found = sorted(p for room in rooms for p in glob(f"{room}*.c"))
    if not X86:
        found = [p for p in found if os.path.splitext(os.path.basename(p))[0] not in ISA_FLAGS]
    return found


link = ["-fopenmp"]
if enabled("TPUGRAPHS_SANITIZE"):
    link.append(SANITIZER)

core = Extension(
    "tpugraphs._core",
    sources=sources(),
    depends=sorted(glob("csrc/**/*.h", recursive=True) + glob("csrc/**/*.inc", recursive=True)),
    include_dirs=["csrc", numpy.get_include()],
    define_macros=[
        *([("TG_CHECKED", "1")] if enabled("TPUGRAPHS_DEBUG") or enabled("TPUGRAPHS_SANITIZE") else []),
        ("Py_LIMITED_API", "0x030B0000"),
        ("NPY_NO_DEPRECATED_API", "NPY_1_25_API_VERSION"),
        ("NPY_TARGET_VERSION", "NPY_1_25_API_VERSION"),
    ],
    extra_compile_args=compile_flags(),
    extra_link_args=link,
    py_limited_api=True,
)

setup(
    ext_modules=[core] if sys.platform != "win32" else [],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy, "sdist": Sdist},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
