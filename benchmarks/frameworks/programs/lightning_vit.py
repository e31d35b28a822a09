"""Lightning: a vision transformer trained by its Trainer.

timm's vit_small_patch16_224, 6 of its 12 blocks, batch 16, bf16, AdamW.
"""

from __future__ import annotations

import logging

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    import lightning
    import timm
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    sizes = (
        {"depth": 1, "embed_dim": 48, "num_heads": 2, "img_size": 32}
        if setup.tiny
        else {"depth": 6}
    )
    network = timm.create_model("vit_small_patch16_224", num_classes=100, **sizes)
    how.module(network)

    class Module(lightning.LightningModule):
        """A classifier."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            images, labels = batch
            return torch.nn.functional.cross_entropy(self.network(images).float(), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 1e-4)

    class Count(lightning.Callback):
        """Tells the meter each step's loss."""

        def on_train_batch_end(
            self, trainer: object, module: object, outputs: dict, *_: object
        ) -> None:
            meter.tick(outputs["loss"])

    side = setup.size(224, 32)
    images = torch.randn(setup.size(128, 16), 3, side, side)
    data = TensorDataset(images, torch.arange(len(images)) % 100)
    trainer = lightning.Trainer(
        accelerator="gpu" if setup.device == "cuda" else "cpu",
        devices=1,
        precision="bf16-mixed" if setup.device == "cuda" else "32-true",
        max_steps=meter.total,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Count()],
    )
    trainer.fit(Module(), DataLoader(data, batch_size=setup.size(16, 2), num_workers=0))


FRAMEWORK = Framework(("lightning", "timm"), loop)
