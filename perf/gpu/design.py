#!/usr/bin/env python3
"""The part design: what the driver does with the means by which ranks that share a GPU wait for each
other. Everything through the driver; the kernel is PTX text (cuda.py)."""
import ctypes
import json
import os
import socket
import subprocess
import sys
import time

import cuda
import report
from report import row

ROUNDS, ROUNDS_S = 300, 4  # of a latency, whichever is reached first
STREAMS = 72
STALLED_S = 0.25
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of device 0."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location", ctypes.c_int), ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class MulticastProperties(ctypes.Structure):
    """CUmulticastObjectProp."""
    _fields_ = [("devices", ctypes.c_uint), ("size", ctypes.c_size_t), ("handle_types", ctypes.c_ulonglong),
                ("flags", ctypes.c_ulonglong)]


def quantiles(values):
    """A row's figures."""
    ordered = sorted(values)
    text = (f"p10 {ordered[len(ordered) // 10] * 1e6:.1f}, p99 {ordered[len(ordered) * 99 // 100] * 1e6:.1f}, "
            f"most {ordered[-1] * 1e6:.1f} us")
    return {"value": round(report.median(values) * 1e6, 1), "unit": "us", "note": text}


def rounds():
    end = time.perf_counter() + ROUNDS_S
    for turn in range(1, ROUNDS + 1):
        yield turn
        if time.perf_counter() > end:
            return


def semaphore():
    """Of libc, which a host function of the driver can post without Python."""
    libc = ctypes.CDLL(None)
    place = ctypes.create_string_buffer(64)
    libc.sem_init(place, 0, 0)
    return libc, place, ctypes.cast(libc.sem_post, ctypes.c_void_p)


def latencies():
    """Round trips between the host and a stream."""
    driver = cuda.Driver()
    stream, pinned = driver.stream(), cuda.Pinned(driver, 4096)
    gate, answer = pinned.device, pinned.device + 64
    writes, waits = [], []
    for turn in rounds():
        begin = time.perf_counter()
        driver.write_value(stream, answer, turn)
        cuda.until(lambda turn=turn: pinned.words[16] == turn, 1)
        writes.append(time.perf_counter() - begin)
        driver.synchronize(stream)
    for turn in rounds():
        driver.wait_value(stream, gate, turn)
        driver.write_value(stream, answer, turn)
        time.sleep(0.0005)  # the stream waits now
        begin = time.perf_counter()
        pinned.words[0] = turn
        cuda.until(lambda turn=turn: pinned.words[16] == turn, 1)
        waits.append(time.perf_counter() - begin)
    row("a stream writes a word: enqueued to seen by the host", **quantiles(writes))
    row("a stream waits for a word: written by the host to its next command seen", **quantiles(waits))
    libc, place, post = semaphore()
    calls, between = [], []
    for turn in rounds():
        begin = time.perf_counter()
        driver.call("cuLaunchHostFunc", stream, post, ctypes.addressof(place))
        cuda.until(lambda: libc.sem_trywait(place) == 0, 1)
        calls.append(time.perf_counter() - begin)
        driver.synchronize(stream)
        begin = time.perf_counter()
        driver.call("cuLaunchHostFunc", stream, post, ctypes.addressof(place))
        driver.write_value(stream, answer, turn)
        cuda.until(lambda turn=turn: pinned.words[16] == turn, 1)
        between.append(time.perf_counter() - begin)
        libc.sem_wait(place)
    row("cuLaunchHostFunc: enqueued to called", **quantiles(calls))
    row("cuLaunchHostFunc, then a word is written: enqueued to seen", **quantiles(between))


def stalled_by_one(driver, pinned):
    """The first of some streams waits: which of the others do not get on meanwhile."""
    streams = [driver.stream() for _ in range(STREAMS)]
    driver.wait_value(streams[0], pinned.device, 1)
    for index, stream in enumerate(streams[1:], 1):
        driver.write_value(stream, pinned.device + 4 * index, 1)
    time.sleep(STALLED_S)
    stalled = [index for index in range(1, STREAMS) if pinned.words[index] != 1]
    pinned.words[0] = 1
    for stream in streams:
        driver.synchronize(stream)
    return stalled


