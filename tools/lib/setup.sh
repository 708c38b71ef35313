# Sourced by tools/quickstart, tools/test and .ci/run: packages and builds. Needs bash.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root

# A compiler cache, where there is one, serves every clone: paths inside this tree do not count.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# What the programs need, what training needs beyond it, and the tests.
readonly build_packages=(ca-certificates cmake g++ ninja-build pkg-config
  libcli11-dev libfmt-dev libhwy-dev libpmix-dev libpugixml-dev libsodium-dev nlohmann-json3-dev)
readonly train_packages=(libopenblas0-pthread libtorch-dev)
readonly test_packages=(libgmock-dev libgtest-dev iproute2 mpich openmpi-bin python3)
readonly ci_packages=(clang-19 clang-format-19 clang-tidy-19 git libclang-rt-19-dev libbenchmark-dev libgloo-dev python3-pip valgrind)

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 5; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "installing packages needs root; run this as root, install sudo, or install them yourself: ${missing[*]}"
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# install_packages NAME...: says what is missing, then installs just that.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system; the equivalents of these packages are needed: $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} = 0 ]; then
    say "all packages are installed"
    return
  fi
  say "installing with apt-get: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# As many compilers as there are CPUs, and at most one for each 1.5 GiB of memory.
build_jobs() {
  local cpus memory_kib
  cpus=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local fit=$((memory_kib / 1572864))
  [ "$fit" -ge 1 ] || fit=1
  echo $((cpus < fit ? cpus : fit))
}

# build PRESET "TARGET..." [CMAKE_OPTION...]: configures and builds build/PRESET.
build() {
  local preset=$1 target=$2
  shift 2
  say "building $target in build/$preset"
  local log=$root/build/configure-$preset.log
  mkdir -p "$root/build"
  (cd "$root" && cmake --preset "$preset" "$@" >"$log" 2>&1) || { cat "$log" >&2; return 1; }
  sed -n '/^-- Optional parts/,/^-- Configuring/{/^-- Configuring/!p}' "$log" >&2
  # shellcheck disable=SC2086  # several targets
  cmake --build "$root/build/$preset" --target $target -j "$(build_jobs)" >&2
}
