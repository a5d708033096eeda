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
for command in list source compile explain report run cache doctor manual completions prebuild; do
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
check 2 compile flash_fwd_hdim320_bf16_window_sm90 --cache-dir "$folder/sm90"
complains "mask window is not supported"
check 2 compile flash_bwd_dq_hdim320_bf16_sm90 --cache-dir "$folder/sm90"
complains "head dim 320 is not supported in the bwd_dq pass and on sm90"
check 0 compile flash_fwd_hdim48_bf16_sm80:sm_86 flash_fwd_hdim48_bf16_sm80 --cache-dir "$folder/two"
says "flash_fwd_hdim48_bf16_sm80  sm_86     jit"
says "flash_fwd_hdim48_bf16_sm80  sm_80     jit"
check 2 compile flash_fwd_hdim48_bf16_sm80:sm_75 --cache-dir "$folder/two"
complains 'target "sm_75" is unknown'
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
grep -qF "$folder/nothing.so" "$folder/err" || broken "NVRTC that is missing is not named"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so \
  check 0 compile flash_fwd_hdim72_bf16_sm80 --cache-dir "$cache"
says "sm_90     jit" # the present GPU's
mkdir -m 775 "$folder/open"
check 1 compile flash_fwd_hdim80_bf16_sm80 --cache-dir "$folder/open"
complains "can be written by others (mode 0775)"
ln -s "$cache" "$folder/link"
check 1 compile flash_fwd_hdim80_bf16_sm80 --cache-dir "$folder/link"
complains "is a symbolic link"

# ---- compile, by shape ---------------------------------------------------------------------------
layer=$folder/shapes
check 0 compile --hdim 72 --causal --heads 32 --kv-heads 8 --target sm_90 --dry-run --cache-dir "$layer"
says "8 kernels for sm_90: 8 would be compiled, 0 linked in or cached"
check 0 compile --hdim 72 --causal --heads 32 --kv-heads 8 --target sm_90 --cache-dir "$layer"
says "8 kernels for sm_90: 8 compiled, 0 linked in or cached"
says "flash_fwd_split_hdim72_bf16_causal_sm90         sm_90a    jit"
[ "$(grep -c ': compiling (usually ' "$folder/err")" -eq 8 ] || broken "no line before each compile"
# A machine that may not compile then runs any such call.
ATTNPRESS_JIT_OFF=1 check 0 compile --hdim 72 --causal --heads 8 --seqlen-q 1 --target sm_90 \
  --cache-dir "$layer"
says "0 compiled"
ATTNPRESS_JIT_OFF=1 check 1 compile --hdim 72 --heads 8 --target sm_90 --cache-dir "$layer"
says "flash_fwd_combine_hdim72_bf16_sm80"
says " kernels for sm_90: 0 compiled, "
says " missing"
grep -q "flash_fwd_hdim72_bf16_sm90 for sm_90a is neither linked in nor cached" "$folder/err" ||
  broken "a kernel that is missing is not named"
cat >"$folder/config.json" <<'END'
{"architectures": ["SomeForCausalLM"], "hidden_size": 576, "num_attention_heads": 8,
 "num_key_value_heads": 2, "torch_dtype": "float16", "rope_scaling": {"factor": [1.5e0, -2]}}
END
check 0 compile --config "$folder/config.json" --target sm_80 --dry-run --cache-dir "$layer"
grep -q "head dim 72/72, 8 heads, 2 key heads, fp16, causal" "$folder/err" || broken "no shape"
says "flash_fwd_hdim72_fp16_causal_sm80"
check 0 compile --config "$folder/config.json" --dtype bf16 --target sm_90 --cache-dir "$layer"
says "8 kernels for sm_90: 0 compiled, 8 linked in or cached"
cat >"$folder/nested.json" <<'END'
{"text_config": {"num_attention_heads": 16, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
 "v_head_dim": 128, "sliding_window": 4096}, "architectures": ["SomeModel"]}
