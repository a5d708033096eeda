#!/bin/sh
# The fuzzers beside each other, for ATTNPRESS_FUZZ_SECONDS (15), with address checks: by clang's
# libFuzzer where there is one, else by tests/fuzz/main.c with a seed of its own. What libFuzzer
# finds interesting is kept in the build folder for the next run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/sanitized.sh"
seconds=${ATTNPRESS_FUZZ_SECONDS:-15}
fuzzers="fuzz_entry fuzz_forward fuzz_sequences fuzz_stem"
compiler=${CC:-cc}

# What clang takes minutes to compile is left to test_sanitizers.sh.
sanitizers=address,signed-integer-overflow,shift,bounds
echo '#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return !data && size > 0; }' \
  >"$folder/fuzzer.c"
if clang -fsanitize=fuzzer,$sanitizers -o "$folder/fuzzer" "$folder/fuzzer.c" >"$folder/log" 2>&1 &&
  "$folder/fuzzer" -runs=1 >"$folder/log" 2>&1; then
  compiler=clang
  sanitizers=$sanitizers,fuzzer-no-link
elif ! sanitizer_works "$compiler" -fsanitize=$sanitizers; then
  echo "skipped: neither clang's libFuzzer nor a working $compiler -fsanitize=$sanitizers"
  exit 77
fi

# shellcheck disable=SC2086
build_sanitized fuzz "$compiler" "$sanitizers" $fuzzers fake_cuda
run() { # FUZZER
  corpus=$here/fuzz/corpus/${1#fuzz_} found=$build/fuzz/found/$1
  mkdir -p "$found"
  ATTNPRESS_BUILD_DIR=$build/fuzz TMPDIR=$folder "$build/fuzz/tests/fuzz/$1" \
    -max_total_time="$seconds" -max_len=1024 -artifact_prefix="$build/fuzz/" \
    "$found" "$corpus" >"$folder/$1.log" 2>&1 && touch "$folder/$1.ok"
}
for fuzzer in $fuzzers; do run "$fuzzer" & done
wait
for fuzzer in $fuzzers; do
  [ -f "$folder/$fuzzer.ok" ] || { tail -n 60 "$folder/$fuzzer.log" >&2; fail "$fuzzer"; }
  echo "ok: $fuzzer, $compiler, $seconds s: $(tail -n 1 "$folder/$fuzzer.log")"
done
