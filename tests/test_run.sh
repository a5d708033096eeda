#!/bin/sh
# attnpress run on the CPU: what it computes holds, and wrong words end with status 2 and one
# sentence.
tool=${ATTNPRESS_BUILD_DIR:?}/attnpress
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  failures=$((failures + 1))
  echo "FAIL: attnpress run $*"
  cat "$work/out" "$work/err"
}

# status WANTED WORD...: runs, and checks the exit status
status() {
  wanted=$1
  shift
  "$tool" run --device cpu "$@" >"$work/out" 2>"$work/err"
  got=$?
  [ "$got" -eq "$wanted" ] || fail "$* (status $got, not $wanted)"
}

# held WORD...: the check must hold and be reported
held() {
  status 0 "$@"
  grep -q '^check     held' "$work/out" || fail "$*"
  for line in call device kernel origin time error; do
    grep -q "^$line  *." "$work/out" || fail "$* (no line \"$line\")"
  done
  [ ! -s "$work/err" ] || fail "$* (words on stderr)"
}

# wrong WORD...: status 2, one line on stderr that says TEXT, nothing on stdout
wrong() {
  text=$1
  shift
  status 2 "$@"
  [ "$(wc -l <"$work/err")" -eq 1 ] && [ ! -s "$work/out" ] || fail "$* (one sentence on stderr)"
  grep -q -- "$text" "$work/err" || fail "$* (does not say \"$text\")"
}

held --seqlen-q 200
held --seqlen-q=200 --causal --dtype fp16 --layout bhsd --threads 1 --repeat 1
held --batch 2 --seqlen-q 70 --seqlen-k 100 --heads 6 --kv-heads 2 --hdim 72 --dtype fp32 \
  --check full
held --seqlen-q 100 --hdim 192 --hdim-v 128 --causal --check sample --seed 9 --splits 3
held --seqlen-q 70 --hdim 8 --hdim-v 264 --causal --heads 4 --kv-heads 2
held --batch 1 --seqlen-q 1 --heads 1 --hdim 8
grep -q 'in 512 calls' "$work/out" || fail "a small call is not repeated"
held --seqlen-q 100 --seqlen-k 0
held --seqlen-q 300 --seqlen-k 100 --causal
held --backward --seqlen-q 120 --heads 4 --kv-heads 2 --hdim 64
held --backward --deterministic --seqlen-q 70 --seqlen-k 100 --heads 6 --kv-heads 2 --hdim 72 \
  --dtype fp32 --causal --check full --layout bhsd
grep -q '^call      backward, .*deterministic' "$work/out" || fail "--backward says what it runs"
held --backward --seqlen-q 90 --seqlen-k 130 --heads 4 --kv-heads 2 --hdim 40 --window 20,3 \
  --softcap 5 --alibi --bias fp16 --sinks --dropout 0.2 --check full
grep -q '^error .*dbias' "$work/out" || fail "--backward --bias checks the gradient by the bias"
grep -q '^error .*dsinks' "$work/out" || fail "--backward --sinks checks the gradient by sinks"
grep -q 'window 20,3, softcap 5' "$work/out" || fail "--backward says what is done to scores"
status 0 --backward --seqlen-q 64 --check none
grep -q '^check     none' "$work/out" || fail "--backward --check none"
held --lengths 5,0,77,130 --heads 4 --kv-heads 2 --hdim 64 --check full --causal
grep -q '4 sequences, 212 queries (at most 130 of one), 212 keys (130)' "$work/out" || fail "--lengths"
held --lengths 5,0,77,130 --heads 4 --kv-heads 2 --hdim 64 --causal --batch-invariant
held --lengths 5,0,77,130 --heads 4 --kv-heads 2 --hdim 64 --causal --page-size 16 --bias fp32
held --lengths 5,0,77,130 --heads 4 --kv-heads 2 --hdim 64 --causal --bias fp32 --backward --check full
grep -q '^error .*dbias' "$work/out" || fail "--backward --lengths --bias checks the gradient by the bias"
held --lengths lognormal:9:40:1 --page-size 3 --seqlen-q 2 --heads 4 --hdim 40 --check full --alibi
grep -q 'pages of 3' "$work/out" || fail "--page-size (not in the call's line)"
grep -q '_paged' "$work/out" || fail "--page-size (not in the kernel's name)"
held --lengths 5,77,130 --append 3 --heads 4 --kv-heads 2 --hdim 64 --causal --check full
grep -q '9 queries (at most 3 of one), 212 keys (130), 3 of each new' "$work/out" || fail "--append"
grep -q '^kernel    cpu_append_write' "$work/out" || fail "--append (its kernel is not named)"
grep -q '^append    0.000 of the tolerance' "$work/out" || fail "--append (copies are not exact)"
held --lengths 50,77,130 --append 40 --rotary neox --page-size 3 --heads 4 --kv-heads 2 --hdim 64 \
  --dtype fp16 --layout bhsd
