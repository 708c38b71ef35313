#!/usr/bin/env python3
"""One rank of the part torch: runs the checks of torch_checks.py and torch_training.py.

Prints `begin NAME`, then `end NAME VERDICT NOTE` for each check, with tabs between; torch_part.py
reads that. All ranks use device 0, or the CPU with --backend gloo.
"""
import argparse
import datetime
import os
import sys

# As deterministic as PyTorch can be: what is left is the communication's.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch.distributed as dist

import torch_checks
import torch_training


class Job:
    """What a check knows of the job."""

    def __init__(self, backend, device_id):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.backend = backend
        self.on_cuda = backend == "nccl"
        self.device = torch.device("cuda:0" if self.on_cuda else "cpu")
        if self.on_cuda:
            torch.cuda.set_device(0)
        more = {"device_id": self.device} if device_id else {}
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=20), **more)


def say(*words):
    print(*words, sep="\t", flush=True)


def one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def may_say(error):
    """Whether that is how Gloo says that it does not do something."""
    return any(words in str(error) for words in ("Cannot use ReduceOp", "Invalid scalar type", "invalid tensor size",
                                                 "not support", "not implement"))


def run_check(job, name, function, may_refuse):
    """After an error this rank ends: nobody knows what state its groups are in."""
    say("begin", name)
    try:
        function(job)
        if job.on_cuda:
            torch.cuda.synchronize()
        say("end", name, "ok", "")
    except torch_checks.Wrong as error:
        say("end", name, "FAILED", str(error))
    except Exception as error:  # whatever PyTorch raises is a finding
        refused = may_refuse or not job.on_cuda and may_say(error)
        say("end", name, "refused" if refused else "ERROR", one_line(error))
        if not refused:
            os._exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--device-id", action="store_true", help="give init_process_group the device")
    parser.add_argument("--skip", default="", help="names of checks, separated by tabs")
    parser.add_argument("--list", action="store_true", help="print the names of the checks")
    options = parser.parse_args()
    checks = torch_checks.CHECKS + torch_training.CHECKS
    if options.list:
        return print(*(one.name for one in checks), sep="\n")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    job = Job(options.backend, options.device_id)
    skipped = options.skip.split("\t")
    for one in checks:
        if one.name not in skipped and (job.on_cuda or not one.cuda_only):
            run_check(job, one.name, one.function, one.may_refuse)
    say("begin", "destroy_process_group")
    dist.destroy_process_group()
    say("end", "destroy_process_group", "ok", "")
    return None


sys.exit(main())