END
check 0 compile --config "$folder/nested.json" --target sm_90 --dry-run --cache-dir "$layer"
grep -q "head dim 192/128, 16 heads, 16 key heads, bf16, full" "$folder/err" || broken "no shape"
grep -q "has a sliding_window of 4096: kernels with and without it" "$folder/err" || broken "no window"
says "flash_fwd_hdim192v128_bf16_sm90 "
says "flash_fwd_hdim192v128_bf16_window_sm90 "
echo '{"num_attention_heads": 8, "head_dim": 256, "attn_logit_softcapping": 50.0}' >"$folder/cap.json"
check 0 compile --config "$folder/cap.json" --target sm_90 --dry-run --cache-dir "$layer"
grep -q "bf16, causal, softcap 50" "$folder/err" || broken "no softcap"
says "flash_fwd_hdim256_bf16_causal_softcap_sm90 "
check 0 compile --hdim 64 --backward --causal --target sm_90 --dry-run --cache-dir "$layer"
says "flash_bwd_hdim64_bf16_causal_sm90 "
check 0 compile --hdim 64 --chunk 128 --alibi --target sm_80 --dry-run --cache-dir "$layer"
says "flash_fwd_hdim64_bf16_window_alibi_sm80 "
check 0 compile --hdim 64 --causal --heads 8 --page-size 16 --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_hdim64_bf16_causal_paged_sm90 "
says "flash_fwd_split_hdim64_bf16_paged_decode_sm80 "
check 0 compile --hdim 64 --causal --ragged --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_schedule_hdim8_bf16_sm80 "
says "flash_fwd_hdim64_bf16_causal_ragged_sm90 "
check 0 compile --hdim 64 --causal --ragged --backward --target sm_90 --dry-run --cache-dir "$layer"
says "flash_bwd_hdim64_bf16_causal_ragged_sm90 "
check 0 compile --hdim 64 --causal --page-size 16 --ready-schedule --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_schedule_hdim8_bf16_ready_sm80 "
says "flash_fwd_hdim64_bf16_causal_paged_ready_sm90 "
says "flash_fwd_hdim64_bf16_causal_paged_sm90 "
check 0 compile --hdim 64 --causal --page-size 16 --batch-invariant --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_split_hdim64_bf16_causal_paged_sm90 "
says "flash_fwd_split_hdim64_bf16_causal_paged_decode_shared_sm90 "
says "flash_fwd_split_hdim64_bf16_causal_paged_decode_pairs_sm90 "
check 2 compile --hdim 64 --batch-invariant --num-splits 2 --target sm_90
complains "--batch-invariant does not go with --num-splits: its splits lie at fixed keys"
check 2 compile --hdim 64 --ready-schedule --target sm_90
complains "--ready-schedule is of the forward pass with --ragged or --page-size"
check 2 compile --hdim 64 --ragged --backward --ready-schedule --target sm_90
complains "--ready-schedule is of the forward pass"
check 2 compile --hdim 64 --page-size 16 --backward --target sm_90
complains "keys in pages have no gradients"
check 0 compile --hdim 64 --ragged --bias fp16 --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_hdim64_bf16_biasfp16_ragged_sm80 "
check 0 compile --hdim 64 --ragged --bias fp16 --backward --target sm_90 --dry-run --cache-dir "$layer"
says "flash_bwd_dbias_hdim64_bf16_biasfp16_ragged_sm80 "
says "flash_bwd_hdim64_bf16_biasfp16_ragged_sm90 "
# A snippet's kernels have its text, and are compiled through the plan.
mods=$here/emulator/mods
check 0 compile --hdim 64 --page-size 16 --mod "$mods/both.mod" --target sm_90 --dry-run --cache-dir "$layer"
says "flash_fwd_schedule_hdim8_bf16_sm80 "
says "flash_fwd_hdim64_bf16_modscore_modmask_paged_sm90 "
check 0 compile --hdim 64 --ragged --backward --mod "$mods/both.mod" --target sm_90 --dry-run --cache-dir "$layer"
says "flash_bwd_hdim64_bf16_modscore_modmask_ragged_sm80 "
check 0 compile --hdim 72 --causal --mod "$mods/both.mod" --target sm_80 --cache-dir "$folder/mods"
says "flash_fwd_hdim72_bf16_causal_modscore_modmask_sm80 "
says "8 kernels for sm_80: 8 compiled, 0 linked in or cached"
ATTNPRESS_JIT_OFF=1 check 0 compile --hdim 72 --causal --mod "$mods/both.mod" --target sm_80 \
  --cache-dir "$folder/mods"
