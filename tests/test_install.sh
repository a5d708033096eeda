#!/bin/sh
# Installs the build to a prefix, moves the prefix, and builds and runs a user's program against it:
# through the CMake package and through pkg-config, with the shared library and with the static one.
# Then looks at what is exported.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${ATTNPRESS_BUILD_DIR:-$here/../build}
cc=${CC:-cc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

quietly() { # COMMAND...: its output only where it fails
  "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; fail "$*"; }
}

quietly cmake --install "$build" --prefix "$folder/installed"
mv "$folder/installed" "$folder/prefix" # nothing may name the place that it was installed to
prefix=$folder/prefix
library=$(find "$prefix" -name libattnpress.so)
libdir=$(dirname "$library")

echo "installed files"
(cd "$prefix" && find . ! -type d | sort)
headers=$(cd "$prefix/include/attnpress" && echo *)
public=$(cd "$here/../include/attnpress" && echo *.h)
[ "$headers" = "$public" ] || fail "installed headers: $headers"

run() { # NAME PROGRAM
  LD_LIBRARY_PATH=$libdir "$2" || fail "$1: the program failed"
  echo "ok: $1"
}

# ---- CMake package -------------------------------------------------------------------------------
for target in attnpress::attnpress attnpress::attnpress_static; do
  out=$folder/cmake-${target##*:}
  quietly cmake -S "$here/install" -B "$out" -G Ninja \
    -DCMAKE_PREFIX_PATH="$prefix" -DLIBRARY=$target
  quietly cmake --build "$out"
  run "CMake, $target" "$out/consumer"
done

# ---- pkg-config ----------------------------------------------------------------------------------
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH="$libdir/pkgconfig"
  flags="-std=c11 -Wall -Wextra -Wpedantic -Wcast-qual -Werror"
  version=$(pkg-config --modversion attnpress)
  [ -n "$version" ] || fail "pkg-config --modversion"
  # shellcheck disable=SC2046,SC2086
  $cc $flags -o "$folder/shared" "$here/install/consumer.c" \
    $(pkg-config --cflags --libs attnpress) -lm
  run "pkg-config, shared" "$folder/shared"
  # shellcheck disable=SC2046,SC2086
  $cc $flags -o "$folder/static" "$here/install/consumer.c" \
    $(pkg-config --cflags --libs attnpress-static)
  readelf -d "$folder/static" | grep -q libattnpress && fail "attnpress-static links the shared library"
  "$folder/static" || fail "pkg-config, static: the program failed"
  echo "ok: pkg-config, static"

  # --static adds what the archive needs: for a program that is all static, and for a prefix that
  # holds no shared library.
  # shellcheck disable=SC2046,SC2086
  if echo 'int main(void) { return 0; }' | $cc -static -x c -o "$folder/probe" - 2>"$folder/log"; then
    $cc $flags -static -o "$folder/all_static" "$here/install/consumer.c" \
      $(pkg-config --static --cflags --libs attnpress) 2>"$folder/log" ||
      { cat "$folder/log" >&2; fail "pkg-config --static, all static"; }
    readelf -d "$folder/all_static" | grep -q NEEDED && fail "-static left a shared library"
    "$folder/all_static" || fail "pkg-config --static, all static: the program failed"
    echo "ok: pkg-config --static, all static"
  else
    echo "left out: this machine has no static libc"
  fi
  mkdir "$folder/archive"
  cp -R "$prefix/." "$folder/archive"
  find "$folder/archive" -name 'libattnpress.so*' -delete
  # shellcheck disable=SC2046,SC2086
  (
    export PKG_CONFIG_PATH="$folder/archive/${libdir#"$prefix"/}/pkgconfig"
    $cc $flags -o "$folder/archive_only" "$here/install/consumer.c" \
      $(pkg-config --static --cflags --libs attnpress)
  ) || fail "pkg-config --static, archive alone"
  readelf -d "$folder/archive_only" | grep -q libattnpress && fail "the archive was not linked"
  "$folder/archive_only" || fail "pkg-config --static, archive alone: the program failed"
  echo "ok: pkg-config --static, archive alone"
else
  echo "left out: pkg-config is not installed"
fi

# ---- Examples ------------------------------------------------------------------------------------
says_value() { # NAME PROGRAM: the first row of the result is the first value
  out=$(LD_LIBRARY_PATH=$libdir "$2") || fail "$1: the program failed"
  case $out in "out[0] = "*"that key's value: "*) ;; *) fail "$1 printed: $out" ;; esac
  a=${out#out\[0\] = } && a=${a%%;*}
  [ "$a" = "${out##*value: }" ] || fail "$1 printed: $out"
  echo "ok: $1"
}

quietly cmake -S "$here/../examples" -B "$folder/examples" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$folder/examples"
says_value "examples, CMake" "$folder/examples/forward_cpu"
if command -v pkg-config >/dev/null && command -v make >/dev/null; then
  mkdir "$folder/made"
  quietly make -C "$here/../examples" PKG_CONFIG_PATH="$libdir/pkgconfig" OUT="$folder/made"
  says_value "examples, pkg-config" "$folder/made/forward_shared"
  says_value "examples, pkg-config, static" "$folder/made/forward_static"
fi
if rustc --version >"$folder/rustc" 2>&1; then # a rustup without a toolchain is not one
  quietly rustc -D warnings -o "$folder/rust" "$here/../examples/forward.rs" -L "$libdir"
  says_value "examples, Rust" "$folder/rust"
else
  echo "left out: no rustc that works"
fi

# ---- Notices -------------------------------------------------------------------------------------
for notice in LICENSE NOTICE; do
  [ -n "$(find "$prefix/share" -name $notice)" ] || fail "$notice is not installed"
done

# ---- The installed tool --------------------------------------------------------------------------
"$prefix/bin/attnpress" --help >/dev/null || fail "the installed tool"
"$prefix/bin/attnpress" manual | cmp - "$prefix/share/man/man1/attnpress.1" || fail "the manual page"
for file in bash-completion/completions/attnpress zsh/site-functions/_attnpress \
  fish/vendor_completions.d/attnpress.fish; do
  grep -q -e "--kv-heads\|-l kv-heads" "$prefix/share/$file" || fail "no completions in $file"
done
echo "ok: the installed tool"

# ---- Exported symbols ----------------------------------------------------------------------------
# Exactly the functions that the public headers declare.
declared=$(for header in $headers; do echo "#include <attnpress/$header>"; done |
  $cc -E -P -DATTNPRESS_BUILD_SHARED -I"$prefix/include" - |
  tr '\n' ' ' | sed 's/__attribute__((visibility("default")))/\nAPI /g' |
  sed -n 's/^API [^(]*\(attnpress_[a-z0-9_]*\) *(.*/\1/p' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' |
  grep -v '^attnpress_exchange_' | sort -u) # what the Python package calls
[ -n "$declared" ] || fail "no declaration was found in the header"
[ "$declared" = "$exported" ] || fail "declared: $declared
exported: $exported"
echo "ok: $(echo "$exported" | wc -l) exported symbols, each declared in a public header"

# ---- What the library needs ----------------------------------------------------------------------
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | ld-linux*) ;;
    libzstd.so.*) # where the build found no archive of it
      grep -q '^ATTNPRESS_ZSTD_STATIC:INTERNAL=TRUE' "$build/CMakeCache.txt" &&
        fail "the library links $name, and holds zstd" ;;
    *) fail "the library links $name" ;;
  esac
done
readelf -lW "$library" | grep GNU_STACK | grep -q 'RW ' || fail "the stack would be executable"
echo "ok: the library links" "$(echo "$needed" | tr "\n" " ")"
