"""Trainings with DDP and FSDP2, held to a single process with all the data, and to themselves."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

from torch_checks import Wrong, check

CHECKS = []
STEPS = 20
TOLERANCE = 1e-3  # of a loss, relative: sums in another order
WORDS, WIDTH, LENGTH, BATCH = 64, 64, 16, 2  # BATCH: sequences of a rank


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.query_key_value(self.first(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / WIDTH**0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        x = x + self.out(scores.masked_fill(hidden, -1e9).softmax(-1) @ value)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    """Small, and without an operation that PyTorch has in no deterministic form."""

    def __init__(self):
        super().__init__()
        self.words = nn.Linear(WORDS, WIDTH, bias=False)  # of one-hot words
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(F.one_hot(words, WORDS).to(self.head.weight.dtype))
        for block in self.blocks:
            x = block(x)
        return self.head(x).clone()  # FSDP2 wants no view


def batches(job):
    """(STEPS, all ranks' sequences, LENGTH + 1) words, the same on every rank: text that can be
    learned, since each word follows from the one before it."""
    generator = torch.Generator().manual_seed(7)
    words = [torch.randint(WORDS, (STEPS, BATCH * job.ranks), generator=generator)]
    while len(words) <= LENGTH:
        words.append((5 * words[-1] + 3) % WORDS)
    return torch.stack(words, -1).to(job.device)


def fresh_model(job):
    torch.manual_seed(3)
    return Gpt().to(job.device)


def train(model, data):
    """The loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for batch in data:
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, WORDS), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def average(losses):
    """The mean over the ranks, through all_gather: it must not depend on what is checked."""
    parts = [torch.zeros_like(losses) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, losses)
    return torch.stack(parts).mean(0)


def compare(job, wrapped):
    """`wrapped(model)` makes the model that communicates."""
    data = batches(job)
    mine = data[:, job.rank * BATCH:(job.rank + 1) * BATCH]
    want = train(fresh_model(job), data)
    first = average(train(wrapped(fresh_model(job)), mine))
    second = average(train(wrapped(fresh_model(job)), mine))
    if not torch.equal(first, second):
        raise Wrong(f"two runs differ by up to {(first - second).abs().max().item():.3g}")
    error = ((first - want).abs() / want).max().item()
    if not error < TOLERANCE:
        raise Wrong(f"losses differ from one process's by up to {error:.3g}, relative: "
                    f"{first[-1].item():.6f}, not {want[-1].item():.6f}")
    if not want[-1] < 0.9 * want[0]:
        raise Wrong(f"nothing was learned: {want[0].item():.4f} -> {want[-1].item():.4f}")


def ddp(model, **options):
    return nn.parallel.DistributedDataParallel(model, **options)


@check(f"DDP, {STEPS} steps", checks=CHECKS)
def plain_ddp(job):
    compare(job, lambda model: ddp(model, bucket_cap_mb=0.05))


@check("DDP, static graph, gradients as views", checks=CHECKS)
def static_ddp(job):
    compare(job, lambda model: ddp(model, static_graph=True, gradient_as_bucket_view=True))


def compare_sharded(job, mesh):
    def shard(model):
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    compare(job, shard)


@check(f"FSDP2, {STEPS} steps", checks=CHECKS)
def fsdp2(job):
    compare_sharded(job, dist.init_device_mesh(job.device.type, (job.ranks,)))


@check("HSDP, 2 replicas", checks=CHECKS)
def hsdp(job):
    compare_sharded(job, dist.init_device_mesh(job.device.type, (2, job.ranks // 2),
                                               mesh_dim_names=("replicas", "shards")))
