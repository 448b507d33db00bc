#!/bin/sh
# Builds lockstep and runs its main job on two ranks, on the model that the project carries.
# Needs nothing but a Debian-like machine; as root it installs what is missing.
set -eu
cd "$(dirname "$0")"
# shellcheck source=mpi_tests/setup.sh
. mpi_tests/setup.sh

ls_need_packages
echo "Building into build/"
if [ -f build/build.ninja ]; then
    ls_build build
else
    ls_build build -Dtests=false
fi
ls_mpi_environment

echo
echo "mpirun -n 2 build/lockstep run --model demo --input configs/demo/prompts.jsonl --output build/demo.jsonl --fresh"
mpirun -n 2 build/lockstep run --model demo --input configs/demo/prompts.jsonl \
    --output build/demo.jsonl --fresh </dev/null
echo
echo "build/lockstep show --input configs/demo/prompts.jsonl build/demo.jsonl"
build/lockstep show --input configs/demo/prompts.jsonl build/demo.jsonl
echo
echo "The rows are in build/demo.jsonl, what the run was made of in build/demo.jsonl.lockstep/manifest.json."
