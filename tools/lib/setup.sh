# Sourced by tools/quickstart, tools/test and .ci/run: turns, packages and builds. Needs bash.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root

# A compiler cache, where there is one, serves every clone: paths inside this tree do not count.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# What the programs need, what training needs beyond it, and the tests.
readonly build_packages=(ca-certificates cmake g++ ninja-build pkg-config
  libcli11-dev libfmt-dev libhwy-dev libibverbs-dev libpmix-dev libpugixml-dev libsodium-dev libucx-dev nlohmann-json3-dev)
readonly train_packages=(libopenblas0-pthread libtorch-dev)
readonly test_packages=(libgmock-dev libgtest-dev iproute2 mpich openmpi-bin python3)
readonly ci_packages=(clang-19 clang-format-19 clang-tidy-19 git libclang-rt-19-dev libbenchmark-dev libgloo-dev python3-pip valgrind
  busybox-static cpio ibverbs-providers kmod qemu-system-x86)

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 5; }

# --- turns: one script at a time in a build folder

# The file descriptor that holds our turn, or the turn of the script that started us.
turn=

# is_ancestor PID: whether that process started this one, or started one that did.
is_ancestor() {
  local pid=$$
  while [ "${pid:-0}" -gt 1 ]; do
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) || return 1
    [ "$pid" != "$1" ] || return 0
  done
  return 1
}

# take_turns NAME PRESET: waits until no other script uses build/PRESET, which then is ours until this
# script and the builds that it began have ended, killed or not. What the holder runs shares its turn.
take_turns() {
  local lock=$root/build/$2.lock told='' status shared
  IFS=: read -r -a shared <<<"${BUILD_TURN:-}"
  if [ "${shared[0]:-}" = "$2" ] && is_ancestor "${shared[1]}"; then
    turn=${shared[2]}
    return
  fi
  command -v flock >/dev/null || return 0
  may_write "$root/build" "$lock"
  exec {turn}>>"$lock"
  while status=0; flock -n "$turn" || status=$?; [ $status = 1 ]; do  # another status: no locks here
    sleep 0.5
    ! flock -n "$turn" || break
    if [ "$(holder "$lock")" != "$told" ]; then
      told=$(holder "$lock")
      say "waiting for $told, which uses build/$2"
    fi
  done
  echo "$1 (process $$, since $(date +%T))" >"$lock" || true  # a full disk is told of later
  export BUILD_TURN=$2:$$:$turn
}

# holder LOCK: who has that turn; the holder may have been killed and have left a build running.
holder() {
  local name pid
  name=$(cat "$1")
  pid=${name#*process }
  if [ ! "$name" ]; then echo "another script"
  elif [ -d "/proc/${pid%%,*}" ]; then echo "$name"
  else echo "a build that $name left running"
  fi
}

# may_write FOLDER FILE: makes the folder; ends the script where it or the file is another user's.
may_write() {
  if mkdir -p "$1" && [ -w "$1" ] && { [ ! -e "$2" ] || [ -w "$2" ]; }; then return; fi
  local owner
  owner=$(stat -c %U "$2" 2>/dev/null || stat -c %U "$1" 2>/dev/null || stat -c %U "$root")
  die "$(id -un) may not write in $1: run this as $owner, or make $(id -un) the owner of the folder"
}

# outside_turn COMMAND...: what it leaves running keeps nobody waiting.
outside_turn() {
  ([ -z "$turn" ] || exec {turn}>&-; exec "$@")
}

# --- packages

as_root() {
  if [ "$(id -u)" = 0 ]; then outside_turn "$@"
  elif command -v sudo >/dev/null; then outside_turn sudo "$@"
  else die "installing packages needs root. Have them installed (apt-get install ${missing[*]}), or run this as root or with sudo"
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
  if ! as_root apt-get update -qq || ! as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; then
    die "not all packages could be installed (see above). By hand: apt-get install ${missing[*]}"
  fi
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

# --- builds

# build PRESET "TARGET..." [CMAKE_OPTION...]: configures and builds build/PRESET. After an interruption
# it goes on where that one stopped.
build() {
  local preset=$1 target=$2
  shift 2
  say "building $target in build/$preset"
  configure "$preset" "$@" || { no_build "$preset"; return 1; }
  compile "$preset" "$target"
}

# compile PRESET "TARGET...": builds what is configured.
compile() {
  local preset=$1 target=$2
  # shellcheck disable=SC2086  # several targets
  cmake --build "$root/build/$preset" --target $target -j "$(build_jobs)" >&2 || { no_build "$preset"; return 1; }
}

# What CMake says of a cache that is damaged, of another folder, or of a compiler that is gone.
readonly stale_configuration='Parse error in cache file|CMakeCache.txt directory|does not match the source|'\
'CMake Error at build/.*/CMakeFiles/|is not a full path to an existing compiler tool'

# configure PRESET [CMAKE_OPTION...]: begins anew after a first time that did not come to its end, and
# where CMake refuses what it knew. What is compiled stays.
configure() {
  local preset=$1 log=$root/build/configure-$1.log
  shift
  may_write "$root/build" "$log"
  [ -f "$root/build/$preset/build.ninja" ] || forget "$preset"
  if ! (cd "$root" && cmake --preset "$preset" "$@" >"$log" 2>&1); then
    if ! grep -qE "$stale_configuration" "$log"; then
      cat "$log" >&2
      return 1
    fi
    say "what CMake knew in build/$preset is damaged or no longer true: configuring anew, without options given by hand"
    forget "$preset"
    (cd "$root" && cmake --preset "$preset" "$@" >"$log" 2>&1) || { cat "$log" >&2; return 1; }
  fi
  sed -n '/^-- Optional parts/,/^-- Configuring/{/^-- Configuring/!p}' "$log" >&2
}

# forget PRESET: removes what CMake found out.
forget() {
  rm -rf "$root/build/$1/CMakeCache.txt" "$root/build/$1/CMakeFiles"/[0-9]*.*
}

# no_build PRESET: a build failed; says so where a full disk may be why.
no_build() {
  local free
  free=$(df -Pm "$root/build/$1" 2>/dev/null | awk 'NR == 2 {print $4}')
  [ "${free:-200}" -ge 200 ] ||
    die "only $free MiB are left in $root/build/$1: free some; the next run goes on where this one stopped"
}

# --- tests

# At most so many failures are looked at again: more are no accident of timing.
readonly most_again=5

# run_tests FOLDER COMMAND...: runs ctest so, with a report in FOLDER/ctest.xml. The few tests that failed
# run once more, each alone on the machine, since deadlines of a second are missed where others compute as
# well. What passes only then is said by name; what fails again has failed.
run_tests() {
  local folder=$1 status=0 failed
  shift
  rm -f "$folder"/ctest.xml "$folder"/again.xml
  outside_turn "$@" --test-dir "$folder" --output-junit "$folder/ctest.xml" || status=$?
  [ $status != 0 ] && [ -f "$folder/ctest.xml" ] || return $status
  read -r _ failed _ < <(python3 "$root/tools/lib/junit.py" "$folder/ctest.xml")
  { [ "$failed" -gt 0 ] && [ "$failed" -le $most_again ]; } || return $status
  say "$failed tests failed: once more, each alone"
  status=0
  outside_turn "$@" --test-dir "$folder" --rerun-failed -j 1 --output-junit "$folder/again.xml" || status=$?
  python3 "$root/tools/lib/junit.py" "$folder/ctest.xml" --again "$folder/again.xml"
  return $status
}
