"""MPIs from PyPI, each in a virtual environment of its own: how to get, build with and start them."""
import os
import pathlib
import subprocess
import sys

from libraries import WHEELS


class Environment:
    """The virtual environment of one library; made where it is missing."""

    def __init__(self, library, folder):
        self.library = library
        self.path = pathlib.Path(folder, f"venv-{library}").resolve()
        done = self.path / "installed"
        if not done.exists():
            print(f"# {library}: fetching {' '.join(WHEELS[library])} from PyPI", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", "--clear", self.path], check=True)
            subprocess.run([self.path / "bin/pip", "install", "--quiet", "--disable-pip-version-check",
                            *WHEELS[library]], check=True, stdout=sys.stderr)
            done.touch()

    def version(self):
        listed = subprocess.run([self.path / "bin/pip", "--disable-pip-version-check", "freeze"],
                                capture_output=True, text=True).stdout
        return " ".join(line for line in listed.splitlines() if line.split("==")[0].replace("_", "-")
                        in WHEELS[self.library])

    def compiler(self, flags):
        """What compiles a program with it, but for `-o`."""
        if self.library == "intelmpi":
            return ["g++", f"-I{self.path}/include", *flags, f"-L{self.path}/lib",
                    f"-Wl,-rpath,{self.path}/lib", "-l:libmpi.so.12"]
        return [str(self.path / "bin/mpicxx"), *flags]

    def launcher(self, ranks):
        if self.library == "openmpi5":
            return [str(self.path / "bin/mpirun"), "--oversubscribe", "-n", str(ranks)]
        if self.library == "mpich5":
            return [str(self.path / "bin/mpiexec"), "-n", str(ranks)]
        return [str(self.path / "bin/mpiexec.hydra"), "-host", "localhost", "-n", str(ranks)]

    def variables(self):
        """What its programs find in their environment besides."""
        path = f"{self.path}/bin:{os.environ['PATH']}"
        if self.library == "intelmpi":
            return {"PATH": path, "I_MPI_ROOT": str(self.path), "I_MPI_FABRICS": "shm",
                    "LD_LIBRARY_PATH": f"{self.path}/lib"}
        return {"PATH": path}
