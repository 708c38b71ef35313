# Sourced: makes $folder, with devices.json for the verbs library in memory: two hosts, a and b, with two
# devices each, which reach each other between processes.
# shellcheck shell=bash
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/network"
cat >"$folder/devices.json" <<END
{"devices": [
  {"name": "a0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]},
  {"name": "a1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.1"}]}]},
  {"name": "b0", "ports": [{"gids": [{"gid": "::ffff:10.0.0.2"}]}]},
  {"name": "b1", "ports": [{"gids": [{"gid": "::ffff:10.0.1.2"}]}]}],
 "network": "$folder/network"}
END
