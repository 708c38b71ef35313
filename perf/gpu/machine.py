#!/usr/bin/env python3
"""The part machine: what this is measured on, and whether the library loads."""
import ctypes
import importlib.metadata
import os
import pathlib
import platform
import re
import resource
import shutil

import cuda_driver as cuda
import report
from report import row

# Of cuda.h: what the design depends on.
ATTRIBUTES = {16: "multiprocessors", 40: "copy engines", 95: "cooperative launch",
              102: "virtual memory management", 103: "POSIX descriptors of memory",
              122: "64-bit stream memory operations", 128: "fabric handles", 132: "multicast"}
PACKAGES = ["torch", "nvidia-nccl-cu13", "cupy-cuda13x", "jax", "jax-cuda13-plugin"]
NVIDIA_SMI = ["name", "driver_version", "memory.total", "mig.mode.current", "compute_mode", "persistence_mode",
              "ecc.mode.current", "pcie.link.gen.max", "pcie.link.width.max"]


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    row("processor", name.group(1) if name else platform.machine(),
        note=f"{len(os.sched_getaffinity(0))} CPUs, {int(memory.group(1)) / 2**20:.0f} GiB, "
             f"Linux {platform.release()}")
    shared = os.statvfs("/dev/shm")
    row("/dev/shm", round(shared.f_blocks * shared.f_frsize / 2**30, 1), "GiB")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    row("locked memory (ulimit -l)", "unlimited" if locked == resource.RLIM_INFINITY else locked)


def device():
    try:
        driver = cuda.Driver()
    except (OSError, cuda.CudaError) as error:
        return row("CUDA driver", ok=False, note=str(error))
    row("CUDA driver", driver.version(), ok=True, note=driver.name())
    for number, name in ATTRIBUTES.items():
        try:
            row(f"device: {name}", driver.attribute(number))
        except cuda.CudaError as error:
            row(f"device: {name}", note=str(error))


def said_by_nvidia_smi():
    if not shutil.which("nvidia-smi"):
        return row("nvidia-smi", note="not installed")
    report.run(["nvidia-smi"], 10)
    done = report.run(["nvidia-smi", f"--query-gpu={','.join(NVIDIA_SMI)}", "--format=csv,noheader"], 10)
    for name, value in zip(NVIDIA_SMI, done.output.strip().split(", ")):
        row(f"nvidia-smi {name}", value.splitlines()[0] if value else "")


def software():
    row("Python", platform.python_version())
    for name in PACKAGES:
        try:
            row(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            row(name, "not installed")
    for tool, pattern in (("nvcc", r"release ([\d.]+)"), ("compute-sanitizer", r"Version ([\d.]+)")):
        path = shutil.which(tool) or f"/usr/local/cuda/bin/{tool}"
        done = report.run([path, "--version"], 10)
        found = re.search(pattern, done.output)
        row(tool, found.group(1) if found else "not installed" if done.code == 127 else done.ending())


def own_library():
    if not pathlib.Path(report.library()).exists():
        return row("libnccl.so.2", ok=False, note=f"no {report.library()}")
    try:
        version = ctypes.c_int()
        ctypes.CDLL(report.library()).ncclGetVersion(ctypes.byref(version))
        row("libnccl.so.2 loads; ncclGetVersion", version.value, ok=True)
    except OSError as error:
        return row("libnccl.so.2 loads", ok=False, note=str(error))
    done = report.run([report.program("tutti"), "env"], 20)
    row("tutti env", ok=done.code == 0, note="" if done.code == 0 else done.ending())
    done = report.run([report.program("tutti"), "--version"], 10)
    row("tutti --version", done.output.strip(), ok=done.code == 0)


def main():
    device()
    own_library()
    processor()
    software()
    said_by_nvidia_smi()


main()