says "8 kernels for sm_80: 0 compiled, 8 linked in or cached"
ATTNPRESS_JIT_OFF=1 check 1 compile --hdim 64 --causal --mod "$mods/grad.mod" --target sm_80 \
  --cache-dir "$folder/mods"
complains 'with the snippet "grad" is not cached'
check 2 compile --hdim 64 --mod "$mods/none.mod" --target sm_80
complains "$mods/none.mod cannot be read"
for text in '{"num_attention_heads": 8' '{"num_attention_heads": 8,}' '[1, 2] 3' '{"a": "b' ''; do
  printf '%s' "$text" >"$folder/broken.json"
  check 1 compile --config "$folder/broken.json" --target sm_90
  complains "is no JSON object (byte "
done
echo '{"hidden_size": 10}' >"$folder/broken.json"
check 1 compile --config "$folder/broken.json" --target sm_90
complains "has no num_attention_heads"
echo '{"num_attention_heads": 10}' >"$folder/broken.json"
check 1 compile --config "$folder/broken.json" --target sm_90
complains "has neither head_dim nor hidden_size"
check 1 compile --config "$folder/none.json" --target sm_90
complains "none.json: No such file"
check 2 compile --hdim 72
complains "--target is missing, and there is no GPU"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=8.9 \
  check 0 compile --hdim 72 --dry-run --cache-dir "$layer"
says "kernels for sm_86"
check 2 compile --hdim 60 --target sm_90
complains "head dim 60 is not supported: it must be a multiple of 8 from 8 to 512"
check 2 compile --hdim many --target sm_90
complains '--hdim is "many"; it must be 1 to'
check 2 compile --dtype fp32 --target sm_90
complains '--dtype is "fp32"; it must be fp16 or bf16'
check 2 compile --causal --target sm_90
complains "--hdim is missing"
check 2 compile --hdim 72 flash_fwd_hdim48_bf16_sm80
complains "is a name, and a shape was given as well"
check 2 compile flash_fwd_hdim48_bf16_sm80 --dry-run
complains "--dry-run goes with a shape"

# ---- explain -------------------------------------------------------------------------------------
explained=$folder/explained
check 0 explain --hdim 128 --causal --heads 32 --kv-heads 8 --seqlen-q 4096 --target sm_90 \
  --cache-dir "$explained"
says "launch   flash_fwd_hdim128_bf16_causal_long_sm90"
says "an SM holds 1 (shared memory): 1.00 waves"
says "instead  flash_fwd_hdim128_bf16_causal_sm80, "
says " waves of 1024 thread blocks"
says "arch_max 80 asks for it"
says "no splits"
says "bound    137 GFLOP in products, 80.0 MB read and written at least"
says "138.95 us at 989.4 TFLOP/s, 25.03 us at 3352 GB/s (H100 SXM): bound by products"
check 0 explain --hdim 128 --causal --heads 32 --kv-heads 8 --seqlen-q 1 --seqlen-k 8192 \
  --target sm_90 --gb-s 4800 --cache-dir "$explained"
says "launch   flash_fwd_split_hdim128_bf16_decode_sm80"
says "launch   flash_fwd_combine_hdim128_bf16_sm80"
says "not sm90: its decode kernels are for batch-invariant calls"
says "full: a single query sees every key under the causal mask as well"
says "16 splits: more thread blocks for 132 SMs"
says "no splits: 8 thread blocks would leave most of 132 SMs idle"
says "32 splits: 128 of 132 SMs have work already"
says "at 4800 GB/s (as given): bound by memory"
check 0 explain --hdim 64 --batch 2 --heads 13 --seqlen-q 45 --seqlen-k 64 --target sm_90 \
  --cache-dir "$explained"
says "launch   flash_fwd_hdim64_bf16_sm80"
says "not sm90: of few keys sm80 takes less time"
check 0 explain --hdim 64 --batch 57 --heads 6 --seqlen-q 28 --seqlen-k 20 --backward --target sm_90 \
  --cache-dir "$explained"
