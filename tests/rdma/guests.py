"""Two guests of tests/hosts/roce as a program in guest 0 sees them: it commands both, and a rank in each.

A third wire is for commands and for the ranks' TCP, as a management network is: so either RDMA port may
go down.
"""
import os
import pathlib
import re
import secrets
import select
import shlex
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMANDS = 7000  # the port on which a guest takes shell commands
NICS = (0, 1)  # ethN and rxeN of RDMA; eth2 is for commands
END = "end"


class Wrong(Exception):
    """Something did not come out as it must; the text says what."""


def until(what, condition, limit_s):
    """Waits until condition() is true; returns the seconds that it took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > limit_s:
            raise Wrong(f"after {limit_s} s still not: {what}")
        time.sleep(0.02)
    return time.monotonic() - begin


def address_of(guest):
    return f"10.7.2.{guest + 1}"


def serve(guest):
    """Runs each command that a connection brings, with the connection as its input and output, until one
    says END."""
    with socket.create_server((address_of(guest), COMMANDS)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                command = b""
                while not command.endswith(b"\n"):
                    command += connection.recv(1) or b"\n"
                if command.decode().strip() == END:
                    return
                subprocess.Popen(["bash", "-c", command.decode()], stdin=connection, stdout=connection)


class Guest:
    def __init__(self, number):
        self.number = number

    def start(self, command, limit_s):
        """A connection to the input and output of a command, whose reads last so long at most."""
        deadline = time.monotonic() + 30
        while True:
            try:
                connection = socket.create_connection((address_of(self.number), COMMANDS), limit_s)
                break
            except OSError:  # the other guest may still be booting
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        connection.sendall(command.encode() + b"\n")
        return connection

    def shell(self, command, limit_s=30):
        """What a shell command prints; it must succeed."""
        return self.end_of(self.start(f"{{ {command}; }} 2>&1; echo; echo $?", limit_s), command, limit_s)

    def end_of(self, connection, command, limit_s):
        """What a command prints that prints its status last; it must succeed."""
        said = b""
        with connection:
            try:
                while more := connection.recv(65536):
                    said += more
            except TimeoutError:
                raise Wrong(f"guest {self.number}: `{command}` was not done in {limit_s} s") from None
        text, _, status = said.decode().strip().rpartition("\n")
        if status != "0":
            raise Wrong(f"guest {self.number}: `{command}` ended with {status}: {text}")
        return text.strip()

    def sent(self, nic, what="bytes"):
        return int(self.shell(f"cat /sys/class/net/eth{nic}/statistics/tx_{what}"))

    def when_sent(self, mib, program, commands, limit_s=30):
        """Has a program, `ip -b -` or `bash`, do commands as soon as the RDMA ports have sent so much more than they
        have now. Returns a function that waits until they are done. The program runs already by then: to start
        one takes as long here as an operation."""
        names = [f"/sys/class/net/eth{nic}/statistics/tx_bytes" for nic in NICS]
        reads = "; ".join(f"read -r n{nic} <{name}" for nic, name in zip(NICS, names))
        now = " + ".join(f"n{nic}" for nic in NICS)
        lines = "".join(f"{command}\\n" for command in commands)
        connection = self.start(
            f"exec 3>&1; {{ {reads}; then=$(({now})); echo ready >&3; "
            f"until {reads}; (({now} - then >= {mib << 20})); do :; done; printf '{lines}'; }} | "
            f"{program} >&3 2>&1; echo; echo $?", limit_s)
        if connection.recv(6) != b"ready\n":
            raise Wrong(f"guest {self.number} cannot read {' and '.join(names)}")
        return lambda: self.end_of(connection, ", ".join(commands), limit_s)


class Rank:
    """A process of tests/faults/fault_rank in a guest."""

    def __init__(self, guest, build, log, limit_s, variables):
        self.guest, self.log, self.limit_s = guest, log, limit_s
        variables = {"TUTTI_TRANSPORT": "verbs", "TUTTI_IB_HCA": ",".join(f"rxe{nic}" for nic in NICS),
                     "TUTTI_SOCKET_IFNAME": "eth2", "TUTTI_HOSTID": f"guest{guest.number}",
                     "TUTTI_DEBUG": "INFO", "TUTTI_DEBUG_SUBSYS": "NET", "TUTTI_DEVICE": "host", **variables}
        setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        self.connection = guest.start(f"exec env {setting} {shlex.quote(str(build))}/bin/fault_rank "
                                      f"2>{shlex.quote(str(log))}", limit_s)
        self.lines = self.connection.makefile("r")

    def tell(self, command):
        self.connection.sendall(command.encode() + b"\n")

    def has_answered(self):
        return bool(select.select([self.connection], [], [], 0)[0])

    def hear(self):
        """The milliseconds that a command took, and its text."""
        try:
            line = self.lines.readline()
        except TimeoutError:
            raise Wrong(f"rank {self.guest.number} gave no answer in {self.limit_s} s; {self.last_words()}") from None
        words = line.rstrip("\n").split(" ", 3)
        if len(words) < 3 or words[1] != "0":
            raise Wrong(f"rank {self.guest.number} said `{line.strip() or 'nothing, it ended'}`; {self.last_words()}")
        return float(words[2]), words[3] if len(words) > 3 else ""

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def last_words(self):
        return "its log ends:\n" + "\n".join(self.said().splitlines()[-8:])

    def count(self, pattern):
        return len(re.findall(pattern, self.said()))

    def close(self):
        self.connection.close()


class Ranks:
    """A communicator of a rank in each guest, for a `with`."""

    def __init__(self, guests, build, folder, name, limit_s, variables=None):
        variables = {"TUTTI_JOB_KEY": secrets.token_hex(32), **(variables or {})}
        self.each = [Rank(guest, build, folder / f"{name}.{guest.number}.log", limit_s, variables) for guest in guests]

    def __enter__(self):
        self.each[0].tell("id")
        _, unique = self.each[0].hear()
        self.all(lambda number: f"init {unique} {len(self.each)} {number}")
        return self

    def __exit__(self, *_):
        for rank in self.each:
            rank.close()

    def all(self, command):
        """The longest milliseconds of a command in all ranks."""
        self.tell(command)
        return self.hear()

    def tell(self, command):
        for rank in self.each:
            rank.tell(command(rank.guest.number))

    def hear(self):
        return max([rank.hear()[0] for rank in self.each])

    def reduce(self, mib):
        """A checked all-reduce; its milliseconds, filling and checking the buffers among them."""
        return self.all(lambda _: reduce_command(mib))

    def opened(self, nic):
        """How often the paths of a port have opened, at the rank that has seen the fewest."""
        return min(rank.count(rf"the RDMA path rxe{nic}:1 .* is open") for rank in self.each)

    def failed(self, nic):
        """How often they have failed, at the rank that has seen the most."""
        return max(rank.count(rf"the RDMA path rxe{nic}:1 .* failed: ") for rank in self.each)


def reduce_command(mib):
    return f"reduce {(mib << 20) // 4}"


def run_in_guests(options, arguments, limit_s):
    """Runs this program again in both guests with `arguments`; its exit status, 77 without guests."""
    command = [ROOT / "tests/hosts/roce", "--guests", "2", "--nics", "3", "--limit", str(limit_s),
               *(["--state", options.state] if options.state else []), "--",
               sys.executable, "-B", pathlib.Path(sys.argv[0]).resolve(), *arguments]
    return subprocess.run(command).returncode


def in_both(direct):
    """In each guest: takes commands, and in guest 0 calls direct(guests) as well. Its exit status."""
    number = int(os.environ["GUEST"])
    if number == 1:
        serve(1)
        return 0
    threading.Thread(target=serve, args=(0,), daemon=True).start()
    guests = [Guest(0), Guest(1)]
    try:
        return direct(guests)
    finally:
        guests[1].start(END, 10).close()
