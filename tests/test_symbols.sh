#!/bin/sh
# Which names leave the library, and which it asks others for: the shared library exports attnpress_*
# and finds none of them by a search through the process; the archive has no other global name, and
# what links it exports none of them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${ATTNPRESS_BUILD_DIR:-$here/../build}
shared=$build/libattnpress.so
archive=$build/libattnpress.a

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

for tool in nm readelf; do
  command -v $tool >/dev/null || { echo "skipped: $tool was not found"; exit 77; }
done

# Names of functions, one a line, that stand in lines of nm.
functions() { awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort; }

# ---- The shared library --------------------------------------------------------------------------
exported=$(nm -D --defined-only "$shared" | functions)
[ -n "$exported" ] || fail "$shared exports nothing"
if echo "$exported" | grep -v '^attnpress_'; then fail "$shared exports more than attnpress_*"; fi

others=$(nm -D --defined-only "$shared" | awk '$2 != "T"')
echo "$others" | grep -q ' A ATTNPRESS_[0-9]*$' || fail "$shared names no version: $others"
[ "$(echo "$others" | wc -l)" = 1 ] || fail "$shared exports more than functions: $others"
nm -D --defined-only "$shared" | grep ' T ' | grep -v '@@ATTNPRESS_[0-9]*$' &&
  fail "exported without the version"
echo "ok: libattnpress.so exports $(echo "$exported" | wc -l) functions"

readelf -rW "$shared" | grep -E '(attnpress|ap)_' &&
  fail "$shared searches the process for its own functions"
echo "ok: libattnpress.so calls itself directly"

# ---- The archive ---------------------------------------------------------------------------------
global=$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort)
[ "$global" = "$exported" ] || fail "$archive has the global names $global"
shown=$(readelf -sW "$archive" | awk '$8 ~ /^attnpress_/ && $5 == "GLOBAL" && $6 != "HIDDEN"')
[ -z "$shown" ] || fail "$archive does not hide $shown"
echo "ok: libattnpress.a has the same functions, hidden, and no other global name"

for engine in "$build"/libengine_one.so "$build"/libengine_two.so; do
  names=$(nm -D --defined-only "$engine" | awk '{ print $3 }')
  [ "$names" = engine_compile ] || fail "$engine links the archive and exports $names"
done
echo "ok: a library that links libattnpress.a exports nothing of it"