says "launch   flash_bwd_hdim64_bf16_sm80"
says "not sm90: of few rows sm80 takes less time"
check 0 explain --hdim 320 --target sm_90 --cache-dir "$explained"
says "launch   flash_fwd_split_hdim320_bf16_sm90"
check 0 explain --hdim 320 --softcap 30 --target sm_90 --cache-dir "$explained"
says "not sm90: above head dim 256"
check 0 explain --hdim 64 --target sm_80 --num-splits 3 --json --cache-dir "$explained"
says '"num_splits": 3'
says '"3 splits: asked for"'
if command -v python3 >"$folder/which"; then
  python3 -c '
import json, sys
found = json.load(sys.stdin)
assert [launch["stem"] for launch in found["launches"]] == [
    "flash_fwd_split_hdim64_bf16_sm80", "flash_fwd_combine_hdim64_bf16_sm80"], found
assert found["flops"] == 4 * 1024 * 1024 * 64' <"$folder/out" || broken "explain --json"
fi
check 0 explain --hdim 128 --causal --window 511,0 --softcap 30 --bias fp16 --sinks --dropout 0.1 \
  --alibi --heads 8 --target sm_80 --cache-dir "$explained"
says "bf16, window 511,0, softcap 30, ALiBi, bias fp16, sinks, dropout 0.1"
says "launch   flash_fwd_hdim128_bf16_window_softcap_alibi_biasfp16_dropout_sm80"
says "bound    1.61 GFLOP in products, 14.0 MB read and written at least" # 393,344 pairs a head
check 0 explain --hdim 128 --backward --causal --heads 32 --target sm_90 --cache-dir "$explained"
says "call     backward, "
says "launch   flash_bwd_hdim128_bf16_causal_sm90"
says "fused: one kernel computes dk and dv"
says "bound    21.5 GFLOP"
check 0 explain --hdim 128 --backward --deterministic --target sm_90 --cache-dir "$explained"
says "launch   flash_bwd_dkv_hdim128_bf16_sm"
says "paired: a kernel for dq and one for dk and dv, as deterministic gradients were asked for"
check 0 explain --hdim 320 --backward --target sm_90 --cache-dir "$explained"
says "the fused one ends at head dim 256"
says "not sm90: head dim 320 is not supported"
check 0 explain --hdim 64 --backward --causal --mod "$mods/both.mod" --target sm_90 --cache-dir "$explained"
says "launch   flash_bwd_hdim64_bf16_causal_modscore_modmask_sm80"
says "not sm90: a snippet's score is not supported"
check 0 explain --hdim 128 --backward --softcap 3 --sinks --target sm_90 --cache-dir "$explained"
says "launch   flash_bwd_sinks_hdim8_fp16_sm80"
says "launch   flash_bwd_hdim128_bf16_softcap_sm90"
check 0 explain --hdim 128 --backward --softcap 3 --dropout 0.1 --target sm_90 --cache-dir "$explained"
says "launch   flash_bwd_hdim128_bf16_softcap_dropout_sm80"
says "those of sm90 have no gradients of a softcap with ALiBi, bias or dropout"
check 0 explain --hdim 64 --heads 8 --page-size 16 --batch 4 --seqlen-q 1000 --target sm_90 \
  --cache-dir "$explained"
says "bf16, full, ragged, pages of 16"
says "launch   flash_fwd_hdim64_bf16_paged_sm90"
check 0 explain --hdim 64 --heads 8 --page-size 20 --batch 4 --seqlen-q 1000 --target sm_90 \
  --cache-dir "$explained"
says "launch   flash_fwd_hdim64_bf16_paged_sm90"
check 0 explain --hdim 64 --causal --ragged --batch 3 --seqlen-q 1000 --heads 16 --target sm_90 \
  --cache-dir "$explained"
says "launch   flash_fwd_schedule_hdim8_bf16_sm80"
says "instead  flash_fwd_hdim64_bf16_causal_ragged_sm80, "
check 0 explain --hdim 64 --ragged --batch 3 --seqlen-q 1000 --heads 16 --softcap 3 \
  --target sm_90 --cache-dir "$explained"
says "launch   flash_fwd_hdim64_bf16_softcap_ragged_sm90"
check 0 explain --hdim 64 --ragged --batch 3 --seqlen-q 1000 --softcap 3 --batch-invariant \
  --target sm_90 --cache-dir "$explained"
