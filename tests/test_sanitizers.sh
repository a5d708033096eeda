#!/bin/sh
# The quick C tests again, in builds where each access is checked: for addresses and undefined
# behaviour, and for data races. test_cpu takes a part of its tables here, which it says.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sanitized.sh"
export ATTNPRESS_TEST_QUICK=1
compiler=${CC:-cc}
ran=0
filter=

run_tests() { # NAME SANITIZERS TESTS...
  name=$1 sanitizers=$2
  shift 2
  if ! sanitizer_works "$compiler" "-fsanitize=$sanitizers"; then
    echo "left out: $compiler has no working $sanitizers"
    return
  fi
  build_sanitized "$name" "$compiler" "$sanitizers" "$@" fake_cuda fake_nvrtc
  for test in "$@"; do
    ATTNPRESS_BUILD_DIR=$build/$name "$build/$name/tests/$test" ${filter:+"$filter"} >"$folder/log" 2>&1 ||
      { cat "$folder/log" >&2; fail "$test with $sanitizers"; }
    echo "ok: $test with $sanitizers"
    ran=$((ran + 1))
  done
}

run_tests sanitized-address address,undefined \
  test_allocations test_api test_cache test_handle test_plans test_cpu test_dispatch test_jit test_variant \
  test_layernorm_plans test_outer test_recalled_plans
run_tests sanitized-thread thread test_api test_cache test_recall test_recalled_plans
# Its tests of threads alone.
filter='test_threads_that*'
run_tests sanitized-thread thread test_cpu
[ "$ran" -gt 0 ] || { echo "skipped: $compiler has no sanitizer"; exit 77; }
