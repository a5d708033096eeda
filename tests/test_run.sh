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
held --batch 1 --seqlen-q 1 --heads 1 --hdim 8
grep -q 'in 512 calls' "$work/out" || fail "a small call is not repeated"
held --seqlen-q 100 --seqlen-k 0
held --seqlen-q 300 --seqlen-k 100 --causal
status 0 --seqlen-q 64 --check none
grep -q '^check     none' "$work/out" || fail "--check none"
status 0 --seqlen-q 0

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
wrong 'bshd' --layout sbhd
wrong '300' --splits 300
wrong '10^15' --batch 2147483647 --seqlen-q 2147483647

"$tool" run --help >"$work/out" 2>"$work/err" || fail "--help"
for option in batch seqlen-q seqlen-k heads kv-heads hdim hdim-v dtype causal splits layout device \
  repeat check; do
  grep -q -- "--$option" "$work/out" || fail "--help (no --$option)"
done

[ $failures -eq 0 ] && echo "attnpress run: all held"
exit $((failures != 0))