says "not sm90: its kernels of batch-invariant calls have no softcap or ALiBi"
check 0 explain --hdim 64 --ragged --batch 3 --seqlen-q 1000 --dropout 0.5 --target sm_90 \
  --cache-dir "$explained"
says "not sm90: its ragged kernels have no bias or dropout"
check 0 explain --hdim 256 --ragged --batch 3 --seqlen-q 1000 --alibi --target sm_90 \
  --cache-dir "$explained"
says "not sm90: above value head dim 128 its ragged kernels have no ALiBi"
check 0 explain --hdim 64 --mod "$mods/both.mod" --target sm_80 --cache-dir "$explained"
says "launch   flash_fwd_split_hdim64_bf16_modscore_modmask_sm80"
check 2 explain --hdim 64 --measure --target sm_80
complains "--measure is of the present GPU"
check 2 explain --hdim 64 --measure
complains "--target is missing, and there is no GPU"
# Beside the time of a device that computes nothing.
measured() {
  ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_EVENT_US=200 ATTNPRESS_CACHE_DIR=$folder/measured \
    check 0 explain "$@"
}
measured --hdim 128 --causal --heads 32 --kv-heads 8 --seqlen-q 4096 --measure
says "(Fake GPU 0): bound by products"
says "measured 200.00 us, the median of 20 calls: 69% of the bound"
says "launch   flash_fwd_hdim128_bf16_causal_long_sm90"
measured --hdim 128 --heads 8 --seqlen-q 1 --seqlen-k 8192 --batch 4 --page-size 16 --measure --json
says '"measured_us": 200.0'
measured --hdim 64 --ragged --batch 3 --seqlen-q 500 --measure
says "measured 200.00 us, the median of 20 calls"
measured --hdim 64 --seqlen-q 500 --causal --softcap 3 --sinks --alibi --dropout 0.1 --measure
says "measured 200.00 us, the median of 20 calls"
measured --hdim 64 --causal --mod "$mods/both.mod" --measure
says "measured 200.00 us, the median of 20 calls"
# New keys, and the attention that reads them: on a driver that runs nothing.
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so ATTNPRESS_CACHE_DIR=$folder/measured \
  check 0 run --device cuda --hdim 64 --heads 4 --kv-heads 2 --check none --lengths 50,77 --append 4 \
  --rotary neox --page-size 16
says "kernel    append_write_bf16_sm80"
says "kernel    flash_fwd_hdim64_bf16_paged_decode_sm80"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so check 2 explain --hdim 64 --backward --measure
complains "--measure is of the forward call"
check 2 explain --hdim 128 --deterministic --target sm_90
complains "--deterministic is of --backward"
check 0 run --device cpu --backward --lengths 5,70,0,33 --heads 4 --kv-heads 2 --hdim 40 --causal --check full
says "backward, 4 sequences, 108 queries (at most 70 of one), 108 keys (70), 4 heads on 2"
says "check     held"
check 0 run --device cpu --lengths 5,70,0,33 --heads 4 --kv-heads 2 --hdim 40 --causal --bias bf16 --check full
says "4 heads on 2 key heads, head dim 40, bf16, causal, bias bf16"
says "check     held"
check 0 run --device cpu --lengths 5,70,0,33 --heads 4 --kv-heads 2 --hdim 40 --causal --ready-schedule --check full
says "head dim 40, bf16, causal, bshd, with a ready schedule"
says "check     held"
ATTNPRESS_CHECK=1 check 0 run --device cpu --lengths 5,70 --page-size 16 --page-tables flat --ready-schedule --check full
says "check     held"
check 2 run --ready-schedule
complains "--ready-schedule is of --lengths, which is not given"
check 2 run --lengths 5,7 --backward --ready-schedule
complains "--ready-schedule is of the forward pass"
check 1 run --device cpu --lengths 5,70 --mod "$mods/both.mod"
complains "the CPU backend cannot run it"
check 0 run --device cpu --backward --lengths 5,70,0,33 --heads 4 --kv-heads 2 --hdim 40 --causal --bias fp32 --check full
says "check     held"
check 1 run --device cpu --backward --lengths 5,7 --mod "$mods/both.mod"
complains "the CPU backend cannot run it"
check 2 run --backward --lengths 5,7 --page-size 4
complains "keys in pages have no gradients"
check 2 explain --hdim 128 --window 5 --target sm_90
complains '--window is "5"; it must be two whole numbers'
[ ! -e "$explained" ] || broken "explain made a cache"
check 2 explain --hdim 128 --target sm_90 --tflops many
complains '--tflops is "many"; it must be a positive number'
check 2 explain --target sm_90
complains "--hdim is missing"

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
check 0 cache du --cache-dir "$cache"
says "damaged       1 entries"
says "all           4 entries"
says "of 512.0 MB, in $cache"
check 1 cache export "$folder/layer" --cache-dir "$cache"
says "3 kernels, "
grep -q "1 damaged entries were left out" "$folder/err" || broken "a damaged entry is not named"
(umask 077 && "$tool" cache export "$folder/others/layer" --target sm_80 --only '*hdim48*' \
  --cache-dir "$folder/two" >"$folder/out") || :
