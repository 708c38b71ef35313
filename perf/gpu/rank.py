#!/usr/bin/env python3
"""One rank of a communicator on the memory of device 0: what the parts memory, robustness and
latency start several of. Prints what it found as one line of JSON.

usage: rank.py ACTION RANKS RANK ID_FILE
"""
import ctypes
import json
import os
import pathlib
import re
import sys
import time

import cuda_driver as cuda
import nccl_library as nccl

COUNT = 1 << 18  # floats a rank, 1 MiB
LOOP_S = 60


def say(**found):
    print(json.dumps(found), flush=True)


def kib_of_process():
    """What the kernel counts of this process, in KiB."""
    text = pathlib.Path("/proc/self/status").read_text()
    return {name: int(value) for name, value in re.findall(r"^(VmRSS|VmPin|VmLck|RssShmem):\s+(\d+)", text, re.M)}


def meet(folder, name, ranks, rank):
    """Returns when every rank is here."""
    pathlib.Path(folder, f"{name}.{rank}").touch()
    while any(not pathlib.Path(folder, f"{name}.{other}").exists() for other in range(ranks)):
        time.sleep(0.002)


class Rank:
    def __init__(self, ranks, rank, id_file):
        self.ranks, self.rank, self.id_file = ranks, rank, id_file
        self.folder = pathlib.Path(id_file).parent
        self.driver = cuda.Driver()
        self.library = nccl.Library()
        self.stream = self.driver.stream()
        self.send = self.driver.allocate(4 * COUNT * ranks)
        self.receive = self.driver.allocate(4 * COUNT * ranks)

    def join(self):
        return self.library.join(self.ranks, self.rank, self.id_file)

    def meet(self, name):
        meet(self.folder, name, self.ranks, self.rank)

    def memory(self):
        """Times of the first call, and what a communicator takes after every collective."""
        self.meet("contexts")
        device_before, host_before = self.driver.free_bytes(), kib_of_process()
        self.meet("before")
        begin = time.perf_counter()
        comm = self.join()
        joined = time.perf_counter()
        comm.all_reduce(self.send, self.receive, COUNT, self.stream)
        self.driver.synchronize(self.stream)
        first = time.perf_counter()
        comm.every_collective(self.send, self.receive, COUNT, self.stream)
        self.driver.synchronize(self.stream)
        self.meet("after")
        device_after, host_after = self.driver.free_bytes(), kib_of_process()
        say(rank=self.rank, init_ms=(joined - begin) * 1e3, first_ms=(first - joined) * 1e3,
            device_bytes=device_before - device_after,
            host_kib={name: host_after[name] - host_before.get(name, 0) for name in host_after})
        self.meet("end")
        comm.destroy()

    def operations(self):
        """What one call puts into a stream, as the nodes of a graph that captures it."""
        comm = self.join()
        found = {}
        for count in (2, COUNT):
            graph = ctypes.c_void_p()
            self.driver.call("cuStreamBeginCapture_v2", self.stream, 2)
            comm.all_reduce(self.send, self.receive, count, self.stream)
            self.driver.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
            found[count * 4] = self.kinds_of(graph)
            self.driver.call("cuGraphDestroy", graph)
        say(rank=self.rank, nodes=found)
        comm.destroy()

    def kinds_of(self, graph):
        names = {0: "kernel", 1: "copy", 2: "set", 3: "host function", 5: "empty", 6: "event wait",
                 7: "event record", 12: "memory operations"}
        size = ctypes.c_size_t()
        self.driver.call("cuGraphGetNodes", graph, None, ctypes.byref(size))
        nodes = (ctypes.c_void_p * size.value)()
        self.driver.call("cuGraphGetNodes", graph, nodes, ctypes.byref(size))
        kinds = {}
        for node in nodes:
            kind = ctypes.c_int()
            self.driver.call("cuGraphNodeGetType", node, ctypes.byref(kind))
            name = names.get(kind.value, f"kind {kind.value}")
            kinds[name] = kinds.get(name, 0) + 1
        return kinds

    def loop(self):
        """Calls until one fails, which is what the part waits for."""
        comm = self.join()
        comm.all_reduce(self.send, self.receive, COUNT, self.stream)
        self.driver.synchronize(self.stream)
        self.meet("running")
        end, calls, fault = time.monotonic() + LOOP_S, 1, ""
        try:
            while not fault and time.monotonic() < end:
                comm.all_reduce(self.send, self.receive, COUNT, self.stream)
                self.driver.synchronize(self.stream)
                calls, fault = calls + 1, comm.fault()
        except (nccl.NcclError, cuda.CudaError) as error:
            fault = str(error)
        say(rank=self.rank, calls=calls, fault=fault, at=time.time())
        comm.abort()

    def abort(self):
        """Rank 0 calls and then gives up; the others never make that call, and learn of it."""
        comm = self.join()
        comm.all_reduce(self.send, self.receive, COUNT, self.stream)
        self.driver.synchronize(self.stream)
        if self.rank != 0:
            cuda.until(lambda: comm.fault() or time.sleep(0.01), 20)
            say(rank=self.rank, fault=comm.fault())
            comm.abort()
            return
        comm.all_reduce(self.send, self.receive, COUNT, self.stream)
        time.sleep(1)
        begin = time.perf_counter()
        comm.abort()
        aborted = time.perf_counter()
        self.driver.synchronize(self.stream)
        say(rank=0, abort_ms=(aborted - begin) * 1e3, stream_ms=(time.perf_counter() - aborted) * 1e3)


def main():
    action, ranks, rank, id_file = sys.argv[1:]
    try:
        getattr(Rank(int(ranks), int(rank), id_file), action)()
    except (nccl.NcclError, cuda.CudaError) as error:
        say(rank=int(rank), error=str(error))
        os._exit(1)  # others may be in a call that never ends


main()
