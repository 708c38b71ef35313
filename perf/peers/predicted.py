"""Measurements on two hosts beside what `tutti sim` predicts from a calibration made in place."""
import json
import pathlib
import subprocess
import tempfile

import programs


class Tools:
    """The programs of a build, run by the ranks of a place of two hosts."""

    def __init__(self, build, place):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.place = place

    def run(self, name, *words, **environment):
        """One program as all ranks."""
        environment = {**programs.clean_environment(), "TUTTI_TUNING_FILE": "none", **environment}
        command = [str(self.bin / f"tutti-{name}"), *words]
        programs.run_ranks("tutti", command, 2 * self.place.ranks_per_host, environment, self.place)

    def calibrate(self):
        """The constants, as `tutti calibrate` writes them."""
        with tempfile.TemporaryDirectory(prefix="calibration-") as folder:
            path = pathlib.Path(folder, "calibration.json")
            self.run("calibrate", "-o", str(path))
            return json.loads(path.read_text())

    def predict(self, calibration, collective, algorithms, sizes):
        """Microseconds by (algorithm, bytes), the sizes as `tutti bench` takes them."""
        with tempfile.TemporaryDirectory(prefix="calibration-") as folder:
            path = pathlib.Path(folder, "calibration.json")
            path.write_text(json.dumps(calibration))
            command = [str(self.bin / "tutti-sim"), collective, "--hosts", f"2x{self.place.ranks_per_host}",
                       "--calibration", str(path), "--algo", ",".join(algorithms),
                       "--sizes", ",".join(map(str, sizes)), "--json", "-"]
            done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode != 0:
            raise programs.Failed(done.stderr.strip())
        return {(row["algorithm"], row["size"]): row["time_us"] for row in json.loads(done.stdout)["results"]}

    def series_us(self, collective, size, calls, algorithm, warm_up=2):
        """The algorithm that ran (asked for, or "" for the library's choice), and the mean of a series
        of its calls. No single call's time: calls follow each other, and where one rank begins later
        than another, each in turn waits the difference and does not."""
        with tempfile.TemporaryDirectory(prefix="results-") as folder:
            path = pathlib.Path(folder, "results.json")
            self.run("bench", collective, "-b", str(size), "-e", str(size), "-w", str(warm_up), "-n", str(calls),
                     "--out-of-place", "--json", str(path), TUTTI_ALGO=algorithm)
            row = json.loads(path.read_text())["results"][0]
        if row["out_of_place"]["nwrong"] != 0:
            raise programs.Failed(f"{row['algorithm']}: {row['out_of_place']['nwrong']} wrong elements")
        return row["algorithm"], row["out_of_place"]["time"]
