"""Accelerate: GPT-2 trained with gradient accumulation.

The 124M configuration, 4 sequences of 256 random tokens, two micro-batches a step, bf16, fused
AdamW. Half of the layers of GPT-2 small: compiling is not what is measured.
"""

from __future__ import annotations

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    import accelerate
    import transformers
    from torch.utils.data import DataLoader, TensorDataset

    config = transformers.GPT2Config(
        vocab_size=setup.size(50257, 100),
        n_embd=setup.size(768, 32),
        n_layer=setup.size(6, 1),
        n_head=setup.size(12, 2),
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    precision = "bf16" if setup.device == "cuda" else "no"
    worker = accelerate.Accelerator(
        mixed_precision=precision, gradient_accumulation_steps=2, cpu=setup.device == "cpu"
    )
    model = transformers.GPT2LMHeadModel(config)
    how.module(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    ids = torch.randint(0, config.vocab_size, (64, setup.size(256, 8)))
    loader = DataLoader(TensorDataset(ids), batch_size=4, shuffle=False)
    model, optimizer, loader = worker.prepare(model, optimizer, loader)
    done = 0
    while done < meter.total:
        for (batch,) in loader:
            with worker.accumulate(model):
                loss = model(input_ids=batch, labels=batch).loss
                worker.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            meter.tick(loss)
            done += 1
            if done == meter.total:
                return


FRAMEWORK = Framework(("accelerate", "transformers"), loop)
