"""Build of the one extension module, tpugraphs._core.

Sources are globbed from csrc/. Files named csrc/kernels/isa_*.c hold the same kernels compiled for one
instruction set each; ISA_FLAGS says with which flags. An object is compiled again only if its command, its
source or a header it includes has changed (the compiler lists them in a .d file next to it). Switches:

    TPUGRAPHS_SANITIZE=1   AddressSanitizer + UndefinedBehaviorSanitizer
    TPUGRAPHS_WERROR=1     warnings are errors (CI)
    TPUGRAPHS_DEBUG=1      -O1 -g
The last and the first also turn on the core's own checks (csrc/base/check.h): redzones, NaN-fill, assertions.
"""

import os
import platform
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WARN = "-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla".split()
BASE = (
    "-std=gnu11 -O3 -g0 -fopenmp -fvisibility=hidden -ffp-contract=fast -fno-math-errno "
    "-fno-trapping-math -fno-semantic-interposition -Icsrc"
).split()
AVX2 = "-mavx2 -mfma -mbmi2".split()
AVX512 = "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mbmi2 -mprefer-vector-width=512".split()
SANITIZER = "-fsanitize=address,undefined"
SANITIZE = f"-O1 -g -fno-omit-frame-pointer {SANITIZER} -fno-sanitize-recover=undefined".split()
X86 = platform.machine().lower() in ("x86_64", "amd64")
AVX512_VNNI = [*AVX512, "-mavx512vnni"]
X86_ISA_FLAGS = {
    "isa_avx2": AVX2,
    "isa_avx512": AVX512,
    "isa_avx512_vnni": AVX512_VNNI,
    "isa_avx512_bf16": [*AVX512_VNNI, "-mavx512bf16"],
}
ISA_FLAGS = {"isa_baseline": [], **X86_ISA_FLAGS}


def enabled(name):
    return os.environ.get(name, "") not in ("", "0")


def compile_flags():
    flags = list(BASE) + WARN
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
    """build_ext with per-file flags for the ISA objects, compiled on all cores, and only what has changed."""

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


def sources():
    found = sorted(p for p in glob("csrc/**/*.c", recursive=True) if "/fuzz" not in p.replace(os.sep, "/"))
    if not X86:
        found = [p for p in found if os.path.splitext(os.path.basename(p))[0] not in X86_ISA_FLAGS]
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
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