def blocked_until_stalled(driver, pinned):
    """Streams are made and wait, one after another: how many do when the next new one stalls."""
    probe, streams, blocked = driver.stream(), [], 0
    while blocked < STREAMS:
        driver.write_value(probe, pinned.device + 4, blocked + 1)
        if not cuda.until(lambda: pinned.words[1] == blocked + 1, STALLED_S):
            break
        driver.wait_value(probe, pinned.device, 1)
        streams.append(probe)
        blocked, probe = blocked + 1, driver.stream()
    pinned.words[0] = 1
    for stream in [*streams, probe]:
        driver.synchronize(stream)
    return blocked


def blocked_streams():
    """A child: prints what the two above found."""
    driver = cuda.Driver()
    found = {"by_one": stalled_by_one(driver, cuda.Pinned(driver, 4096)),
             "blocked": blocked_until_stalled(driver, cuda.Pinned(driver, 4096))}
    print(json.dumps(found))


def aliasing():
    for connections in ("8", "32"):
        done = report.run([sys.executable, __file__, "blocked_streams"], 20,
                          report.environment(**{CONNECTIONS: connections}))
        try:
            found = json.loads(done.output.strip().splitlines()[-1])
        except (ValueError, LookupError):
            row(f"{CONNECTIONS}={connections}", ok=False, note=done.ending())
            continue
        others = found["by_one"]
        row(f"one stream waits: others stalled, {CONNECTIONS}={connections}", len(others), f"of {STREAMS - 1}",
            note=f"numbers {others[:8]}" if others else "")
        row(f"streams that wait until a new one stalls, {CONNECTIONS}={connections}",
            found["blocked"] if found["blocked"] < STREAMS else f"more than {STREAMS - 1}")


def hold():
    """Holds the device as asked, says so, and lets go when told: neighbours() starts it."""
    driver = cuda.Driver()
    stream, pinned = driver.stream(), cuda.Pinned(driver, 4096)
    driver.synchronize(stream)
    if sys.argv[2] == "wait":
        driver.wait_value(stream, pinned.device, 1)
    elif sys.argv[2] == "spin":
        cuda.Spin(driver).launch(stream, pinned.device, int(10e9))
    print("holding", flush=True)
    sys.stdin.read()
    pinned.words[0] = 1
    driver.synchronize(stream)


class Holder:
    """Another process that holds the device."""

    def __init__(self, how):
        self._child = subprocess.Popen([sys.executable, __file__, "hold", how], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, env=report.environment(), text=True)

    def __enter__(self):
        if self._child.stdout.readline().strip() != "holding":
            raise cuda.CudaError("the neighbour", None, "did not get so far")
        return self

    def __exit__(self, *_):
        try:
            self._child.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            self._child.kill()


def neighbours():
    """How long small work of this process takes while another one holds the device."""
    driver = cuda.Driver()
    stream, pinned = driver.stream(), cuda.Pinned(driver, 4096)
    memory = driver.allocate(1 << 20)
    pinned.words[0] = 1  # this process's kernels end at once
    spin = None
    try:
        spin = cuda.Spin(driver)
    except cuda.CudaError as error:
        row("a kernel from PTX", ok=False, note=str(error))

    def one(work):
        begin = time.perf_counter()
        work()
        driver.synchronize(stream)
        return time.perf_counter() - begin

    def measured(work):
        end = time.perf_counter() + 1.5
        values = [one(work)]
        while time.perf_counter() < end:
            values.append(one(work))
        return values
    works = {"a copy": lambda: driver.call("cuMemcpyDtoDAsync_v2", memory, memory + (1 << 19), 4096, stream),
             "a word written": lambda: driver.write_value(stream, pinned.device + 64, 7)}
    if spin:
        works["a kernel"] = lambda: spin.launch(stream, pinned.device, 0)
    for how, what in (("idle", "is idle"), ("wait", "waits for a word"), ("spin", "runs a kernel that spins")):
        if how == "spin" and not spin:
            continue
        try:
            with Holder(how):
                for name, work in works.items():
                    row(f"{name} and its end, while another process {what}", **quantiles(measured(work)))
        except cuda.CudaError as error:
            row(f"while another process {what}", ok=False, note=str(error))


