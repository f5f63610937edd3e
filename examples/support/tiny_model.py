# SPDX-License-Identifier: Apache-2.0
"""A small transformer with a paged key-value cache, enough to train and to generate with."""
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x, cache):
        """`cache(keys, values)` stores the new ones and returns all there are."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.view(shape).transpose(1, 2)
                             for part in self.qkv(self.norm_attention(x)).chunk(3, dim=-1))
        if cache is not None:
            key, value = cache(key, value)
        causal = length > 1
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x, cache=None):
        x = x + self.attend(x, cache)
        return x + self.mlp(self.norm_mlp(x))


class TinyModel(nn.Module):
    def __init__(self, vocabulary=256, width=512, heads=8, layers=6, context=1024):
        super().__init__()
        self.width, self.heads, self.layers = width, heads, layers
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, start=0, caches=None):
        places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + self.place(places)
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches is not None else None)
        return self.head(self.norm(x))


class PagedCache:
    """Keys and values of all layers in one pool of blocks for each layer, found by a block table.
    A block holds `block_tokens` tokens' keys, then their values."""

    def __init__(self, model, blocks, block_tokens, table, device):
        self.block_tokens, self.table = block_tokens, table
        self.tokens = 0
        shape = (model.layers, blocks, 2, block_tokens, model.heads, model.width // model.heads)
        self.pool = torch.zeros(shape, dtype=torch.bfloat16, device=device)

    def block_bytes(self):
        return self.pool[0, 0].numel() * 2

    def layer_bytes(self):
        return self.pool[0].numel() * 2

    def blocks_in_use(self):
        return self.table[:-(-self.tokens // self.block_tokens)]

    def of_layer(self, layer):
        table = torch.tensor(self.table, device=self.pool.device)

        def store_and_load(keys, values):
            start, count = self.tokens, keys.shape[2]
            places = torch.arange(start, start + count, device=self.pool.device)
            block, slot = table[places // self.block_tokens], places % self.block_tokens
            self.pool[layer, block, 0, slot] = keys[0].transpose(0, 1)
            self.pool[layer, block, 1, slot] = values[0].transpose(0, 1)
            every = torch.arange(start + count, device=self.pool.device)
            block, slot = table[every // self.block_tokens], every % self.block_tokens
            load = [self.pool[layer, block, kind, slot].transpose(0, 1)[None] for kind in (0, 1)]
            return load[0].contiguous(), load[1].contiguous()

        return store_and_load


@torch.no_grad()
def generate(model, cache, token, count):
    """Appends `count` tokens, the most likely ones, to what the cache holds."""
    tokens = []
    for _ in range(count):
        step = torch.tensor([[token]], device=cache.pool.device)
        logits = model(step, cache.tokens, [cache.of_layer(i) for i in range(model.layers)])
        cache.tokens += 1
        token = int(logits[0, -1].argmax())
        tokens.append(token)
    return tokens
