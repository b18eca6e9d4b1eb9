"""Hugging Face's GPT-2 on a text file: python examples/python/gpt2_text.py TEXT [--pretrained FOLDER] [--out FOLDER]

Without --pretrained a small one with random weights learns the bytes of the text; with it, model and tokenizer come from
a folder that save_pretrained() wrote. --out saves the trained model there, for from_pretrained().
"""

import argparse
import pathlib

import torch
import transformers

import pipewright as pw


def small_gpt2(length):
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=length, vocab_size=256, bos_token_id=0,
                                     eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def tokens_of(text, pretrained):
    if pretrained is None:
        return torch.tensor(list(text.encode()))
    return torch.tensor(transformers.AutoTokenizer.from_pretrained(pretrained)(text)["input_ids"])


class Pieces:
    """Batches of pieces of the text, from random places."""

    def __init__(self, tokens, length, size):
        self.tokens, self.length, self.size = tokens, length, size
        if len(tokens) <= length:
            raise SystemExit(f"the text has {len(tokens)} tokens; a piece has {length}")

    def __iter__(self):
        while True:
            starts = torch.randint(0, len(self.tokens) - self.length, (self.size,))
            pieces = torch.stack([self.tokens[start:start + self.length] for start in starts])
            yield {"input_ids": pieces, "labels": pieces.clone()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--pretrained")
    parser.add_argument("--out")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--minibatch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    torch.manual_seed(0)
    module = (small_gpt2(options.length) if options.pretrained is None else
              transformers.GPT2LMHeadModel.from_pretrained(options.pretrained))
    pieces = Pieces(tokens_of(options.text.read_text(), options.pretrained), options.length, options.minibatch)
    model = pw.export(module.train(), {**next(iter(pieces)), "use_cache": False})
    plan = pw.plan(model, cluster=f"{options.workers}xcpu", minibatch=options.minibatch,
                   microbatch=max(1, options.minibatch // 8), planner="balanced", optimizer="adamw")
    print(plan)
    run = pw.train(model, plan, data=pieces, steps=options.steps, optimizer="adamw", lr=3e-3, weight_decay=0.1, clip=1.0,
                   warm_up=options.steps // 10, lr_schedule="cosine")
    print(f"loss {run.losses[0]:.3f} to {run.losses[-1]:.3f}")
    module.load_state_dict(run.state_dict())
    if options.out:
        module.save_pretrained(options.out)


main()
