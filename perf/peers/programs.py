"""Builds the loop over each library, starts its ranks and reads what they measured."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import secrets
import socket
import subprocess
import sys
import tempfile

from environments import Environment
from libraries import PACKAGES, TUTTI, WHEELS, is_tutti

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_S = 300  # of one program
CALLS_OF_TRIALS = 40  # more than a course of two ways has (src/comm/trials.cpp)


class Failed(Exception):
    """A program did not do its work; the text says which and why."""


class TooLong(Failed):
    """A program did not end within LIMIT_S."""


def install_missing(packages):
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\\n", *packages],
                           capture_output=True, text=True)
    present = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    missing = [name for name in packages if name not in present]
    if not missing:
        return
    print(f"# installing {' '.join(missing)}", file=sys.stderr)
    root = [] if os.geteuid() == 0 else ["sudo"]
    for step in (["update", "-q"], ["install", "-y", "-q", *missing]):
        subprocess.run([*root, "apt-get", *step], check=True, stdout=sys.stderr)


def environments_of(libraries, folder):
    """The virtual environments of those that come from PyPI, by library."""
    return {library: Environment(library, folder) for library in libraries if library in WHEELS}


def build(libraries, environments, tutti_build, folder):
    """Compiles the loop over each library; a dictionary from library to program."""
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    # The MPIs' C++ bindings, long gone from the standard, do not compile without warnings.
    mpi = [*flags, "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", str(HERE / "mpi.cpp")]
    library_folder = f"{pathlib.Path(tutti_build).resolve()}/lib"
    commands = {
        "openmpi": ["mpicxx.openmpi", *mpi],
        "mpich": ["mpicxx.mpich", *mpi],
        "gloo": ["g++", *flags, str(HERE / "gloo.cpp"), "-lgloo", "-lpthread"],
        "limit": ["g++", *flags, "-march=native", str(HERE / "limit.cpp")],
        "bulk": ["g++", *flags, str(HERE / "bulk.cpp")],
        "tutti": ["g++", *flags, f"-I{ROOT}/include", str(HERE / "tutti.cpp"),
                  f"-L{library_folder}", f"-Wl,-rpath,{library_folder}", "-lnccl", "-ltutti"],
    }
    commands |= {library: environment.compiler(mpi) for library, environment in environments.items()}
    folder.mkdir(parents=True, exist_ok=True)
    programs = {}
    for library in libraries:
        program = "tutti" if is_tutti(library) else library
        programs[library] = str(folder / program)
        if program in commands:
            subprocess.run([*commands.pop(program), "-o", programs[library]], check=True)
    return programs


def clean_environment():
    """Without the variables by which a launcher around this script would reach the ranks."""
    prefixes = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "TUTTI_", "NCCL_", "RANK", "WORLD_SIZE", "MASTER_")
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}


def free_port():
    """Of those that no outgoing connection takes by itself, on whatever host the ranks meet."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class ThisHost:
    """All ranks on this machine, as it is."""
    address = "127.0.0.1"

    def command(self, rank, command):
        """What starts `command` as this rank."""
        return command

    def local(self, rank, ranks):
        """The rank's number among those of its host, and how many they are."""
        return rank, ranks

    def mpirun(self, ranks):
        return ["mpirun.openmpi", "--oversubscribe", "--mca", "btl", "self,vader", "-n", str(ranks)]


