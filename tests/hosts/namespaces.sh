# "Hosts" of this machine, for the scripts beside this file: network namespaces, `host_count` of them
# (2 if it is not set), for join_by_veth, join_by_relay or join_by_bridge to join. Sets `hosts` (the
# namespaces), `links` (the device of each) and `work` (a folder). All of it goes away when the script
# ends, however it ends.

skip() {
  printf '\n*** SKIPPED: %s %s ***\n\n' "$0" "$1" >&2
  exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root to make network namespaces"
command -v ip >/dev/null || skip "needs the package iproute2"

hosts=() links=() # a device's name has at most 15 characters
for ((i = 0; i < ${host_count:-2}; ++i)); do
  hosts+=("tutti-$i-$$") links+=("tt$i-$$")
done
readonly hosts links
readonly middle="tutti-net-$$" # the namespace of a bridge
work=$(mktemp -d)
relay='' # the process that joins the hosts, where one does

clean_up() {
  local status=$? host left
  trap - EXIT
  trap '' INT TERM HUP # a second signal must not cut the cleaning short
  if [ -n "$relay" ]; then
    kill -TERM "$relay" 2>/dev/null || true
    wait "$relay" 2>/dev/null || true
  fi
  for host in "${hosts[@]}" "$middle"; do
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

for host in "${hosts[@]}"; do
  ip netns add "$host" 2>"$work/why" || skip "cannot make a network namespace: $(cat "$work/why")"
  ip -n "$host" link set lo up
done

# join_by_veth: a pair of devices of the kernel, 10.213.0.1 and .2, as fast as the machine.
join_by_veth() {
  ip link add "${links[0]}" netns "${hosts[0]}" type veth peer name "${links[1]}" netns "${hosts[1]}" \
    2>"$work/why" || skip "cannot make a veth pair: $(cat "$work/why")"
  local i
  for i in 0 1; do
    ip -n "${hosts[i]}" address add "10.213.0.$((i + 1))/24" dev "${links[i]}"
    ip -n "${hosts[i]}" link set "${links[i]}" up
  done
  ADDRESSES="10.213.0.1 10.213.0.2"
}

# shape NAMESPACE DEVICE MBIT: what leaves there goes no faster. The queue holds 50 ms.
shape() {
  ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3mbit" burst 64kb latency 50ms \
    2>"$work/why" || skip "cannot shape a link: $(cat "$work/why")"
}

# join_by_bridge MBIT [MBIT_OF_LAST]: a bridge with a port for each host, 10.214.0.1, .2 and so on. A
# host's link carries so many megabits a second each way; the last host's as many as it says.
join_by_bridge() {
  local i rate port
  command -v tc >/dev/null || skip "needs the package iproute2 with tc"
  ip netns add "$middle"
  ip -n "$middle" link add bridge type bridge 2>"$work/why" ||
    skip "cannot make a bridge: $(cat "$work/why")"
  ip -n "$middle" link set bridge up
  ADDRESSES=''
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    port="port$i" rate=$1
    [ $((i + 1)) -lt ${#hosts[@]} ] || rate=${2:-$1}
    ip link add "${links[i]}" netns "${hosts[i]}" type veth peer name "$port" netns "$middle" \
      2>"$work/why" || skip "cannot make a veth pair: $(cat "$work/why")"
    ip -n "$middle" link set "$port" master bridge up
    ip -n "${hosts[i]}" address add "10.214.0.$((i + 1))/24" dev "${links[i]}"
    ip -n "${hosts[i]}" link set "${links[i]}" up
    shape "${hosts[i]}" "${links[i]}" "$rate"
    shape "$middle" "$port" "$rate"
    ADDRESSES+="${ADDRESSES:+ }10.214.0.$((i + 1))"
  done
}

# join_by_relay PROGRAM LATENCY_US [OPTION...]: by hosts_relay, 10.213.1.1 and .2.
join_by_relay() {
  local program=$1 state status=0
  shift
  mkfifo "$work/relay"
  "$program" "${hosts[0]}" "${links[0]}" "${hosts[1]}" "${links[1]}" "$@" >"$work/relay" &
  relay=$!
  read -r state <"$work/relay" || true # ends without a line when the program does
  if [ "$state" != ready ]; then
    wait "$relay" || status=$?
    relay=''
    exit "$status"
  fi
  ADDRESSES="10.213.1.1 10.213.1.2"
}

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
