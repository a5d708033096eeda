#!/bin/sh
# The command-line tool: what each command prints, its exit status, and the one sentence on stderr
# that wrong words get. The driver and NVRTC are stand-ins; `run`, and kernels that really compile,
# have tests of their own.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${ATTNPRESS_BUILD_DIR:-$here/../build}
tool=$build/attnpress
folder=$(mktemp -d)
trap 'chmod -R u+rwx "$folder"; rm -rf "$folder"' EXIT
failures=0
checks=0

mkdir "$folder/nvrtc" "$folder/home"
cp "$build/libfake_nvrtc.so" "$folder/nvrtc/libnvrtc.so.13"
cp "$build/libfake_nvrtc.so" "$folder/nvrtc/libnvrtc-builtins.so.13.0"
export ATTNPRESS_NVRTC="$folder/nvrtc/libnvrtc.so.13"
export ATTNPRESS_LIBCUDA="$folder/no-driver.so"
export HOME="$folder/home"
unset ATTNPRESS_CACHE_DIR XDG_CACHE_HOME
cache=$folder/cache

# check STATUS WORDS...: runs the tool; its output is in $folder/out and $folder/err.
check() {
  wanted=$1
  shift
  checks=$((checks + 1))
  words=$*
  "$tool" "$@" >"$folder/out" 2>"$folder/err"
  status=$?
  if [ $status -ne "$wanted" ]; then
    failures=$((failures + 1))
    echo "FAILED: attnpress $words: status $status, not $wanted"
    cat "$folder/out" "$folder/err"
  fi
}

# says TEXT / complains TEXT: the last output, or stderr, holds the text.
says() {
  checks=$((checks + 1))
  grep -qF -- "$1" "$folder/out" && return
  failures=$((failures + 1))
  echo "FAILED: attnpress $words should print \"$1\":"
  cat "$folder/out"
}
complains() {
  checks=$((checks + 1))
  [ "$(wc -l <"$folder/err")" -eq 1 ] && grep -qF -- "$1" "$folder/err" && return
  failures=$((failures + 1))
  echo "FAILED: attnpress $words should say \"$1\" in one line on stderr:"
  cat "$folder/err"
}

# broken TEXT: what was looked at here is wrong.
broken() {
  failures=$((failures + 1))
  echo "FAILED: $1"
}

# summary: ends the test.
summary() {
  echo "tool: $((checks - failures)) passed, $failures failed"
  [ $failures -eq 0 ]
  exit
}

