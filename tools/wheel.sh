#!/usr/bin/env bash
# Makes what pip installs, in BUILD/wheel/:
#
#   tools/wheel.sh BUILD wheel   attnpress-VERSION-py3-none-manylinux_2_28_ARCH.whl: the library, the tool,
#                                the headers, the common kernels linked in
#   tools/wheel.sh BUILD sdist   attnpress-VERSION.tar.gz: the sources and xxHash's header
#
# .venv (or the Python that PYTHON names) has scikit-build-core, and for the wheel ziglang and auditwheel (tools/setup.sh wheel). The
# kernels are those of BUILD/prebuilt/, compiled where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:?usage: tools/wheel.sh BUILD wheel|sdist}
goal=${2:-wheel}
mkdir -p "$build/wheel"
out=$(cd "$build/wheel" && pwd)
prebuilt=$(cd "$build" && pwd)/prebuilt
python=${PYTHON:-$PWD/.venv/bin/python}
compiler=${CC:-cc}
fail() {
  echo "tools/wheel.sh: $*" >&2
  exit 1
}

# copy_headers FOLDER NAME...: headers that the compiler finds; those that it does not are left out.
copy_headers() {
  local folder=$1 name path
  shift
  mkdir -p "$folder"
  for name in "$@"; do
    path=$(echo "#include <$name>" | $compiler -E - 2>/dev/null |
      sed -n "s|^# 1 \"\(.*/$name\)\".*|\1|p" | head -n 1)
    if [ -n "$path" ] && ! cmp -s "$path" "$folder/$name"; then cp -L "$path" "$folder/$name"; fi
  done
}

make_sdist() {
  copy_headers third_party xxhash.h
  [ -f third_party/xxhash.h ] || fail "xxhash.h was not found (libxxhash-dev)"
  rm -f "$out"/*.tar.gz
  "$python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' \
    "$out" >"$out/log" 2>&1 || { cat "$out/log" >&2; fail "no sdist was made"; }
  rm -f "$out/log"
  ls "$out"/*.tar.gz
}

# The wheel's compiler must not see /usr/include, so that what it needs from there gets a folder.
make_wheel() {
  local archive settings setting
  copy_headers "$out/include" xxhash.h zstd.h zstd_errors.h
  [ -f "$out/include/xxhash.h" ] || fail "xxhash.h was not found (libxxhash-dev)"
  [ -f "$out/include/zstd.h" ] || fail "zstd.h was not found (libzstd-dev)"
  archive=$($compiler -print-file-name=libzstd.a)
  [ -f "$archive" ] || fail "libzstd.a was not found (libzstd-dev; Fedora: libzstd-static)"

  settings=(
    "build-dir=$out/cmake"
    "cmake.define.CMAKE_C_COMPILER=$PWD/tools/manylinux_cc"
    "cmake.define.CMAKE_ASM_COMPILER=$PWD/tools/manylinux_cc"
    "cmake.define.XXHASH_INCLUDE_DIR=$out/include"
    "cmake.define.ZSTD_INCLUDE_DIR=$out/include"
    "cmake.define.ZSTD_ARCHIVE=$archive"
    "cmake.define.ATTNPRESS_PREBUILT=ON"
    "cmake.define.ATTNPRESS_PREBUILT_DIR=$prebuilt"
    "cmake.define.ATTNPRESS_NVRTC_DIRS=$(tools/setup.sh nvrtc)"
  )
  for setting in "${settings[@]}"; do options+=("--config-settings=$setting"); done
  rm -rf "$out"/*.whl "$out/plain"
  "$python" -m pip --disable-pip-version-check wheel --no-deps --no-build-isolation --no-index \
    -w "$out/plain" "${options[@]}" . >"$out/log" 2>&1 ||
    { cat "$out/log" >&2; fail "no wheel was made"; }

  # Looks at each symbol that the wheel asks glibc for, and gives it the platform's tag.
  PATH=$PWD/.venv/bin:$PATH "$python" -m auditwheel repair --only-plat \
    --plat "manylinux_2_28_$(uname -m)" -w "$out" "$out"/plain/*.whl >"$out/log" 2>&1 ||
    { cat "$out/log" >&2; fail "the wheel is not one for glibc 2.28"; }
  rm -rf "$out/plain" "$out/log"
  ls "$out"/*.whl
}

options=()
case $goal in
  wheel) make_wheel ;;
  sdist) make_sdist ;;
  *) fail "$goal is not known: wheel or sdist" ;;
esac
