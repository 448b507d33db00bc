#!/bin/sh
# Runs PROGRAM under mpirun with NP ranks, with what a small test machine needs: root, more ranks
# than cores, no binding. The settings live in this process's environment only. NP 0 is one process
# without mpirun.
# Usage: with_mpi.sh NP PROGRAM [ARGS...]     LS_MPI_TIMEOUT: seconds, default 120
# Exit status: the program's; 124 or 137 after the timeout; 77 (a skip) without mpirun.
if [ $# -lt 2 ]; then
    echo "usage: with_mpi.sh NP PROGRAM [ARGS...]" >&2
    exit 2
fi
np=$1
shift
if ! command -v mpirun >/dev/null 2>&1; then
    echo "SKIP: mpirun is not installed"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
# Containers often forbid process_vm_readv, and have no such networks to warn about.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl_base_warn_component_unused=0
# For sanitized builds: a full unwind finds MPI's own frames, which the list then excuses.
# shellcheck disable=SC2034  # used in LSAN_OPTIONS
here=$(dirname "$0")
export ASAN_OPTIONS="${ASAN_OPTIONS:-fast_unwind_on_malloc=0}"
# shellcheck disable=SC2016  # the quotes are part of the value, the name inside expands
export LSAN_OPTIONS="${LSAN_OPTIONS:-print_suppressions=0:suppressions='$here/lsan.supp'}"
if [ "$np" = 0 ]; then
    exec timeout -k 10 "${LS_MPI_TIMEOUT:-120}" "$@"
fi
exec timeout -k 10 "${LS_MPI_TIMEOUT:-120}" mpirun -n "$np" "$@"