grep -q 'and rotated (neox)' "$work/out" || fail "--rotary (not in the call's line)"
held --lengths 9,8 --append 2 --rotary interleaved --rotary-dim 16 --page-size 4 --page-tables flat \
  --heads 4 --hdim 40 --dtype fp32 --window 5,0
held --lengths 9,80 --append 4 --seqlen-q 7 --heads 4 --hdim 64 --causal --batch-invariant
held --seqlen-q 150 --seqlen-k 170 --heads 4 --kv-heads 2 --hdim 64 --check full --window 20,0
grep -q 'window 20,0' "$work/out" || fail "--window (not in the call's line)"
held --seqlen-q 150 --heads 4 --hdim 64 --check full --causal --chunk 40 --softcap 5 --sinks
grep -q 'window -1,0, chunks of 40, softcap 5, sinks' "$work/out" || fail "--chunk, --softcap, --sinks"
held --seqlen-q 150 --seqlen-k 90 --heads 4 --hdim 64 --check full --window=3,7 --top-left --alibi
for dtype in fp16 bf16 fp32; do
  held --seqlen-q 60 --seqlen-k 101 --heads 4 --hdim 64 --dtype fp16 --check full --bias $dtype
done
held --batch 2 --seqlen-q 99 --heads 6 --kv-heads 2 --hdim 72 --check full --causal --window 30,30 \
  --softcap 20 --alibi --bias bf16 --sinks --dropout 0.2 --seed 5
status 0 --seqlen-q 64 --check none
grep -q '^check     none' "$work/out" || fail "--check none"
status 0 --seqlen-q 0

"$tool" run softmax --device cpu --rows 9 --columns 40 --scale 0 >"$work/out" 2>"$work/err" ||
  fail "run softmax --scale 0 (which means 1)"

wrong 'head dim 520' --hdim 520
wrong '12' --hdim 12
wrong 'hdim' --hdim 0
wrong 'multiple' --heads 6 --kv-heads 4
wrong 'f64' --dtype f64
wrong '"x"' --batch x
wrong '"1.5"' --seqlen-q 1.5
wrong '"-1"' --seqlen-q -1
wrong '--repeat' --repeat
wrong '--frobnicate' --frobnicate
wrong 'is of --backward' --deterministic
wrong 'is of the forward pass' --backward --splits 2
wrong 'bshd' --layout sbhd
wrong '300' --splits 300
wrong '"5,x"; it must be lengths of the keys' --lengths 5,x
wrong '"lognormal:0:9:1"; it must be lengths' --lengths lognormal:0:9:1
wrong 'page-size is of --lengths' --page-size 16
wrong 'batch-invariant does not go with --splits' --batch-invariant --splits 2
wrong 'batch-invariant does not go with --backward' --batch-invariant --backward
wrong 'leave --batch and --seqlen-k out' --lengths 5,6 --batch 2
wrong 'keys in pages have no gradients' --lengths 5,6 --page-size 16 --backward
wrong 'append is of --lengths' --append 3
wrong 'append is 3; sequence 1 of --lengths has only 1 keys' --lengths 5,1 --append 3
wrong 'append is of the forward pass' --lengths 5,6 --append 1 --backward
wrong 'rotary is of --append' --lengths 5,6 --rotary neox
wrong '"gptj"; it must be none, neox or interleaved' --lengths 5,6 --append 1 --rotary gptj
wrong 'rotary-dim is of --rotary' --lengths 5,6 --append 1 --rotary-dim 8
wrong 'a multiple of 2, at most --hdim, 64' --lengths 5,6 --append 1 --rotary neox --rotary-dim 66 --hdim 64
wrong 'leave --seqlen-q out' --lengths 5,6 --append 2 --rotary neox --seqlen-q 3
wrong 'run append --device emulated' --lengths 5,6 --append 1 --device emulated
wrong '"5"; it must be two whole numbers' --window 5
wrong '"-2,0"' --window -2,0
wrong '"3,4x"' --window 3,4x
wrong '"0"; it must be a whole number from 1' --chunk 0
wrong '"-3"; it must be a positive number' --softcap -3
wrong '"int8"; it must be fp16, bf16 or fp32' --bias int8
wrong '"1"; it must be a number from 0 to less than 1' --dropout 1
mods=$(cd "$(dirname "$0")/.." && pwd)/python/attnpress/mods
status 1 --mod "$mods/window.mod"
grep -q 'is compiled for a GPU; the CPU backend cannot run it' "$work/err" || fail "--mod on the CPU"
wrong 'cannot be read' --mod "$work/none.mod"
wrong 'of a scalar of softcap, which has cap' --mod "$mods/softcap.mod" --mod-scalar caps=20
wrong 'has no number behind the =' --mod "$mods/softcap.mod" --mod-scalar cap=x
wrong 'is given without --mod' --mod-scalar cap=20
wrong "\"20\"; it must be a scalar's name" --mod "$mods/softcap.mod" --mod-scalar 20
wrong 'a function of the outer product' --mod "$mods/../../../tests/emulator/mods/ratio.mod"
"$tool" run outer --mod "$mods/softcap.mod" 2>"$work/err" && fail "run outer takes a score"
grep -q 'is not a function of the outer product' "$work/err" || fail "run outer --mod of a score"
"$tool" run outer --mod-scalar a=1 2>"$work/err" && fail "--mod-scalar without --mod"
grep -q 'is given without --mod' "$work/err" || fail "run outer --mod-scalar without --mod"
wrong 'hdim needs a value, a whole number from 1' --hdim
wrong 'dtype needs a value, fp16, bf16 or fp32' --dtype
wrong '"gpu"; it must be cpu, cuda or emulated' --device gpu
wrong 'causal takes no value' --causal=yes
wrong 'stem goes with --device emulated' --stem flash_fwd_hdim64_bf16_sm80
wrong 'arch goes with --device emulated' --device cpu --arch=sm90
wrong '"257"; it must be a whole number from 0 to 256' --splits 257
wrong '"1025"; it must be a whole number from 0 to 1024' --threads 1025
wrong '"conv" is neither a family nor an option' conv

