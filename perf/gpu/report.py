"""What the parts of perf/gpu/run share: how results are reported and programs are run."""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MARK = "@result "  # begins a line that is a result
GOOD, BAD = "ok", "FAILED"

_start = time.monotonic()


def row(what, value=None, unit="", ok=None, note="", verdict=None):
    """Reports one result. `ok` makes the verdict where none is given; None: there is none."""
    verdict = verdict or {None: "", True: GOOD, False: BAD}[ok]
    line = {"what": what, "value": value, "unit": unit, "verdict": verdict, "note": note}
    print(MARK + json.dumps(line), flush=True)


def seconds_left():
    """Of the part's limit."""
    return float(os.environ.get("TUTTI_PART_SECONDS", "600")) - (time.monotonic() - _start)


def has_time(what, seconds=4):
    """False, with a row, where less than that is left for what comes next."""
    if seconds_left() < seconds:
        row(what, verdict="skipped", note="no time left")
        return False
    return True


def build_folder():
    return pathlib.Path(os.environ.get("TUTTI_PART_BUILD", ROOT / "build/release"))


def program(name):
    return str(build_folder() / "bin" / name)


def library():
    return str(build_folder() / "lib" / "libnccl.so.2")


class Place(ctypes.Structure):
    """Dl_info: where the dynamic linker found an address."""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def libraries_in_use():
    """The files whose ncclAllReduce this process calls: by the name of the function, as PyTorch does,
    and by that of the library, as XLA does. Another libnccl.so.2 may be mapped that nobody calls."""
    found = set()
    for name in (None, "libnccl.so.2"):
        place = Place()
        address = ctypes.cast(ctypes.CDLL(name).ncclAllReduce, ctypes.c_void_p)
        ctypes.CDLL(None).dladdr(address, ctypes.byref(place))
        found.add(os.path.realpath(place.file.decode()))
    return found


def is_quick():
    """Whether sizes and counts are to be small: for a try without a GPU."""
    return os.environ.get("TUTTI_PART_QUICK") == "1"


def environment(**more):
    """Without the variables by which a launcher around this would reach the ranks; the build's
    libraries are found first."""
    prefixes = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "NCCL_", "RANK", "WORLD_SIZE", "MASTER_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    folders = [kept.get("LD_LIBRARY_PATH", ""), str(build_folder() / "lib")]
    kept["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    kept["PYTHONUNBUFFERED"] = "1"
    return {**kept, **{name: str(value) for name, value in more.items()}}


class Done:
    """A program that has ended, or was ended: `code` is None then."""

    def __init__(self, code, output, seconds):
        self.code, self.output, self.seconds = code, output, seconds

    def ending(self):
        """In words, with the last line that says something."""
        how = "hung" if self.code is None else f"exit {self.code}"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return f"{how}: {lines[-1][:300]}" if lines else how


def start(command, env=None, output=subprocess.PIPE):
    """A program in a process group of its own."""
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT, text=True, errors="replace",
                            env=env or environment(), process_group=0)


def kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def print_processes(why):
    """To the log: what runs, and where in the kernel it waits."""
    print(f"# {why}; what runs then:", flush=True)
    for folder in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            waits = [(task / "wchan").read_text() for task in folder.glob("task/*")]
        except OSError:
            continue  # it has ended meanwhile
        if words:
            print(f"#   {folder.name} of {parent}: {words[:150]}; {len(waits)} threads, in "
                  f"{', '.join(sorted(set(waits)))}", flush=True)


def finish(child, seconds):
    """Waits that long, then kills the program with its process group."""
    begin = time.monotonic()
    try:
        output, _ = child.communicate(timeout=max(0.1, seconds))
        code = child.returncode
    except subprocess.TimeoutExpired:
        print_processes(f"{child.args[0]} has not ended after {seconds:.0f} s")
        kill_group(child)
        try:
            output, _ = child.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            output = ""
        code = None
    return Done(code, output or "", time.monotonic() - begin)


def run(command, seconds, env=None):
    """Runs a program; what it printed goes to the log too."""
    seconds = min(seconds, seconds_left() - 1)
    print("$", *command, flush=True)
    try:
        done = finish(start(command, env), seconds)
    except OSError as error:
        done = Done(127, str(error), 0.0)
    print(done.output, f"({done.ending() if done.code != 0 else 'exit 0'}, {done.seconds:.1f} s)", sep="\n",
          flush=True)
    return done


def median(values):
    return sorted(values)[len(values) // 2]
