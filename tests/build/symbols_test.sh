#!/usr/bin/env bash
# symbols_test.sh LIBRARY HEADER NM: the library exports exactly the functions that the header declares.
set -euo pipefail
library=$1 header=$2 nm=$3
exported=$("$nm" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
declared=$(grep -v '^#' "$header" | tr '\n' ' ' | grep -oE 'OCTET_API [^;(]*\(' | grep -oE 'octet_[a-z0-9_]+\($' | tr -d '(' | sort)
[ -n "$declared" ] || { echo "symbols_test: no declaration was found in $header"; exit 1; }
if ! difference=$(diff <(echo "$declared") <(echo "$exported")); then
  echo "symbols_test: < declared in octet.h and not exported, > exported and not declared:"
  echo "$difference"
  exit 1
fi
echo "symbols_test: $(echo "$declared" | wc -l) functions, declared and exported"