[ "$(stat -c %a "$folder/others/layer" "$folder/others/layer"/*.entry | sort -u | tr '\n' ' ')" = \
  "644 755 " ] || broken "a layer that others cannot read"
check 0 cache verify --cache-dir "$folder/others/layer"
says "0 damaged"
if [ "$(id -u)" -eq 0 ] && command -v runuser >"$folder/which"; then # what root made serves others
  chmod 755 "$folder"
  cp "$tool" "$folder/tool"
  if runuser -u nobody -- env -u ATTNPRESS_NVRTC HOME=/nonexistent ATTNPRESS_JIT_OFF=1 \
    ATTNPRESS_CACHE_LAYERS="$folder/others/layer" "$folder/tool" compile \
    flash_fwd_hdim48_bf16_sm80 --target sm_80 >"$folder/out" 2>"$folder/err"; then
    says "sm_80     cache"
  else
    broken "another user cannot read a layer of root's: $(cat "$folder/err")"
  fi
fi
check 0 cache import "$folder/others/layer" --cache-dir "$folder/new"
says "copied to $folder/new"
check 0 cache du --cache-dir "$folder/new"
says "sm_80"
ATTNPRESS_JIT_OFF=1 ATTNPRESS_CACHE_LAYERS=$folder/others/layer ATTNPRESS_CACHE_OFF=1 \
  check 0 compile flash_fwd_hdim48_bf16_sm80:sm_80
