#!/bin/sh
# Sets up like demo.sh, builds, and runs every test. The last line is
#     N passed, N failed, N skipped
# --long     the long forms of the expensive tests (hours rather than minutes)
# --werror   compiler warnings are errors
# Real models and tokenizers are tested where LOCKSTEP_MODELS and LOCKSTEP_TOKENIZERS name folders
# of them; with LOCKSTEP_REQUIRE_REAL=1 their absence is a failure and not a skip.
set -eu
cd "$(dirname "$0")"
# shellcheck source=mpi_tests/setup.sh
. mpi_tests/setup.sh

werror=false
multiplier=1
for word in "$@"; do
    case $word in
    --long)
        export LOCKSTEP_LONG=1
        multiplier=20
        ;;
    --werror) werror=true ;;
    *)
        echo "check.sh: unknown option '$word'; known are --long and --werror" >&2
        exit 2
        ;;
    esac
done

ls_need_packages
ls_want_test_packages
echo "Building into build/ and, with the deliberate faults of the negative controls, into build-mutants/"
ls_build build -Dtests=true -Dwerror=$werror
ls_build build-mutants -Dtests=true -Dmutants=true -Dwerror=$werror
ls_mpi_environment

rm -f build/meson-logs/testlog.json build-mutants/meson-logs/testlog.json
# The tests' own verdicts count, not meson's exit code.
meson test -C build --no-rebuild --print-errorlogs --timeout-multiplier $multiplier </dev/null || true
# In the other build only the tests that must fail there are new.
mutants=$(meson test -C build-mutants --no-rebuild --list | sed -n 's/.*\(mutant[^ ]*\)$/\1/p')
# shellcheck disable=SC2086  # a list of names
meson test -C build-mutants --no-rebuild --print-errorlogs \
    --timeout-multiplier $multiplier $mutants </dev/null || true
exec python3 mpi_tests/count.py build/meson-logs/testlog.json build-mutants/meson-logs/testlog.json
