"""transformers: BERT fine-tuned by the Trainer.

bert-base-uncased's configuration, 6 of its 12 layers, two classes, batch 8, 128 random tokens,
bf16. `TrainingArguments` takes no backend but accelerate's own list, so the model is compiled in
place.
"""

from __future__ import annotations

import tempfile

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Random tokens with two classes."""

    def __init__(self, count: int, length: int, top: int) -> None:
        self.ids = torch.randint(0, top, (count, length))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = self.ids[index]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[0] % 2}


def loop(how: How, meter: Meter, setup: Setup) -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=setup.size(30522, 100),
        hidden_size=setup.size(768, 32),
        num_hidden_layers=setup.size(6, 1),
        num_attention_heads=setup.size(12, 2),
        intermediate_size=setup.size(3072, 64),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.BertForSequenceClassification(config)
    how.module(model)

    class Counting(transformers.Trainer):
        """Tells the meter each step's loss."""

        def training_step(self, *args: object, **kwargs: object) -> torch.Tensor:
            loss = super().training_step(*args, **kwargs)
            meter.tick(loss)
            return loss

    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder,
            max_steps=meter.total,
            per_device_train_batch_size=8,
            bf16=setup.device == "cuda",
            use_cpu=setup.device == "cpu",
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        data = Tokens(256, setup.size(128, 8), config.vocab_size)
        Counting(model=model, args=settings, train_dataset=data).train()


FRAMEWORK = Framework(("transformers", "accelerate"), loop)
