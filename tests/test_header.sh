#!/bin/sh
# Each public header by itself, in C11 and C++17, by gcc and clang, with the warnings that users turn
# into errors: the header alone, and a program that uses what it defines (macros, inline functions).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../include
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

common="-Wall -Wextra -Wpedantic -Wconversion -Wcast-qual -Werror"
failed=0
tried=0

compile() { # WHAT COMPILER FLAGS... FILE
  what=$1
  shift
  tried=$((tried + 1))
  if ! "$@" -fsyntax-only -I"$include" >"$folder/log" 2>&1; then
    echo "FAILED: $what: $*"
    grep -E 'error|warning' "$folder/log" | sort -u | sed 's/^/  /'
    failed=1
  fi
}

# A compiler that cannot compile an empty program of the language is left out.
works() { # COMPILER LANGUAGE STANDARD
  command -v "$1" >/dev/null || return 1
  echo '#include <stddef.h>' >"$folder/empty"
  "$1" -x "$2" "-std=$3" -fsyntax-only "$folder/empty" >/dev/null 2>&1
}

compile_all() { # COMPILER LANGUAGE STANDARD FLAGS...
  compiler=$1 language=$2 standard=$3
  shift 3
  if ! works "$compiler" "$language" "$standard"; then
    echo "left out: $compiler for $standard"
    return
  fi
  # What the header says twice, or does not include itself, shows when it comes first, and again.
  for header in $(cd "$include" && find attnpress -name '*.h' | sort); do
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$folder/header"
    # shellcheck disable=SC2086
    compile "$header, $standard" "$compiler" -x "$language" "-std=$standard" $common "$@" \
      "$folder/header"
  done
  # shellcheck disable=SC2086
  compile "header_user.c, $standard" "$compiler" -x "$language" "-std=$standard" $common "$@" \
    "$here/header_user.c"
}

for compiler in gcc clang; do
  compile_all $compiler c c11 -Wstrict-prototypes
  compile_all $compiler c++ c++17 -Wold-style-cast
done
[ "$tried" -gt 0 ] || { echo "skipped: neither gcc nor clang was found"; exit 77; }
[ "$failed" = 0 ] || exit 1
echo "ok: $tried compilations"
