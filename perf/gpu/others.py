#!/usr/bin/env python3
"""The part others: CuPy's NCCL module and JAX, two processes each, on one device, with Tutti in NCCL's
place. `others.py cupy|jax RANK PORT_OR_FILE` is one of the processes.

JAX may refuse two processes on one device before it comes to a collective: what it said is the note.
"""
import importlib.util
import os
import pathlib
import sys
import tempfile
import time

import report
from report import row

RANKS = 2
COUNT = 1000
PROBLEMS = "problems: "


def end(problems):
    """Every process says what was wrong, also if it does not call Tutti."""
    if "LD_PRELOAD" in os.environ:
        found = report.libraries_in_use()
        if found != {os.path.realpath(os.environ["LD_PRELOAD"])}:
            problems = [*problems, f"called: {sorted(found)}"]
    print(PROBLEMS + "; ".join(problems) if problems else "all as it must be", flush=True)
    sys.exit(1 if problems else 0)


def cupy_rank(rank, id_file):
    import ast

    import cupy
    from cupy.cuda import nccl
    path = pathlib.Path(id_file)
    if rank == 0:
        begun = path.with_name("begun")
        begun.write_text(repr(nccl.get_unique_id()))
        begun.rename(path)
    while not path.exists():
        time.sleep(0.005)
    comm = nccl.NcclCommunicator(RANKS, ast.literal_eval(path.read_text()), rank)
    stream = cupy.cuda.Stream.null.ptr
    problems = []

    def expect(what, got, want):
        if not bool((got == want).all()):
            problems.append(f"{what}: {got[:4]}, not {want[:4]}")
    for name, code in (("float32", nccl.NCCL_FLOAT32), ("int64", nccl.NCCL_INT64),
                       ("float16", nccl.NCCL_FLOAT16)):
        mine = [(cupy.arange(COUNT) % 5 + one).astype(name) for one in range(RANKS)]
        send, out = mine[rank], cupy.zeros(COUNT, name)
        comm.allReduce(send.data.ptr, out.data.ptr, COUNT, code, nccl.NCCL_SUM, stream)
        expect(f"allReduce {name}", out, mine[0] + mine[1])
        comm.broadcast(send.data.ptr, out.data.ptr, COUNT, code, 1, stream)
        expect(f"broadcast {name}", out, mine[1])
        comm.reduce(send.data.ptr, out.data.ptr, COUNT, code, nccl.NCCL_MAX, 0, stream)
        if rank == 0:
            expect(f"reduce {name}", out, cupy.maximum(*mine))
        both = cupy.zeros(RANKS * COUNT, name)
        comm.allGather(send.data.ptr, both.data.ptr, COUNT, code, stream)
        expect(f"allGather {name}", both, cupy.concatenate(mine))
        comm.reduceScatter(both.data.ptr, out.data.ptr, COUNT, code, nccl.NCCL_SUM, stream)
        expect(f"reduceScatter {name}", out, (2 * mine[rank]).astype(name))
        nccl.groupStart()
        comm.send(send.data.ptr, COUNT, code, 1 - rank, stream)
        comm.recv(out.data.ptr, COUNT, code, 1 - rank, stream)
        nccl.groupEnd()
        expect(f"send and recv {name}", out, mine[1 - rank])
    comm.destroy()
    end(problems)


def jax_rank(rank, port):
    import jax
    import numpy
    backend = os.environ["JAX_PLATFORMS"]
    if backend == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", RANKS, rank, initialization_timeout=20,
                               local_device_ids=None if backend == "cpu" else [0])
    from jax.sharding import NamedSharding, PartitionSpec
    mesh = jax.make_mesh((RANKS,), ("ranks",))
    split = PartitionSpec("ranks")
    mine = numpy.arange(COUNT, dtype=numpy.float32) % 5 + rank
    whole = jax.make_array_from_process_local_data(NamedSharding(mesh, split), mine)
    other = numpy.arange(COUNT, dtype=numpy.float32) % 5 + 1 - rank
    problems = []

    def expect(what, function, want):
        shared = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split))(whole)
        got = numpy.asarray(shared.addressable_shards[0].data)
        if not numpy.array_equal(got, want):
            problems.append(f"{what}: {got[:4]}, not {want[:4]}")
    in_order = [mine, other] if rank == 0 else [other, mine]
    expect("psum", lambda x: jax.lax.psum(x, "ranks") + 0 * x, mine + other)
    expect("all_gather", lambda x: jax.lax.all_gather(x, "ranks", tiled=True), numpy.concatenate(in_order))
    expect("psum_scatter", lambda x: jax.lax.psum_scatter(x, "ranks", tiled=True),
           (mine + other)[rank * COUNT // 2:(rank + 1) * COUNT // 2])
    expect("ppermute", lambda x: jax.lax.ppermute(x, "ranks", [(0, 1), (1, 0)]), other)
    end(problems)


def problems_of(done):
    """The line of end(), which more may follow."""
    said = [line for line in done.output.splitlines() if line.startswith(PROBLEMS)]
    return said[0] if said else done.ending()


def run_pair(name, place, **more):
    children = [report.start([sys.executable, __file__, name, rank, place], report.environment(**more))
                for rank in range(RANKS)]
    limit = min(28, report.seconds_left() - 2)
    ends = [report.finish(child, limit if number == 0 else 3) for number, child in enumerate(children)]
    for rank, done in enumerate(ends):
        print(f"--- {name}, rank {rank}", done.output, sep="\n", flush=True)
    bad = [f"rank {rank}: {problems_of(done)}" for rank, done in enumerate(ends) if done.code != 0]
    row(f"{name}, {RANKS} processes on one device", ok=not bad, note="; ".join(bad))


def main():
    if not importlib.util.find_spec("cupy"):
        row("cupy", verdict="skipped", note="not installed")
    else:
        with tempfile.TemporaryDirectory() as folder:
            run_pair("cupy", pathlib.Path(folder, "id"), LD_PRELOAD=report.library())
    if not importlib.util.find_spec("jax"):
        row("jax", verdict="skipped", note="not installed")
    elif os.environ.get("TUTTI_PART_BACKEND") == "gloo":
        run_pair("jax", 20000 + os.getpid() % 10000, JAX_PLATFORMS="cpu")
    else:
        run_pair("jax", 20000 + os.getpid() % 10000, JAX_PLATFORMS="cuda", LD_PRELOAD=report.library(),
                 XLA_PYTHON_CLIENT_PREALLOCATE="false")


if len(sys.argv) > 1:
    {"cupy": cupy_rank, "jax": jax_rank}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
else:
    main()
