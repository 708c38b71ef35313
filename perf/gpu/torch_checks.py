"""Checks of every torch.distributed collective. Values are small whole numbers, which every type has
exactly, and so are their sums: results are compared bit for bit."""
import dataclasses
import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import report

COUNT = 1000  # elements
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64]
ALL_TYPES = [*TYPES, torch.float64, torch.int32, torch.int8, torch.uint8]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
REDUCE = {"SUM": lambda parts: parts.sum(0), "PRODUCT": lambda parts: parts.prod(0),
          "MIN": lambda parts: parts.amin(0), "MAX": lambda parts: parts.amax(0),
          "AVG": lambda parts: parts.mean(0)}


class Wrong(Exception):
    """A result is not what it must be."""


@dataclasses.dataclass
class Check:
    name: str
    function: Callable
    cuda_only: bool
    may_refuse: bool  # PyTorch or the device may not do it: an error is `refused` then


CHECKS = []


def check(name, cuda_only=False, may_refuse=False, checks=CHECKS):
    def add(function):
        checks.append(Check(name, function, cuda_only, may_refuse))
        return function
    return add


@check("Tutti is in NCCL's place", cuda_only=True)
def in_place(_):
    found = report.libraries_in_use()
    if found != {os.path.realpath(os.environ["LD_PRELOAD"])}:
        raise Wrong(f"called: {sorted(found)}")


def same(got, want, what=""):
    if got.dtype in FP8:
        got, want = got.view(torch.uint8), want.view(torch.uint8)
    if not torch.equal(got, want):
        raise Wrong(f"{what} {int((got != want).sum())} of {got.numel()} wrong: "
                    f"{got.flatten()[:4].tolist()}, not {want.flatten()[:4].tolist()}".strip())


def own(job, dtype=torch.float32, rank=None, count=COUNT):
    """What a rank contributes: 1 or 2, so that products stay small too."""
    rank = job.rank if rank is None else rank
    return ((torch.arange(count, device=job.device) + rank) % 2 + 1).to(dtype)


def all_own(job, dtype=torch.float32, count=COUNT):
    return [own(job, dtype, rank, count) for rank in range(job.ranks)]


def reduced(job, op, dtype, count=COUNT):
    parts = torch.stack([part.double() for part in all_own(job, dtype, count)])
    return REDUCE[op](parts).to(dtype)


def all_reduce(job, op, dtype):
    data = own(job, dtype)
    dist.all_reduce(data, op=getattr(ReduceOp, op))
    same(data, reduced(job, op, dtype))


def add_all_reduces():
    for dtype in ALL_TYPES:
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            if op == "AVG" and not dtype.is_floating_point:
                continue
            check(f"all_reduce {op} {str(dtype)[6:]}")(
                lambda job, op=op, dtype=dtype: all_reduce(job, op, dtype))


add_all_reduces()


def all_reduce_fp8(job, dtype):
    """Of 0 and 1, since these types have not even 9."""
    data = (own(job) - 1).to(dtype)
    dist.all_reduce(data)
    same(data, (reduced(job, "SUM", torch.float32) - job.ranks).to(dtype))


for _type in FP8:
    check(f"all_reduce SUM {str(_type)[6:]}", cuda_only=True, may_refuse=True)(
        lambda job, dtype=_type: all_reduce_fp8(job, dtype))


@check("all_reduce premul_sum")
def premul_sum(job):
    for dtype in (torch.float32, torch.float16):
        data = own(job, dtype)
        dist.all_reduce(data, op=dist._make_nccl_premul_sum(2.0))
        same(data, 2 * reduced(job, "SUM", dtype))


@check("all_reduce bool")
def all_reduce_bool(job):
    data = torch.full((COUNT,), job.rank == 0, device=job.device)
    dist.all_reduce(data, op=ReduceOp.MAX)
    same(data, torch.ones(COUNT, dtype=torch.bool, device=job.device))


@check("all_reduce, several under way")
def all_reduce_async(job):
    data = [own(job, count=count) for count in (1, 7, 1 << 10, 3 << 20)]
    works = [dist.all_reduce(one, async_op=True) for one in data]
    for work in works:
        work.wait()
    for one in data:
        same(one, reduced(job, "SUM", torch.float32, one.numel()))


def for_types(types):
    """The check runs for each of these types, and names the one that is wrong."""
    def wrap(function):
        def run(job):
            for dtype in types:
                function(job, dtype)
        return run
    return wrap


def broadcast(job, dtype):
    for root in range(job.ranks):
        data = own(job).to(dtype)
        dist.broadcast(data, src=root)
        same(data, own(job, rank=root).to(dtype), f"{dtype}, root {root}:")


@check("reduce")
@for_types(TYPES)
def reduce(job, dtype):
    for root in range(job.ranks):
        data = own(job, dtype)
        dist.reduce(data, dst=root)
        if job.rank == root:
            same(data, reduced(job, "SUM", dtype), f"{dtype}, root {root}:")


