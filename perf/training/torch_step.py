"""The training step of perf/training/fewer_bytes by PyTorch's DistributedDataParallel over Gloo, with its
communication hooks. (It refuses bf16_compress_hook without NCCL.) One rank; torchrun's variables say
which."""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 256


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("layers", "heads", "width", "context", "batch", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--hook", choices=["none", "fp16", "powersgd"], default="none")
    parser.add_argument("--json", required=True)
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        width = options.width
        self.heads = options.heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in self.qkv(self.attention_norm(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Gpt(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, options.width)
        self.positions = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def main():
    options = arguments()
    ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    links = os.environ["LINKS_OF_HOSTS"].split(",")
    os.environ["GLOO_SOCKET_IFNAME"] = links[rank * len(links) // ranks]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = Gpt(options)
    trained = DistributedDataParallel(model)
    if options.hook == "fp16":
        trained.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif options.hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2,
                                            start_powerSGD_iter=2)
        trained.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    random = torch.Generator().manual_seed(rank)
    own = max(1, options.batch // ranks)
    milliseconds = []
    for _ in range(options.steps):
        text = torch.randint(0, VOCABULARY, (own, options.context + 1), generator=random)
        dist.barrier()
        begin = time.perf_counter()
        logits = trained(text[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), text[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        optimizer.zero_grad()
        milliseconds.append((time.perf_counter() - begin) * 1e3)
    if rank == 0:
        parameters = sum(each.numel() for each in model.parameters())
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"ms": milliseconds, "parameters": parameters}, out)
    dist.destroy_process_group()


main()
