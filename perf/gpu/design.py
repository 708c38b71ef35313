#!/usr/bin/env python3
"""The part design: what the driver does with the means by which ranks that share a GPU wait for each
other. Everything through the driver; the kernel is PTX text (cuda_driver.py)."""
import contextlib
import ctypes
import faulthandler
import json
import mmap
import os
import queue
import socket
import subprocess
import sys
import threading
import time

import cuda_driver as cuda
import report
from report import row

ROUNDS, ROUNDS_S = 300, 4  # of a latency, whichever is reached first
STREAMS = 72
STALLED_S = 0.25
CHILD_S = 20
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


def gate_latencies(driver, stream, copies=False):
    """From the host's write of the word that a stream waits for to the end of what comes behind:
    nothing, or a copy from the host, as in a call through host memory."""
    pinned, memory, values = cuda.Pinned(driver, 4096), driver.allocate(4096), []
    for turn in rounds():
        driver.wait_value(stream, pinned.device, turn)
        if copies:
            driver.call("cuMemcpyAsync", memory, pinned.device + 128, 64, stream)
        driver.write_value(stream, pinned.device + 64, turn)
        time.sleep(0.0005)  # the stream waits now
        begin = time.perf_counter()
        pinned.words[0] = turn
        cuda.until(lambda turn=turn: pinned.words[16] == turn, 1)
        values.append(time.perf_counter() - begin)
    driver.synchronize(stream)
    return values


def latencies():
    """Round trips between the host and a stream."""
    driver = cuda.Driver()
    stream, pinned = driver.stream(), cuda.Pinned(driver, 4096)
    answer = pinned.device + 64
    writes = []
    for turn in rounds():
        begin = time.perf_counter()
        driver.write_value(stream, answer, turn)
        cuda.until(lambda turn=turn: pinned.words[16] == turn, 1)
        writes.append(time.perf_counter() - begin)
        driver.synchronize(stream)
    row("a stream writes a word: enqueued to seen by the host", **quantiles(writes))
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
    """Streams are made and wait, one after another: how many do when making the next one does not
    come to an end, and how many when what the next one does stalls; STREAMS where neither happens."""
    made, streams, waiting = queue.SimpleQueue(), [], 0

    def make():
        driver.make_current()
        made.put(driver.stream())
    found = {"made": STREAMS, "stalled": STREAMS}
    while waiting < STREAMS:
        maker = threading.Thread(target=make)
        maker.start()
        maker.join(STALLED_S)
        if maker.is_alive():
            found["made"] = waiting
            pinned.words[0] = 1
            maker.join()
        probe = made.get()
        streams.append(probe)
        if pinned.words[0] == 1:
            break
        driver.write_value(probe, pinned.device + 4, waiting + 1)
        if not cuda.until(lambda: pinned.words[1] == waiting + 1, STALLED_S):
            found["stalled"] = waiting
            break
        driver.wait_value(probe, pinned.device, 1)
        waiting += 1
    pinned.words[0] = 1
    for stream in streams:
        driver.synchronize(stream)
    return found


def blocked_streams():
    """A child: prints what the two above found, or where it is when its time is nearly over."""
    faulthandler.dump_traceback_later(CHILD_S - 2, exit=True)
    driver = cuda.Driver()
    found = {"by_one": stalled_by_one(driver, cuda.Pinned(driver, 4096)),
             "blocked": blocked_until_stalled(driver, cuda.Pinned(driver, 4096))}
    print(json.dumps(found))


def aliasing():
    for connections in ("8", "32"):
        done = report.run([sys.executable, __file__, "blocked_streams"], CHILD_S,
                          report.environment(**{CONNECTIONS: connections}))
        try:
            found = json.loads(done.output.strip().splitlines()[-1])
        except (ValueError, LookupError):
            row(f"{CONNECTIONS}={connections}", ok=False, note=done.ending())
            continue
        others = found["by_one"]
        row(f"one stream waits: others stalled, {CONNECTIONS}={connections}", len(others), f"of {STREAMS - 1}",
            note=f"numbers {others[:8]}" if others else "")
        for kind, what in (("made", "cuStreamCreate does not end"), ("stalled", "a new one stalls")):
            count = found["blocked"][kind]
            row(f"streams that wait until {what}, {CONNECTIONS}={connections}",
                count if count < STREAMS else f"more than {min(found['blocked'].values()) - 1}")


