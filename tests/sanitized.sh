# For test_sanitizers.sh and test_fuzz.sh: builds of their own, instrumented and without linked
# kernels. Sourced; the caller sets `here`.

build=${ATTNPRESS_BUILD_DIR:-$here/../build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A finding ends the program, whatever it is. Leaks are found where the process may be traced.
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Whether a program that was built so starts: the compiler has the run-time library, and that
# agrees with the kernel.
sanitizer_works() { # COMPILER FLAGS...
  echo 'int main(void) { return 0; }' >"$folder/empty.c"
  "$@" -o "$folder/empty" "$folder/empty.c" >"$folder/log" 2>&1 &&
    "$folder/empty" >>"$folder/log" 2>&1
}

# Configures and builds into $build/NAME; the build is kept, so that a later run compiles what
# changed. -O1: instrumented code of -O3 takes minutes to compile.
build_sanitized() { # NAME COMPILER SANITIZERS TARGETS...
  tree=$build/$1 compiler=$2 sanitizers=$3
  shift 3
  cmake -S "$here/.." -B "$tree" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g1" -DATTNPRESS_PREBUILT=OFF \
    -DATTNPRESS_SANITIZE="$sanitizers" >"$folder/log" 2>&1 &&
    cmake --build "$tree" --target "$@" >"$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; fail "the build with $sanitizers"; }
}
