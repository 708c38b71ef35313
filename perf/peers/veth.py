"""Two hosts of this machine: the network namespaces that tests/hosts/with_hosts makes, joined by a
veth pair, a rank in each."""
import os
import pathlib
import subprocess
import sys
import tempfile

from programs import ROOT, Failed

WITH_HOSTS = ROOT / "tests/hosts/with_hosts"
RANKS = 2


def enter():
    """Starts this script again beside two hosts, unless it runs there; they go when it ends."""
    if "HOSTS" not in os.environ:
        os.execv(WITH_HOSTS, [str(WITH_HOSTS), sys.executable, *sys.argv])


def cpus_of_hosts(count):
    """For each host the CPUs that are its own, as taskset takes them; all of them where there is none
    for each."""
    usable = sorted(os.sched_getaffinity(0))
    each = len(usable) // count or len(usable)
    return [",".join(map(str, usable[each * host:each * (host + 1)] or usable)) for host in range(count)]


class TwoHosts:
    """Where ranks run, as programs.ThisHost: the first ones on the first host, the others on the
    second. Like real hosts they share no CPU: which ranks take turns on one would change the times
    from run to run."""

    def __init__(self, ranks_per_host=1):
        self.address = os.environ["ADDRESSES"].split()[0]
        self.ranks_per_host = ranks_per_host
        self.names, self.links = os.environ["HOSTS"].split(), os.environ["LINKS"].split()
        self.cpus = cpus_of_hosts(len(self.names))
        self.folder = tempfile.TemporaryDirectory(prefix="peers-hosts-")
        # mpirun starts its daemon on a host by this, as it would by ssh. The daemons need folders of
        # their own: the hosts share a name, and with it the folder Open MPI would make for both.
        self.agent = pathlib.Path(self.folder.name, "agent")
        cases = "".join(f"{name}) cpus={cpus} ;;\n" for name, cpus in zip(self.names, self.cpus))
        self.agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}esac\n'
                              'mkdir -p "$(dirname "$0")/$host"\nexec ip netns exec "$host" taskset -c "$cpus" '
                              'env TMPDIR="$(dirname "$0")/$host" sh -c "$*"\n')
        self.agent.chmod(0o755)

    def command(self, rank, command):
        host = rank // self.ranks_per_host
        name = self.names[host]
        return ["ip", "netns", "exec", name, "taskset", "-c", self.cpus[host], "env", f"TUTTI_HOSTID={name}",
                *command]

    def local(self, rank, ranks):
        return rank % self.ranks_per_host, self.ranks_per_host

    def mpirun(self, ranks):
        # Started inside a namespace: from outside, its daemons could not call home.
        return ["ip", "netns", "exec", self.names[0], "taskset", "-c", self.cpus[0],
                "env", f"TMPDIR={self.folder.name}",
                "mpirun.openmpi", "--mca", "plm_rsh_agent", str(self.agent),
                "--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
                "-H", ",".join(f"{name}:1" for name in self.names), "--bind-to", "none",
                "-x", "PEERS_MEETING", "-x", "PEERS_STORE", "-n", str(ranks)]

    def shape(self, rate, burst="256kb"):
        """Limits both ends of the link, each what it sends. So much is sent at once after a pause."""
        for name, link in zip(self.names, self.links):
            done = subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", link, "root", "tbf", "rate", rate,
                                   "burst", burst, "latency", "50ms"], capture_output=True, text=True)
            if done.returncode != 0:
                raise Failed(f"tc cannot limit {link} to `{rate}` (like 1gbit): {done.stderr.strip()}")

    def use_reno(self):
        """Instead of the host's TCP congestion control, whatever that is: Reno, which every kernel has,
        fills the queue before a shaped link. BBR paces by an estimate of the link, which the bursts
        that it lets through lead astray."""
        for name in self.names:
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw",
                            "net.ipv4.tcp_congestion_control=reno"], check=True)


def congestion_control():
    return pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