says "sm_80     cache"
mkdir -m 700 "$folder/bounded"
check 0 compile flash_fwd_hdim24_bf16_sm80 --cache-dir "$folder/bounded"
bound=$(($(cat "$folder"/bounded/*.entry | wc -c) * 3 / 2))
ATTNPRESS_CACHE_MAX_BYTES=$bound check 0 compile flash_fwd_hdim32_bf16_sm80 --cache-dir "$folder/bounded"
grep -q " is evicted: the bound is $bound bytes" "$folder/err" || broken "an eviction is not told"
check 0 cache prune --unused-days 1 --cache-dir "$folder/new"
says "0 kernels, "
for entry in "$folder/new"/*.entry; do :; done
touch -d '3 days ago' "$entry"
check 0 cache prune --unused-days 1 --cache-dir "$folder/new"
says "1 kernels, "
check 0 cache prune --max-bytes 1 --cache-dir "$layer"
says "removed from $layer"
check 0 cache list --cache-dir "$layer"
says ": 0 kernels"
mkdir -m 777 "$folder/theirs"
check 1 cache export "$folder/theirs" --cache-dir "$cache"
complains "can be written by others (mode 0777)"
check 1 cache import "$folder/theirs" --cache-dir "$folder/new"
complains "can be written by others (mode 0777)"
check 1 cache import "$folder/nowhere" --cache-dir "$folder/new"
complains "No such file"
check 2 cache export
complains "export needs a directory"
check 2 cache export one two
complains '"two" is a word too many'
check 0 cache prune --cache-dir "$folder/absent"
check 2 cache prune --max-bytes 5T
complains '--max-bytes is "5T"'
check 2 cache prune --unused-days 0
complains '--unused-days is "0"'
check 2 cache list --max-bytes 5M
complains "go with prune"
check 2 cache du --only '*'
complains "go with export and import"
check 0 cache clear --cache-dir "$cache"
says "4 files removed"
check 0 cache verify --cache-dir "$cache"
says "0 entries are good, 0 damaged"
check 0 cache clear --cache-dir "$folder/never-made"
says "0 files removed"
check 1 cache clear --cache-dir "$folder/open"
complains "can be written by others"
check 2 cache
complains "the action is missing"
check 2 cache burn
complains 'there is no action "burn"'
check 2 cache list verify
complains "is a second"
HOME= check 1 cache path
complains "there is no cache directory"

# ---- doctor --------------------------------------------------------------------------------------
check 1 doctor
says "driver        none"
says "NVRTC         13.0, $ATTNPRESS_NVRTC"
says "compiles for sm_75 sm_80"
says "$HOME/.cache/attnpress, made when it is first needed"
says "Missing:"
says "the CUDA driver is not installed"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_DEVICES=2 FAKE_CUDA_CAPABILITY=8.9 \
  check 0 doctor --no-launch
says "driver        CUDA 13.0"
says "0: Fake GPU 0, compute capability 8.9, 84 SMs, 80 GB"
says "1: Fake GPU 1"
says "runs sm86 kernels compiled for sm_86"
says "Nothing is missing."
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=9.0 check 0 doctor --no-launch
says "runs sm90 kernels compiled for sm_90a"
says "runs sm80 kernels compiled for sm_90;"
# A driver on which nothing runs.
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=9.0 check 1 doctor
says "A launch that is right: "
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_CAPABILITY=7.5 check 1 doctor
says "compute capability 7.5; 8.0 or newer is needed"
ATTNPRESS_LIBCUDA=$build/libfake_cuda.so FAKE_CUDA_VERSION=12080 check 1 doctor --no-launch
says "NVRTC         none"
says "NVRTC 13.0, newer than the driver, which knows CUDA 12.8"
ATTNPRESS_CACHE_LAYERS=$folder/others/layer:$folder/open:$folder/none check 1 doctor --no-launch
says "layers        $folder/others/layer, "
says "$folder/open, not usable"
says "A cache layer: cache directory $folder/open can be written by others (mode 0775)"
says "$folder/none, not usable"
ATTNPRESS_CACHE_DIR=$folder/open check 1 doctor --no-launch
says "$folder/open, not usable"
check 1 doctor --json
says '"driver": ["none"]'
says '"missing": ["GPUs: the CUDA driver is not installed'
says '"ok": false'
if command -v python3 >"$folder/which"; then
  python3 -c 'import json, sys; json.load(sys.stdin)["NVRTC"][1]' <"$folder/out" ||
    broken "doctor --json is no JSON"
fi

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
: >"$out/left.tmp"
FAKE_NVRTC_MODE=fail check 1 prebuild --out "$out" --jobs 2
[ ! -e "$out/prebuilt_cubins.c" ] || broken "a table of a build that failed"
grep -q "could not compile" "$folder/err" || broken "no reason"
check 0 prebuild --out "$out"
says "$cubins kernels, $((cubins - done_before)) to compile"
[ -z "$(find "$out" -name '*.tmp')" ] || broken "temporaries are left"
# Two builds of one folder take turns.
rm -r "$out"
: >"$folder/count"
FAKE_NVRTC_MS=5 "$tool" prebuild --out "$out" >"$folder/beside" 2>&1 &
FAKE_NVRTC_MS=5 "$tool" prebuild --out "$out" >"$folder/out" 2>&1 ||
  broken "beside another build: $(cat "$folder/out")"
wait $! || broken "beside another build: $(cat "$folder/beside")"
[ "$(wc -c <"$folder/count" | tr -d ' ')" -eq "$cubins" ] ||
  broken "two builds compiled $(wc -c <"$folder/count") times, $cubins expected"

# Folders for NVRTC are looked at last, and never where ATTNPRESS_NVRTC names one.
mkdir "$folder/pip"
cp "$build/libfake_nvrtc.so" "$folder/pip/libnvrtc.so.12"
cp "$build/libfake_nvrtc.so" "$folder/pip/libnvrtc-builtins.so.12.8"
rm -r "$out"
ATTNPRESS_NVRTC=$folder/nothing.so check 1 prebuild --out "$out" --nvrtc-dirs "$folder/pip"
complains "as ATTNPRESS_NVRTC names one"

summary