def calls_beside(driver, pinned, how):
    """Which calls do not end while a stream of the same context waits for a word, or runs a kernel."""
    spin = cuda.Spin(driver)
    stream, idle, memory = driver.stream(), driver.stream(), driver.allocate(1 << 20)
    pages = mmap.mmap(-1, 1 << 20)
    host = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    place, event, extra = cuda.Address(), cuda.Handle(), []
    spin.launch(stream, pinned.device + 2048, 0)  # the first launch loads it
    driver.synchronize(stream)
    calls = {
        "cuMemAlloc": lambda: extra.append(driver.allocate(64 << 20)),
        "cuMemFree": lambda: driver.free(extra.pop()),
        "cuMemHostRegister": lambda: driver.call("cuMemHostRegister_v2", host, 1 << 20,
                                                 cuda.HOST_REGISTER_PORTABLE_MAPPED),
        "cuMemHostGetDevicePointer": lambda: driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(place),
                                                         host, 0),
        "cuMemHostUnregister": lambda: driver.call("cuMemHostUnregister", ctypes.c_void_p(host)),
        "cuEventCreate": lambda: driver.call("cuEventCreate", ctypes.byref(event), 0),
        "cuEventDestroy": lambda: driver.call("cuEventDestroy_v2", event),
        "cuStreamCreate": lambda: extra.append(driver.stream()),
        "cuStreamDestroy": lambda: driver.call("cuStreamDestroy_v2", extra.pop()),
        "cuModuleLoadData": lambda: extra.append(cuda.Spin(driver)),
        "cuLaunchKernel, the first of a module": lambda: extra[-1].launch(idle, pinned.device + 2048, 0),
        "cuLaunchKernel": lambda: extra[-1].launch(idle, pinned.device + 2048, 0),
        "cuMemcpyAsync from pageable memory": lambda: driver.call("cuMemcpyAsync", memory, host, 4096, idle),
        "cuMemcpyAsync from pageable memory, 1 MiB": lambda: driver.call("cuMemcpyAsync", memory, host, 1 << 20,
                                                                         idle),
        "cuMemcpy": lambda: driver.call("cuMemcpy", cuda.Address(memory), cuda.Address(host), ctypes.c_size_t(4096)),
    }
    pinned.words[512] = 1  # the kernels that are launched beside it end at once
    found = {}
    for turn, (name, call) in enumerate(calls.items(), 1):
        pinned.words[0] = 0
        if how == "wait":
            driver.wait_value(stream, pinned.device, 1)
        else:
            spin.launch(stream, pinned.device, int(10e9))
        outcome = queue.SimpleQueue()

        def work(call=call, outcome=outcome):
            driver.make_current()
            try:
                call()
                driver.synchronize(idle)
                outcome.put("")
            except Exception as error:  # whatever it is, it is the finding
                outcome.put(f"{type(error).__name__}: {error}")
        worker = threading.Thread(target=work)
        worker.start()
        worker.join(STALLED_S)
        waits = worker.is_alive()
        pinned.words[0] = 1
        worker.join()
        driver.synchronize(stream)
        found[name] = outcome.get() or ("waits" if waits else "ends")
        print(turn, name, found[name], flush=True)
    return found


def beside():
    """A child: prints what the above found, or where it is when its time is nearly over."""
    faulthandler.dump_traceback_later(CHILD_S - 2, exit=True)
    driver = cuda.Driver()
    print(json.dumps(calls_beside(driver, cuda.Pinned(driver, 4096), sys.argv[2])))


def calls_that_wait():
    for how, what in (("wait", "waits for a word"), ("spin", "runs a kernel")):
        done = report.run([sys.executable, __file__, "beside", how], CHILD_S, report.environment())
        try:
            found = json.loads(done.output.strip().splitlines()[-1])
        except (ValueError, LookupError):
            row(f"calls while a stream {what}", ok=False, note=done.ending())
            continue
        for said in sorted(set(found.values())):
            row(f"while another stream {what}", said, note=", ".join(name for name in found if found[name] == said))


def hold():
    """Holds the device as asked, says so, and lets go when told: neighbours() starts it."""
    driver = cuda.Driver()
    stream, pinned, memory = driver.stream(), cuda.Pinned(driver, 4096), driver.allocate(4096)
    driver.synchronize(stream)
    if sys.argv[2] == "wait":
        driver.wait_value(stream, pinned.device, 1)
    elif sys.argv[2] == "spin":
        cuda.Spin(driver).launch(stream, pinned.device, int(10e9))
    print("holding", flush=True)
    told = threading.Thread(target=sys.stdin.read)
    told.start()
    turn = 0
    while sys.argv[2] in ("copy", "gates") and told.is_alive():
        turn += 1
        if sys.argv[2] == "gates":
            driver.wait_value(stream, pinned.device + 64, turn)
        driver.call("cuMemcpyAsync", memory, pinned.device + 128, 64, stream)
        if sys.argv[2] == "gates":
            time.sleep(0.0002)  # the stream waits now
            pinned.words[16] = turn
        driver.synchronize(stream)
    told.join()
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
             "a copy from the host": lambda: driver.call("cuMemcpyAsync", memory, pinned.device + 128, 64, stream),
             "a word written": lambda: driver.write_value(stream, pinned.device + 64, 7)}
    if spin:
        works["a kernel"] = lambda: spin.launch(stream, pinned.device, 0)
    for how, what in (("idle", "is idle"), ("wait", "waits for a word"), ("copy", "copies from the host"),
                      ("spin", "runs a kernel that spins")):
        if how == "spin" and not spin:
            continue
        try:
            with Holder(how):
                for name, work in works.items():
                    row(f"{name} and its end, while another process {what}", **quantiles(measured(work)))
        except cuda.CudaError as error:
            row(f"while another process {what}", ok=False, note=str(error))


def gates_beside():
    """The same gates and copies of several processes, as calls through host memory have them."""
    driver = cuda.Driver()
    stream = driver.stream()
    for count in (0, 1, 3, 7):
        with contextlib.ExitStack() as holders:
            for _ in range(count):
                holders.enter_context(Holder("gates"))
            beside = f", while {count} other processes do the same" if count else ""
            for copies, what in ((False, "next command seen"), (True, "next copy over")):
                row(f"a word written by the host, the waiting stream's {what}{beside}",
                    **quantiles(gate_latencies(driver, stream, copies)))


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
    for measure in (latencies, aliasing, calls_that_wait, neighbours, gates_beside, sharing):
        try:
            measure()
        except (cuda.CudaError, OSError) as error:
            row(measure.__name__, ok=False, note=str(error))


if len(sys.argv) > 1:
    {"blocked_streams": blocked_streams, "beside": beside, "hold": hold,
        "import_posix": import_posix, "open_ipc": open_ipc}[sys.argv[1]]()
else:
    main()
