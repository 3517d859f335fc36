#!/bin/sh
# keep_ptxas.sh OBJECT COMMAND...: runs a compiler's command and keeps what ptxas says of the kernels (-Xptxas -v) in OBJECT.ptxas, for
# tests/build/ptxas.py. Everything else on standard error goes there. ccache repeats it all where it has the object.
object=$1
shift
"$@" 2>"$object.ptxas"
status=$?
grep -v -e '^ptxas info' -e '^ *[0-9]* bytes stack frame,' "$object.ptxas" >&2
exit $status
