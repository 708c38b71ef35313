"""Starts the ranks of rank.py and reads what they say."""
import contextlib
import json
import pathlib
import sys
import tempfile
import time

import cuda_driver as cuda
import report


class Ranks:
    """So many processes in a folder of their own. Whoever is left is killed at the end."""

    def __init__(self, action, count, **env):
        self._folder = tempfile.TemporaryDirectory(prefix="tutti-gpu-")
        id_file = pathlib.Path(self._folder.name, "id")
        command = [sys.executable, report.HERE / "rank.py", action, count]
        self.children = [report.start([*command, rank, id_file], report.environment(**env))
                         for rank in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            report.kill_group(child)
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def have_met(self, name, seconds):
        """Whether all ranks come to that meeting (rank.py) in time, and none ends before."""
        places = [pathlib.Path(self._folder.name, f"{name}.{rank}") for rank in range(len(self.children))]

        def is_over():
            time.sleep(0.01)
            return have_all() or any(child.poll() is not None for child in self.children)

        def have_all():
            return all(place.exists() for place in places)
        return cuda.until(is_over, seconds) and have_all()

    def finish(self, seconds):
        """What each rank said within that time: its lines of JSON joined in one dictionary, with `ending` where it did
        not end well."""
        found, deadline = [], time.monotonic() + seconds
        for rank, child in enumerate(self.children):
            done = report.finish(child, deadline - time.monotonic())
            print(f"--- rank {rank}", done.output, sep="\n", flush=True)
            said = {"rank": rank}
            for line in done.output.splitlines():
                if line.startswith("{"):
                    with contextlib.suppress(ValueError):
                        said.update(json.loads(line))
            if done.code != 0:
                said["ending"] = said.get("error") or done.ending()
            found.append(said)
        return found
