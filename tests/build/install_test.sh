#!/usr/bin/env bash
# install_test.sh SOURCE BUILD CC CXX: installs BUILD into a fresh prefix, then builds the examples against nothing but that prefix, by
# find_package and by pkg-config, shared and static, and runs them.
set -euo pipefail
source=$1 build=$2 cc=$3 cxx=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() { echo "install_test: $*" >&2; exit 1; }

expect() {  # expect PATTERN PROGRAM...: it succeeds and says so
  local pattern=$1 said
  shift
  said=$("$@") || fail "$* failed and said: $said"
  echo "$said"
  grep -qE "$pattern" <<<"$said" || fail "$* should have printed $pattern"
}

cmake --install "$build" --prefix "$prefix" >"$scratch/install.log"
for language in c cpp; do
  compiler=(-DCMAKE_C_COMPILER="$cc")
  [ $language = c ] || compiler=(-DCMAKE_CXX_COMPILER="$cxx")
  cmake -S "$source/examples/$language" -B "$scratch/$language" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
    "${compiler[@]}" >"$scratch/$language.log" || { cat "$scratch/$language.log"; fail "configure"; }
  cmake --build "$scratch/$language" >>"$scratch/$language.log" || { cat "$scratch/$language.log"; fail "build"; }
done
expect 'from C: int8 against exact' "$scratch/c/attend"
expect 'from C\+\+: int8 against exact' "$scratch/cpp/attend"
expect 'from C\+\+: int8 against exact' "$scratch/cpp/attend_static"
if grep -qw avx2 /proc/cpuinfo; then  # the reference keeps no keys
  expect 'from C\+\+: int8 cache of 150 keys' "$scratch/cpp/decode"
fi

libdir=$(dirname "$(find "$prefix" -name octet.pc)")/..
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046  # flags are words
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/c/attend.c" -o "$scratch/by_pkg_config" \
  $(pkg-config --cflags --libs octet) -lm
expect 'from C: int8 against exact' env LD_LIBRARY_PATH="$libdir" "$scratch/by_pkg_config"

for file in LICENSE NOTICE THIRD_PARTY.md; do
  [ -n "$(find "$prefix/share/doc" -name $file)" ] || fail "$file was not installed"
done
readelf -d "$libdir/liboctet.so" | grep -q 'SONAME.*liboctet\.so\.[0-9]' || fail "liboctet.so has no versioned SONAME"
if grep -rIlE "$source|$build" "$prefix" >"$scratch/leaks"; then
  cat "$scratch/leaks"
  fail "these installed files name the build's own folders"
fi
echo "install_test: three examples, three ways to link"
