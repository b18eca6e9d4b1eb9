"""Small networks that the tests export: each returns a module and a function that draws a batch."""

import torch
from torch import nn


class Mixed(nn.Module):
    """In-place operators, views, a frozen part, buffers, several inputs and a dictionary as output."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(6, 8).requires_grad_(False)
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.norm = nn.BatchNorm1d(8)
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))
        self.head = nn.Linear(8, 3)
        self.head.weight.data *= 0.5

    def forward(self, image, weight, labels):
        h = self.first(self.frozen(image))
        part = h[:, :4]
        part.mul_(2.0)
        h = self.act(h) * weight.unsqueeze(1)
        for block in self.blocks:
            h = h + torch.tanh(block(h)).view(-1, 2, 4).transpose(1, 2).reshape(-1, 8)
        h = self.norm(h) * self.scale
        h.add_(1.0)
        logits = self.head(h)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def mixed():
    def batch(size):
        return {"image": torch.randn(size, 6), "weight": torch.rand(size), "labels": torch.randint(0, 3, (size,))}

    return Mixed(), batch


class Language(nn.Module):
    """Tied weights, attention, dropout, a residual stream; the loss is given apart."""

    def __init__(self, drop):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, drop, batch_first=True, norm_first=True)
                                     for _ in range(2)])
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        h = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            h = layer(h, src_mask=mask, is_causal=True)
        return self.head(h)


def language(drop=0.25):
    def batch(size):
        return torch.randint(0, 20, (size, 5)), torch.randint(0, 20, (size, 5))

    return Language(drop), batch


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.rnn = nn.LSTM(6, 6, 2, batch_first=True)
        self.head = nn.Linear(6, 10)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


def recurrent():
    def batch(size):
        return torch.randint(0, 10, (size, 3)), torch.randint(0, 10, (size, 3))

    return Recurrent(), batch


class Images(nn.Module):
    """A small UNet: convolutions, batch and group norms, skips, resizing."""

    def __init__(self):
        super().__init__()
        def conv(a, b):
            return nn.Conv2d(a, b, 3, padding=1)
        self.down = nn.ModuleList([nn.Sequential(conv(2, 4), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
                                   nn.Sequential(conv(4, 8), nn.GroupNorm(2, 8), nn.SiLU(inplace=True))])
        self.middle = nn.Sequential(conv(8, 8), nn.ReLU())
        self.up = nn.ModuleList([nn.Sequential(conv(16, 4), nn.ReLU()), nn.Sequential(conv(8, 4), nn.ReLU())])
        self.out = nn.Conv2d(4, 3, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(torch.cat([x, skips.pop()], 1))
        return self.out(x)


def images():
    def batch(size):
        return torch.randn(size, 2, 8, 8), torch.randint(0, 3, (size, 8, 8))

    return Images(), batch


ALL = {"mixed": (mixed, None), "language": (language, "cross_entropy"), "recurrent": (recurrent, "cross_entropy"),
       "images": (images, nn.CrossEntropyLoss())}