# emulated TEXT WORD...: status 2, and a sentence of the emulator's that says TEXT
emulated() {
  text=$1
  shift
  "$tool" run "$@" >"$work/out" 2>"$work/err"
  [ $? -eq 2 ] && grep -q -- "$text" "$work/err" || fail "$* (does not say \"$text\")"
}
if [ -x "$tool-emulate" ]; then # it needs clang
  emulated '"sm99"; it must be sm80, sm86 or sm90' --device emulated --arch sm99
  emulated 'heads is 3 and --kv-heads 2; the first' --device emulated --heads 3 --kv-heads 2
  emulated 'batch-invariant is of --lengths' --device emulated --batch-invariant
  emulated 'batch-invariant does not go with --stem' --device emulated --lengths 5 --batch-invariant --stem x
  emulated 'batch-invariant does not go with --bias' --device emulated --lengths 5 --batch-invariant --bias bf16
  emulated 'ready-schedule is of the forward' --device emulated --lengths 5 --ready-schedule --backward
  emulated '"--frobnicate" is not an option of' --device emulated --frobnicate 3
  emulated '"5"; it must be two whole numbers' --device emulated --window 5
  emulated '"fp64"; it must be fp16, bf16 or fp32' softmax --device emulated --dtype fp64
  emulated '"-1"; it must be a whole number from 0' softmax --device emulated --rows=-1
  "$tool" run outer --device emulated --batch 10 --rows 200 --columns 301 >"$work/out" 2>&1 &&
    grep -q outer_unit_bf16_sm80 "$work/out" ||
    fail "run outer (another kernel than a call runs first)"
  "$tool" run outer --device emulated --summed --backward --batch 40 --stem outer_sum_dx_bf16_sm80 \
    >"$work/out" 2>&1 && grep -q 'over 1600 elements' "$work/out" ||
    fail "run outer --stem of a kernel that calls of more run"
  "$tool" run outer --device emulated --batch 10 --rows 200 --columns 301 --stem outer_fwd_bf16_sm80 \
    >"$work/out" 2>&1 && fail "run outer --stem of a kernel that such a call does not run"
  grep -q 'runs other kernels' "$work/out" || fail "run outer --stem of a kernel that is not run"
fi
wrong '10^15' --bias fp16 --seqlen-q 2147480000 --hdim 8
wrong '10^15' --batch 2147483647 --seqlen-q 2147483647

"$tool" run --help >"$work/out" 2>"$work/err" || fail "--help"
for option in batch seqlen-q seqlen-k heads kv-heads hdim hdim-v dtype causal splits layout device \
  repeat check backward deterministic window chunk top-left softcap alibi bias sinks dropout mod \
  mod-scalar; do
  grep -q -- "--$option" "$work/out" || fail "--help (no --$option)"
done

[ $failures -eq 0 ] && echo "attnpress run: all held"
exit $((failures != 0))