# ---- Words ---------------------------------------------------------------------------------------
check 0 --help
says "usage: attnpress COMMAND"
for arch in $(ls "$here"/../generated/*_sm*.cu | sed 's/.*_sm\([0-9]*\)\.cu/\1/' | sort -u); do
  checks=$((checks + 1))
  grep -Eq "_sm<([0-9]+\|)*$arch[|>]" "$folder/out" || broken "the help does not name sm$arch"
done
check 0 help
check 0 --version
says "attnpress 0."
check 2
complains "a command is missing"
check 2 frobnicate
complains "there is no command \"frobnicate\""
for command in list source compile run cache doctor prebuild; do
  check 0 $command --help
  says "usage: attnpress $command"
  check 0 $command -h
  check 2 $command --frobnicate
  complains "attnpress $command: "
done

# ---- source --------------------------------------------------------------------------------------
check 0 source flash_fwd_hdim72_bf16_causal_sm80
says 'flash_fwd_hdim72_bf16_causal_sm80('
says 'constexpr int HEAD_DIM = 72;'
check 0 source flash_fwd_hdim72_bf16_causal_sm90
says 'flash_fwd_hdim72_bf16_causal_sm90('
says '#include "attnpress/device/wgmma/ptx_wgmma_n72.cuh"'
check 2 source
complains "the name of a kernel is missing"
check 2 source flash_fwd_hdim12_bf16_sm80
complains "head dim 12 is not supported: it must be a multiple of 8 from 8 to 512"
check 2 source nonsense
complains '"nonsense" is not the name of a kernel'
check 2 source flash_fwd_hdim8_bf16_sm80 flash_fwd_hdim16_bf16_sm80
complains "is a second"

# ---- compile -------------------------------------------------------------------------------------
check 0 compile flash_fwd_hdim72_bf16_causal_sm80 flash_fwd_hdim40_fp16_sm86 --cache-dir "$cache"
says "flash_fwd_hdim72_bf16_causal_sm80  sm_80     jit"
says "flash_fwd_hdim40_fp16_sm86         sm_86     jit"
check 0 compile flash_fwd_hdim72_bf16_causal_sm80 --cache-dir="$cache"
says "sm_80     cache"
check 0 compile --target sm_90 flash_fwd_hdim72_bf16_causal_sm80 --cache-dir "$cache"
says "sm_90     jit"
check 0 compile flash_fwd_split_hdim64v128_fp16_causal_sm90 --cache-dir "$folder/sm90"
says "flash_fwd_split_hdim64v128_fp16_causal_sm90  sm_90a    jit"
check 2 compile flash_fwd_hdim72_bf16_sm90 --target sm_90 --cache-dir "$folder/sm90"
complains "cannot be compiled for sm_90: the instructions of sm90 kernels exist on sm_90a alone"
check 2 compile flash_fwd_hdim72_bf16_sm90 --target sm_100 --cache-dir "$folder/sm90"
complains "cannot be compiled for sm_100"
check 2 compile flash_fwd_hdim320_bf16_sm90 --cache-dir "$folder/sm90"
complains "head dim 320 is not supported on sm90: it must be a multiple of 8 from 8 to 256"
check 2 compile
complains "the name of a kernel is missing"
check 2 compile flash_fwd_hdim520_bf16_sm80 --cache-dir "$cache"
complains "head dim 520 is not supported"
check 2 compile flash_fwd_hdim72_bf16_sm80 --target sm_75
complains 'target "sm_75" is unknown: targets are sm_80, sm_86, sm_90, sm_90a, sm_100'
check 2 compile flash_fwd_hdim72_bf16_sm80 --target
complains "--target needs a value"
check 2 compile flash_fwd_hdim72_bf16_sm80 --cache-dir
complains "--cache-dir needs a directory"
check 2 compile flash_fwd_hdim72_bf16_sm86 --target sm_80 --cache-dir "$cache"
complains "older than its arch"
ATTNPRESS_NVRTC=$folder/nothing.so check 1 compile flash_fwd_hdim80_bf16_sm80 --cache-dir "$cache"
complains "$folder/nothing.so"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so \
  check 0 compile flash_fwd_hdim72_bf16_sm80 --cache-dir "$cache"
says "sm_90     jit" # the present GPU's
mkdir -m 755 "$folder/open"
check 1 compile flash_fwd_hdim80_bf16_sm80 --cache-dir "$folder/open"
complains "is open to others (mode 0755)"
ln -s "$cache" "$folder/link"
check 1 compile flash_fwd_hdim80_bf16_sm80 --cache-dir "$folder/link"
complains "is a symbolic link"

# ---- list ----------------------------------------------------------------------------------------
check 0 list --cached --cache-dir "$cache"
says "4 kernels"
says "flash_fwd_hdim72_bf16_causal_sm80"
says "NVRTC 13.0"
check 0 list --prebuilt
says "Linked in: "
check 0 list
says "Linked in: "
says "Cached in $HOME/.cache/attnpress: 0 kernels"
[ ! -e "$HOME/.cache" ] || broken "list made $HOME/.cache"
check 2 list --cache-dir
complains "--cache-dir needs a directory"

# ---- cache ---------------------------------------------------------------------------------------
check 0 cache path
says "$HOME/.cache/attnpress"
ATTNPRESS_CACHE_DIR=$cache check 0 cache path
says "$cache"
check 0 cache list --cache-dir "$cache"
says "4 kernels"
check 0 cache verify --cache-dir "$cache"
says "4 entries are good, 0 damaged"
for entry in "$cache"/*.entry; do :; done
printf x >>"$entry"
check 1 cache verify --cache-dir "$cache"
says "damaged: $entry"
says "3 entries are good, 1 damaged"
check 0 list --cached --cache-dir "$cache"
says "1 damaged entries"
check 0 cache clear --cache-dir "$cache"
says "4 files removed"
check 0 cache verify --cache-dir "$cache"
says "0 entries are good, 0 damaged"
check 0 cache clear --cache-dir "$folder/never-made"
says "0 files removed"
check 1 cache clear --cache-dir "$folder/open"
complains "is open to others"
check 2 cache
complains "the action is missing"
check 2 cache burn
complains 'there is no action "burn"'
check 2 cache list verify
complains "is a second"
HOME= check 1 cache path
complains "there is no cache directory"

# ---- doctor --------------------------------------------------------------------------------------
check 0 doctor
says "driver        none"
says "NVRTC         13.0, $ATTNPRESS_NVRTC"
says "compiles for sm_75 sm_80"
says "$HOME/.cache/attnpress, made when it is first needed"
says "Missing:"
says "the CUDA driver is not installed"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_DEVICES=2 FAKE_CUDA_CAPABILITY=8.9 \
  check 0 doctor
says "driver        CUDA 13.0"
says "0: Fake GPU 0, compute capability 8.9, 84 SMs, 80 GB"
says "1: Fake GPU 1"
says "runs sm86 kernels compiled for sm_86"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=9.0 check 0 doctor
says "runs sm90 kernels compiled for sm_90a"
says "runs sm80 kernels compiled for sm_90;"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=7.5 check 0 doctor
says "compute capability 7.5; 8.0 or newer is needed"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_VERSION=12080 check 0 doctor
says "NVRTC         none"
says "NVRTC 13.0, newer than the driver, which knows CUDA 12.8"
ATTNPRESS_CACHE_DIR=$folder/open check 0 doctor
says "$folder/open, not usable"

# ---- prebuild ------------------------------------------------------------------------------------
export FAKE_NVRTC_COUNT="$folder/count"
out=$folder/prebuilt
check 2 prebuild
complains "--out DIR is missing"
check 2 prebuild --out "$out" --jobs 0
complains '--jobs is "0"'
check 2 prebuild --out "$out" --jobs many
complains '--jobs is "many"'
check 1 prebuild --out "$folder/no/such/folder"
complains "No such file or directory"
if ! grep -q '^ATTNPRESS_PREBUILT:BOOL=ON' "$build/CMakeCache.txt"; then
  check 1 prebuild --out "$out"
  grep -q "was built without zstd" "$folder/err" || broken "no reason"
  summary
fi
check 0 prebuild --out "$out" --jobs 4
says "on 4 threads"
says "compressed to"
total=$(wc -c <"$folder/count" | tr -d ' ')
cubins=$(find "$out" -name '*.cubin.zst' | wc -l | tr -d ' ')
[ "$total" -gt 0 ] && [ "$total" -eq "$cubins" ] ||
  broken "$total compiles, $cubins cubins"
for file in prebuilt_cubins.S prebuilt_cubins.c; do
  [ "$(grep -c -e 'ap_cubin_[0-9]*, ' -e incbin "$out/$file")" -eq "$cubins" ] ||
    broken "$file does not list $cubins cubins"
done
if command -v "${CC:-cc}" >"$folder/which"; then
  "${CC:-cc}" -c "$out/prebuilt_cubins.S" -o "$folder/S.o" &&
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -I "$here/../include" -I "$here/../runtime" \
      -c "$out/prebuilt_cubins.c" -o "$folder/c.o" ||
    broken "what prebuild wrote does not compile"
fi
cp "$out/prebuilt_cubins.S" "$folder/first.S"
: >"$folder/count"
check 0 prebuild --out "$out"
says "$cubins kernels, 0 to compile"
cmp -s "$out/prebuilt_cubins.S" "$folder/first.S" ||
  broken "the same set, another .S"
# One is damaged, one is gone: these two are compiled again.
set -- "$out"/*.cubin.zst
printf x >>"$1"
rm "$2"
check 0 prebuild --out "$out"
says "$cubins kernels, 2 to compile"
# What an interrupted build has done is not done again, and a failing one leaves no table.
rm -r "$out"
: >"$folder/count"
FAKE_NVRTC_MS=20 timeout -s KILL 0.5 "$tool" prebuild --out "$out" --jobs 2 >"$folder/out" 2>&1
done_before=$(grep -c '^[0-9a-f]' "$out/prebuilt_manifest.txt")
[ "$done_before" -gt 0 ] || broken "nothing was done in time"
[ ! -e "$out/prebuilt_cubins.c" ] || broken "a table of a build that was killed"
: >"$out/left.999999999.tmp"
FAKE_NVRTC_MODE=fail check 1 prebuild --out "$out" --jobs 2
[ ! -e "$out/prebuilt_cubins.c" ] || broken "a table of a build that failed"
grep -q "could not compile" "$folder/err" || broken "no reason"
check 0 prebuild --out "$out"
says "$cubins kernels, $((cubins - done_before)) to compile"
[ -z "$(find "$out" -name '*.tmp')" ] || broken "temporaries are left"

# Folders for NVRTC are looked at last, and never where ATTNPRESS_NVRTC names one.
mkdir "$folder/pip"
cp "$build/libfake_nvrtc.so" "$folder/pip/libnvrtc.so.12"
cp "$build/libfake_nvrtc.so" "$folder/pip/libnvrtc-builtins.so.12.8"
rm -r "$out"
ATTNPRESS_NVRTC=$folder/nothing.so check 1 prebuild --out "$out" --nvrtc-dirs "$folder/pip"
complains "as ATTNPRESS_NVRTC names one"

summary