def run_mpi(launcher, library, command, environment):
    for prefix in ("OMPI", "PRTE"):
        environment[f"{prefix}_ALLOW_RUN_AS_ROOT"] = environment[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    done = subprocess.run([*launcher, *command], env=environment, text=True, capture_output=True,
                          timeout=LIMIT_S)
    if done.returncode != 0:
        raise Failed(f"{library} exited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def outputs_of(children, library, limit_s=LIMIT_S):
    """What each rank wrote to its standard output. When one fails, those that would wait for it are
    ended, and it is named."""
    culprit = None
    with concurrent.futures.ThreadPoolExecutor(len(children)) as pool:
        ends = {pool.submit(child.communicate, timeout=limit_s): child for child in children}
        for end in concurrent.futures.as_completed(ends):
            if culprit is None and (end.exception() is not None or ends[end].returncode != 0):
                culprit = end
                for child in children:
                    child.kill()  # no signal to one that has ended
    if culprit is not None:
        _, errors = culprit.result()
        child = ends[culprit]
        raise Failed(f"{library} rank {children.index(child)} exited with {child.returncode}: {errors.strip()}")
    return [end.result()[0] for end in ends]


def run_ranks(library, command, ranks, environment, place, limit_s=LIMIT_S):
    """Starts the ranks as children with torchrun's variables: one for all ranks where they are
    threads."""
    environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR=place.address, MASTER_PORT=str(free_port()),
                       TUTTI_JOB_KEY=secrets.token_hex(32))
    children = []
    for rank in range(1 if library == TUTTI["threads"] else ranks):
        local, locals_ = place.local(rank, ranks)
        own = {"RANK": str(rank), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(locals_)}
        children.append(subprocess.Popen(place.command(rank, command), env={**environment, **own},
                                         text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        return outputs_of(children, library, limit_s)[0]
    finally:
        for child in children:
            child.kill()


class Loop:
    """The programs of all libraries, with how long each samples."""

    def __init__(self, programs, environments, place, milliseconds, samples, tuning):
        """`tuning`: the file in which Tutti keeps what it finds out about this machine."""
        self.programs, self.environments, self.place = programs, environments, place
        self.milliseconds, self.samples, self.tuning = milliseconds, samples, tuning

    def settle(self, library, collective, ranks, sizes):
        """Lets Tutti find out how it runs these calls, as the first ones of a size do. What is
        mapped is not tried."""
        if library in (TUTTI["malloc"], TUTTI["threads"]):
            self.run(library, library, collective, ranks, sizes, self.milliseconds, CALLS_OF_TRIALS)

    def measure(self, library, collective, ranks, sizes):
        """All sizes of one collective: a dictionary from bytes to the median in us."""
        if library == "limit":
            return self.measure_limit(collective, ranks, sizes)
        if library == "bulk":
            collective = "exchange"
        return self.run(library, library, collective, ranks, sizes, self.milliseconds)

    def measure_limit(self, collective, ranks, sizes):
        """The time in which copies move the least traffic of the collective, by the better stores."""
        shares = {size: traffic_share(collective, ranks, size) for size in sizes}
        copied = sorted(set(shares.values()))
        times = [self.run("limit", stores, "copy", ranks, copied, self.milliseconds / 2)
                 for stores in ("cached", "streaming")]
        return {size: min(found[share] for found in times) for size, share in shares.items()}

    def hop_us(self):
        """From a store by one rank until another has it, 8 bytes with it."""
        return self.run("limit", "cached", "exchange", 2, [8], 30)[8] / 2

    def run(self, library, name, collective, ranks, sizes, milliseconds, samples=None):
        command = [self.programs[library], name, collective, ",".join(map(str, sizes)),
                   str(milliseconds), str(samples or self.samples)]
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:
            meeting = pathlib.Path(folder, "meeting")
            meeting.write_bytes(bytes(2 * 4096))
            store = pathlib.Path(folder, "store")
            store.mkdir()
            environment = {**clean_environment(), "PEERS_MEETING": str(meeting),
                           "PEERS_STORE": str(store), "TUTTI_TUNING_FILE": str(self.tuning)}
            try:
                output = self.start(library, command, ranks, environment)
            except subprocess.TimeoutExpired:
                raise TooLong(f"{library} took more than {LIMIT_S} s for {collective}") from None
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        medians = {row["bytes"]: row["median_us"] for row in rows}
        if sorted(medians) != sorted(sizes):
            raise Failed(f"{library} {collective}: expected sizes {sizes}, got {sorted(medians)}")
        return medians

    def start(self, library, command, ranks, environment):
        own = self.environments.get(library)
        if own is not None:
            return run_mpi(own.launcher(ranks), library, command, {**environment, **own.variables()})
        if library == "openmpi":
            return run_mpi(self.place.mpirun(ranks), library, command, environment)
        if library == "mpich":
            return run_mpi(["mpiexec.hydra", "-n", str(ranks)], library, command, environment)
        return run_ranks(library, command, ranks, environment, self.place)


def traffic_share(collective, ranks, size):
    """Bytes that each rank copies when all together move what the collective moves at least: the
    sum over ranks of the send and the receive buffer (docs/bench.md, The machine's limit)."""
    if collective in ("all_reduce", "all_to_all"):
        return size
    share = size * (ranks + 1) // (2 * ranks)
    return max(4, share - share % 4)


def packages_of(libraries):
    return [name for library in libraries for name in PACKAGES.get(library, [])]