def all_gather(job, dtype):
    out = [torch.zeros(COUNT, device=job.device).to(dtype) for _ in range(job.ranks)]
    dist.all_gather(out, own(job).to(dtype))
    for rank, got in enumerate(out):
        same(got, own(job, rank=rank).to(dtype), f"{dtype}, block {rank}:")


@check("all_gather of different sizes")
def all_gather_uneven(job):
    out = [torch.zeros(10 + rank, device=job.device) for rank in range(job.ranks)]
    dist.all_gather(out, own(job, count=10 + job.rank))
    for rank, got in enumerate(out):
        same(got, own(job, rank=rank, count=10 + rank), f"block {rank}:")


def all_gather_into_tensor(job, dtype):
    out = torch.zeros(COUNT * job.ranks, device=job.device).to(dtype)
    dist.all_gather_into_tensor(out, own(job).to(dtype))
    same(out, torch.cat(all_own(job)).to(dtype), f"{dtype}:")


for _function in (broadcast, all_gather, all_gather_into_tensor):
    check(_function.__name__)(for_types(ALL_TYPES)(_function))
    check(f"{_function.__name__} of 8-bit floats", may_refuse=True)(for_types(FP8)(_function))


@check("all_gather_into_tensor in place")
def all_gather_in_place(job):
    out = torch.zeros(COUNT * job.ranks, device=job.device)
    mine = out[job.rank * COUNT:(job.rank + 1) * COUNT]
    mine.copy_(own(job))
    dist.all_gather_into_tensor(out, mine)
    same(out, torch.cat(all_own(job)))


@check("reduce_scatter")
@for_types(TYPES)
def reduce_scatter(job, dtype):
    out = torch.zeros(COUNT, dtype=dtype, device=job.device)
    dist.reduce_scatter(out, [own(job, dtype) + block for block in range(job.ranks)])
    same(out, reduced(job, "SUM", dtype) + job.rank * job.ranks, f"{dtype}:")


@check("reduce_scatter_tensor")
@for_types(TYPES)
def reduce_scatter_tensor(job, dtype):
    out = torch.zeros(COUNT, dtype=dtype, device=job.device)
    dist.reduce_scatter_tensor(out, torch.cat([own(job, dtype) + block for block in range(job.ranks)]))
    same(out, reduced(job, "SUM", dtype) + job.rank * job.ranks, f"{dtype}:")


@check("reduce_scatter_tensor AVG")
@for_types([torch.float32, torch.bfloat16])
def reduce_scatter_average(job, dtype):
    out = torch.zeros(COUNT, dtype=dtype, device=job.device)
    dist.reduce_scatter_tensor(out, own(job, dtype).repeat(job.ranks), op=ReduceOp.AVG)
    same(out, reduced(job, "AVG", dtype), f"{dtype}:")


def block_for(job, source, target, count=COUNT):
    return torch.full((count,), float(10 * source + target), device=job.device)


@check("all_to_all")
def all_to_all(job):
    out = [torch.zeros(COUNT, device=job.device) for _ in range(job.ranks)]
    dist.all_to_all(out, [block_for(job, job.rank, target) for target in range(job.ranks)])
    for source, got in enumerate(out):
        same(got, block_for(job, source, job.rank), f"block {source}:")


@check("all_to_all_single")
def all_to_all_single(job):
    out = torch.zeros(COUNT * job.ranks, device=job.device)
    dist.all_to_all_single(out, torch.cat([block_for(job, job.rank, target) for target in range(job.ranks)]))
    same(out, torch.cat([block_for(job, source, job.rank) for source in range(job.ranks)]))


@check("all_to_all_single of different sizes")
def all_to_all_uneven(job):
    def size(source, target):
        return (source + 2 * target) % 5  # 0 among them
    out_sizes = [size(source, job.rank) for source in range(job.ranks)]
    in_sizes = [size(job.rank, target) for target in range(job.ranks)]
    send = torch.cat([block_for(job, job.rank, target, count) for target, count in enumerate(in_sizes)])
    out = torch.zeros(sum(out_sizes), device=job.device)
    dist.all_to_all_single(out, send, out_sizes, in_sizes)
    same(out, torch.cat([block_for(job, source, job.rank, count) for source, count in enumerate(out_sizes)]))


@check("gather")
def gather(job):
    root = job.ranks - 1
    out = [torch.zeros(COUNT, device=job.device) for _ in range(job.ranks)] if job.rank == root else None
    dist.gather(own(job), out, dst=root)
    for rank, got in enumerate(out or []):
        same(got, own(job, rank=rank), f"block {rank}:")


@check("scatter")
def scatter(job):
    out = torch.zeros(COUNT, device=job.device)
    blocks = [block_for(job, 0, target) for target in range(job.ranks)] if job.rank == 0 else None
    dist.scatter(out, blocks, src=0)
    same(out, block_for(job, 0, job.rank))


