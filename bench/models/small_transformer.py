# SPDX-License-Identifier: Apache-2.0
"""A transformer of about 110 M parameters and a synthetic language that it can learn, with which
`trained_tensors.py` makes real tensors: bf16 weights and gradients, fp32 master weights and AdamW.

Even layers have a gated MLP, odd ones a ReLU MLP, so that one training gives both activations.
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Shape:
    vocabulary: int = 16384
    width: int = 768
    heads: int = 12
    layers: int = 12
    gated: int = 2048
    relu: int = 3072
    context: int = 512
    batch: int = 32


class Language:
    """Each token has 64 successors with Zipf's frequencies; one token in ten repeats what stood
    16 places before. The next token is predictable in part, as in text."""

    def __init__(self, shape, device, generator):
        self.shape, self.device, self.generator = shape, device, generator
        ranks = torch.arange(1, 65, device=device, dtype=torch.float32)
        self.frequencies = (1 / ranks) / (1 / ranks).sum()
        # Frequent tokens follow frequently, too.
        uniform = torch.rand((shape.vocabulary, 64), device=device, generator=generator)
        self.successors = (shape.vocabulary ** uniform - 1).long().clamp(0, shape.vocabulary - 1)

    def batches(self, count):
        rows, length = count * self.shape.batch, self.shape.context + 1
        tokens = torch.empty((rows, length), dtype=torch.long, device=self.device)
        tokens[:, 0] = torch.randint(self.shape.vocabulary, (rows,), device=self.device,
                                     generator=self.generator)
        for place in range(1, length):
            choice = torch.multinomial(self.frequencies, rows, True, generator=self.generator)
            tokens[:, place] = self.successors[tokens[:, place - 1], choice]
            if place >= 16:
                repeat = torch.rand(rows, device=self.device, generator=self.generator) < 0.1
                tokens[repeat, place] = tokens[repeat, place - 16]
        return tokens.view(count, self.shape.batch, length)


def rotate(states, cosines, sines):
    first, second = states.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.projection = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, states, rotation, kept):
        batch, length, width = states.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.projection(states).chunk(3, dim=-1))
        query, key = rotate(query, *rotation), rotate(key, *rotation)
        if kept is not None:
            kept["k_cache"], kept["v_cache"] = key, value
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, shape, gated):
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = nn.RMSNorm(shape.width)
        hidden = shape.gated if gated else shape.relu
        self.up = nn.Linear(shape.width, hidden, bias=False)
        self.gate = nn.Linear(shape.width, hidden, bias=False) if gated else None
        self.down = nn.Linear(hidden, shape.width, bias=False)

    def forward(self, states, rotation, kept=None):
        states = states + self.attention(self.attention_norm(states), rotation, kept)
        inner = self.mlp_norm(states)
        if self.gate is None:
            hidden = functional.relu(self.up(inner))
        else:
            hidden = functional.silu(self.gate(inner)) * self.up(inner)
        if kept is not None:
            kept["relu_mlp" if self.gate is None else "gated_mlp"] = hidden
            kept["mlp_input"], kept["residual"] = inner, states
        return states + self.down(hidden)


class Transformer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, layer % 2 == 0) for layer in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
        half = shape.width // shape.heads // 2
        angles = torch.outer(torch.arange(shape.context).float(),
                             10000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, tokens, kept=None):
        states = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            of_layer = {} if kept is not None else None
            states = block(states, (self.cosines, self.sines), of_layer)
            for name, tensor in (of_layer or {}).items():
                kept[f"layer{layer}.{name}"] = tensor.detach()
        return self.head(self.norm(states))


class Adam:
    """AdamW with master weights and moments in fp32 beside a bf16 model."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.masters = [parameter.detach().float() for parameter in self.parameters]
        self.first = [torch.zeros_like(master) for master in self.masters]
        self.second = [torch.zeros_like(master) for master in self.masters]
        self.steps = 0

    @torch.no_grad()
    def step(self, rate, beta1=0.9, beta2=0.95, decay=0.1):
        self.steps += 1
        gradients = [parameter.grad.float() for parameter in self.parameters]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (1 / norm).clamp(max=1))
        torch._foreach_lerp_(self.first, gradients, 1 - beta1)
        torch._foreach_mul_(self.second, beta2)
        torch._foreach_addcmul_(self.second, gradients, gradients, 1 - beta2)
        scales = torch._foreach_div(self.second, 1 - beta2 ** self.steps)
        torch._foreach_sqrt_(scales)
        torch._foreach_add_(scales, 1e-8)
        torch._foreach_mul_(self.masters, 1 - rate * decay)
        torch._foreach_addcdiv_(self.masters, self.first, scales,
                                -rate / (1 - beta1 ** self.steps))
        torch._foreach_copy_(self.parameters, self.masters)


def train_step(model, adam, tokens, rate):
    logits = model(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    for parameter in adam.parameters:
        parameter.grad = None
    loss.backward()
    adam.step(rate)
    return loss


def train(shape, steps, device, seed):
    """The model, its optimizer, its language and the losses at the start and at the end."""
    torch.manual_seed(seed)
    generator = torch.Generator(device).manual_seed(seed)
    language = Language(shape, device, generator)
    model = Transformer(shape).to(device).to(torch.bfloat16)
    adam = Adam(model)
    batches, losses = language.batches(min(steps, 64)), []
    for step in range(steps):
        rate = 1e-3 * min(1, (step + 1) / 50) * (1 - 0.9 * step / steps)
        losses.append(train_step(model, adam, batches[step % len(batches)], rate))
    return model, adam, language, [losses[0].item(), losses[-1].item()]
