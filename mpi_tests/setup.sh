# shellcheck shell=sh
# What demo.sh and check.sh share: the packages that the build needs, and the build itself. To be
# sourced from the project's root, under `set -eu`.

LS_COMMANDS="cc meson ninja pkg-config mpirun python3"
LS_LIBRARIES="ompi-c libsodium jansson libpcre2-8 libutf8proc yaml-0.1 hwloc cmocka"
LS_PACKAGES="gcc libc6-dev meson ninja-build pkg-config python3 openmpi-bin libopenmpi-dev \
libsodium-dev libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev libhwloc-dev libcmocka-dev"
# Tests skip without these.
LS_TEST_COMMANDS="clang clang-format shellcheck"
LS_TEST_LIBRARIES="liblz4"
LS_TEST_PACKAGES="clang clang-format shellcheck binutils liblz4-dev"

ls_missing_commands() {
    for name in "$@"; do
        command -v "$name" >/dev/null 2>&1 || printf ' %s' "$name"
    done
}

ls_missing_libraries() {
    for name in "$@"; do
        pkg-config --exists "$name" 2>/dev/null || printf ' %s' "$name"
    done
}

ls_is_root() {
    [ "$(id -u)" = 0 ]
}

ls_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update </dev/null
    # shellcheck disable=SC2086  # a list of names
    apt-get -qq install -y --no-install-recommends $1 </dev/null >/dev/null
}

# Installs what the build needs; without root, says the one line that would.
ls_need_packages() {
    # shellcheck disable=SC2086
    missing="$(ls_missing_commands $LS_COMMANDS)$(ls_missing_libraries $LS_LIBRARIES)"
    if [ -z "$missing" ]; then
        return 0
    fi
    echo "Missing:$missing"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Install these with your system's package manager, then run this again."
        exit 1
    fi
    if ! ls_is_root; then
        echo "Run this, then this script again:"
        echo "sudo apt-get install -y $LS_PACKAGES"
        exit 1
    fi
    echo "Installing with apt-get"
    ls_install "$LS_PACKAGES"
}

# What only some tests need: its absence is a skip, so a failure here ends nothing.
ls_want_test_packages() {
    # shellcheck disable=SC2086
    missing="$(ls_missing_commands $LS_TEST_COMMANDS)$(ls_missing_libraries $LS_TEST_LIBRARIES)"
    if [ -z "$missing" ]; then
        return 0
    fi
    if ls_is_root && command -v apt-get >/dev/null 2>&1; then
        echo "Installing with apt-get for the tests:$missing"
        ls_install "$LS_TEST_PACKAGES" || echo "Not installed; the tests that need them skip."
    else
        echo "Not here:$missing; the tests that need them skip. To have them:"
        echo "sudo apt-get install -y $LS_TEST_PACKAGES"
    fi
}

# Root, more ranks than cores, containers without process_vm_readv: settings of Open MPI in this
# process's environment, nowhere else.
ls_mpi_environment() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    export OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
}

# ls_build FOLDER MESON-OPTIONS...: configures (again, when the tree has moved) and builds.
ls_build() {
    folder=$1
    shift
    mkdir -p build
    log="build/setup-$folder.log"
    info="$folder/meson-info/meson-info.json"
    if [ -f "$info" ] && ! grep -qF "\"source\": \"$(pwd -P)\"" "$info"; then
        rm -rf "$folder/meson-info" "$folder/meson-private" "$folder/build.ninja"
    fi
    if [ -f "$folder/build.ninja" ]; then
        meson configure "$folder" "$@" >"$log" 2>&1 || ls_show_and_fail "$log"
    else
        meson setup "$folder" . "$@" >"$log" 2>&1 || ls_show_and_fail "$log"
    fi
    ninja -C "$folder" >"$log" 2>&1 </dev/null || ls_show_and_fail "$log"
}

ls_show_and_fail() {
    tail -n 60 "$1"
    echo "The build failed; the whole log is in $1"
    exit 1
}