@check("send and recv")
def send_recv(job):
    if job.rank == 0:
        for target in range(1, job.ranks):
            dist.send(block_for(job, 0, target), dst=target)
    else:
        out = torch.zeros(COUNT, device=job.device)
        dist.recv(out, src=0)
        same(out, block_for(job, 0, job.rank))


@check("batch_isend_irecv around a ring")
def batch_p2p(job):
    after, before = (job.rank + 1) % job.ranks, (job.rank - 1) % job.ranks
    out, sent = torch.zeros(COUNT, device=job.device), block_for(job, job.rank, after)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, out, before)]):
        work.wait()
    same(out, block_for(job, before, job.rank))


@check("barrier and objects")
def barrier(job):
    dist.barrier()
    got = [None] * job.ranks
    dist.all_gather_object(got, {"rank": job.rank})
    if [one["rank"] for one in got] != list(range(job.ranks)):
        raise Wrong(f"all_gather_object gave {got}")
    box = [job.rank]
    dist.broadcast_object_list(box, src=0)
    if box != [0]:
        raise Wrong(f"broadcast_object_list gave {box}")


# Gloo has no coalescing, and the manager that finds out leaves the group unusable.
@check("coalescing manager", cuda_only=True)
def coalescing(job):
    data = [own(job, count=count) for count in (3, 1000, 100000)]
    with dist._coalescing_manager(device=job.device, async_ops=True) as manager:
        for one in data:
            dist.all_reduce(one)
    manager.wait()
    for one in data:
        same(one, reduced(job, "SUM", torch.float32, one.numel()))


@check("coalesced all_gather_into_tensor and reduce_scatter_tensor", cuda_only=True)
def coalesced_blocks(job):
    outs = [torch.zeros(count * job.ranks, device=job.device) for count in (4, 1000)]
    with dist._coalescing_manager(device=job.device, async_ops=True) as manager:
        for out in outs:
            dist.all_gather_into_tensor(out, own(job, count=out.numel() // job.ranks))
    manager.wait()
    for out in outs:
        same(out, torch.cat(all_own(job, count=out.numel() // job.ranks)), "all_gather:")
    blocks = [torch.zeros(count, device=job.device) for count in (4, 1000)]
    with dist._coalescing_manager(device=job.device, async_ops=True) as manager:
        for block in blocks:
            dist.reduce_scatter_tensor(block, own(job, count=block.numel()).repeat(job.ranks))
    manager.wait()
    for block in blocks:
        same(block, reduced(job, "SUM", torch.float32, block.numel()), "reduce_scatter:")


@check("several groups at once")
def several_groups(job):
    groups = [dist.new_group(list(range(job.ranks))) for _ in range(3)]
    data = [own(job) for _ in groups]
    works = [dist.all_reduce(one, group=group, async_op=True) for one, group in zip(data, groups)]
    for work in works:
        work.wait()
    for one in data:
        same(one, reduced(job, "SUM", torch.float32))
    for group in groups:
        dist.destroy_process_group(group)


@check("new_group of half the ranks")
def half_group(job):
    halves = [[rank for rank in range(job.ranks) if rank % 2 == odd] for odd in (0, 1)]
    groups = [dist.new_group(half) for half in halves]
    mine = job.rank % 2
    data = own(job)
    dist.all_reduce(data, group=groups[mine])
    same(data, sum(own(job, rank=rank) for rank in halves[mine]))
    dist.destroy_process_group(groups[mine])


@check("split_group", cuda_only=True, may_refuse=True)
def split_group(job):
    halves = [list(range(job.ranks // 2)), list(range(job.ranks // 2, job.ranks))]
    mine = next(half for half in halves if job.rank in half)
    group = dist.split_group(split_ranks=halves)
    data = own(job)
    dist.all_reduce(data, group=group)
    same(data, sum(own(job, rank=rank) for rank in mine))


@check("streams of the caller", cuda_only=True)
def on_streams(job):
    """Calls on several streams, each with work before and after it."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for turn in range(20):
        with torch.cuda.stream(streams[turn % 4]):
            data = own(job, count=100000) * (turn % 3 + 1)
            dist.all_reduce(data)
            results.append(data * 2)
    torch.cuda.synchronize()
    for turn, got in enumerate(results):
        same(got, reduced(job, "SUM", torch.float32, 100000) * (turn % 3 + 1) * 2, f"call {turn}:")


@check("CUDA graph of all_reduce", cuda_only=True)
def cuda_graph(job):
    data, out = own(job), torch.zeros(COUNT, device=job.device)
    dist.all_reduce(data.clone())  # the communicator is there before the capture begins
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copy = data * 2
        dist.all_reduce(copy)
        out.copy_(copy + 1)
    for turn in range(1, 101):
        data.copy_(own(job) * (turn % 4))
        out.zero_()
        graph.replay()
        if turn % 10 == 0:
            torch.cuda.synchronize()
            same(out, reduced(job, "SUM", torch.float32) * (turn % 4) * 2 + 1, f"replay {turn}:")
    del graph
