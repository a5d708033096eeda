#!/bin/sh
# Programs that were compiled against an older header run on this library: tests/abi/program.c with
# each header that is kept in tests/abi/.
here=$(cd "$(dirname "$0")" && pwd)
build=${ATTNPRESS_BUILD_DIR:-$here/../build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
for header in "$here"/abi/*/attnpress/attnpress.h; do
  include=$(dirname "$(dirname "$header")")
  version=$(basename "$include")
  "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$include" "$here/abi/program.c" \
    -o "$folder/program" -L "$build" -lattnpress &&
    LD_LIBRARY_PATH="$build" "$folder/program" || {
    echo "FAILED: a program of version $version"
    status=1
  }
done
exit $status