def create(driver, handle_types, size):
    properties = AllocationProperties(type=1, handle_types=handle_types,
                                      location_type=1, location=driver.device)
    handle = ctypes.c_uint64()
    driver.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), 0)
    return handle


def attempt(what, action):
    try:
        row(what, "possible", note=action() or "")
    except (cuda.CudaError, OSError) as error:
        row(what, "not possible", note=str(error))


def import_posix():
    """A child: takes a descriptor from its standard input's socket and imports the memory."""
    driver = cuda.Driver()
    with socket.socket(fileno=0) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    handle = ctypes.c_uint64()
    driver.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptors[0]), 1)
    print("imported", flush=True)


def open_ipc():
    """A child: opens an IPC handle and copies from it."""
    driver = cuda.Driver()

    class IpcHandle(ctypes.Structure):
        _fields_ = [("reserved", ctypes.c_char * 64)]
    handle, address = IpcHandle(), cuda.Address()
    ctypes.memmove(ctypes.byref(handle), bytes.fromhex(sys.argv[2]), 64)
    driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, 1)
    size, stream = int(sys.argv[3]), driver.stream()
    own = driver.allocate(size)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        driver.call("cuMemcpyDtoDAsync_v2", own, address.value, size, stream)
        driver.synchronize(stream)
        times.append(time.perf_counter() - begin)
    print(f"{2 * size / min(times) / 1e9:.1f} GB/s, read and written", flush=True)


def child(*words, **more):
    program = subprocess.Popen([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=report.environment(), process_group=0, **more)
    done = report.finish(program, 15)
    if done.code != 0:
        raise OSError(done.ending())
    return done.output.strip()


def sharing():
    driver = cuda.Driver()
    size = 64 << 20

    def posix():
        handle, descriptor = create(driver, 1, size), ctypes.c_int(-1)
        driver.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, 1, 0)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(ours, [b"x"], [descriptor.value])
            said = child("import_posix", stdin=theirs)
        os.close(descriptor.value)
        driver.call("cuMemRelease", handle)
        return f"another process on the device: {said}"

    def fabric():
        handle, token = create(driver, 8, size), ctypes.create_string_buffer(64)
        driver.call("cuMemExportToShareableHandle", token, handle, 8, 0)
        driver.call("cuMemRelease", handle)

    def ipc():
        token = ctypes.create_string_buffer(64)
        driver.call("cuIpcGetMemHandle", token, driver.allocate(size))
        return "a copy by another process on the device: " + child("open_ipc", token.raw.hex(), size)

    def multicast(devices, handle_types):
        handle = ctypes.c_uint64()
        properties = MulticastProperties(devices, 1 << 29, handle_types, 0)
        driver.call("cuMulticastCreate", ctypes.byref(handle), ctypes.byref(properties))
        driver.call("cuMulticastAddDevice", handle, driver.device)
    attempt("cuMem handle as POSIX descriptor", posix)
    attempt("cuMem handle for the fabric", fabric)
    attempt("cuIpc handle", ipc)
    for devices in (1, 2):
        for name, handle_types in (("no handle", 0), ("POSIX handle", 1)):
            attempt(f"cuMulticastCreate, {devices} device{'s'[:devices - 1]}, {name}",
                    lambda devices=devices, handle_types=handle_types: multicast(devices, handle_types))


def main():
    for measure in (latencies, aliasing, neighbours, sharing):
        try:
            measure()
        except (cuda.CudaError, OSError) as error:
            row(measure.__name__, ok=False, note=str(error))


if len(sys.argv) > 1:
    {"blocked_streams": blocked_streams, "hold": hold,
        "import_posix": import_posix, "open_ipc": open_ipc}[sys.argv[1]]()
else:
    main()
