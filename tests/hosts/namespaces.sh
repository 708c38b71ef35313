# Two "hosts" of this machine, for the scripts beside this file: network namespaces joined by a veth
# pair. Sets `hosts` (the namespaces), `links` (the device of each) and `work` (a folder). All of it
# goes away when the script ends, however it ends.

skip() {
  printf '\n*** SKIPPED: %s %s ***\n\n' "$0" "$1" >&2
  exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root to make network namespaces"
command -v ip >/dev/null || skip "needs the package iproute2"

readonly hosts=("tutti-a-$$" "tutti-b-$$")
readonly links=("tta$$" "ttb$$") # a device's name has at most 15 characters
work=$(mktemp -d)

clean_up() {
  local status=$? host left
  trap - EXIT
  trap '' INT TERM HUP # a second signal must not cut the cleaning short
  for host in "${hosts[@]}"; do
    # Until none is left: what is killed may just have started another.
    for _ in {1..100}; do
      left=$(ip netns pids "$host" 2>/dev/null) || true
      [ -n "$left" ] || break
      # shellcheck disable=SC2086  # several process ids
      kill -KILL $left 2>/dev/null || true
    done
    ip netns del "$host" 2>/dev/null || true
  done
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

ip netns add "${hosts[0]}" 2>"$work/why" || skip "cannot make a network namespace: $(cat "$work/why")"
ip netns add "${hosts[1]}"
ip link add "${links[0]}" netns "${hosts[0]}" type veth peer name "${links[1]}" netns "${hosts[1]}" \
  2>"$work/why" || skip "cannot make a veth pair: $(cat "$work/why")"
for i in 0 1; do
  ip -n "${hosts[i]}" address add "10.213.0.$((i + 1))/24" dev "${links[i]}"
  ip -n "${hosts[i]}" link set "${links[i]}" up
  ip -n "${hosts[i]}" link set lo up
done

# run_stoppable COMMAND...: runs it, and lets signals end this script while it runs.
run_stoppable() {
  "$@" &
  local child=$!
  # shellcheck disable=SC2064  # this child
  trap "kill -TERM $child 2>/dev/null || true; exit 130" INT
  # shellcheck disable=SC2064
  trap "kill -TERM $child 2>/dev/null || true; exit 143" TERM HUP
  wait "$child"
}
