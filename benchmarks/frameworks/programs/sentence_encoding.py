"""sentence-transformers: texts of any length to embeddings.

all-MiniLM-L6-v2's configuration with random weights and a word tokenizer that is made on the spot;
`encode` sorts by length, batches of 32, so that each batch has a length of its own. A step is a
batch.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def saved(folder: str, setup: Setup) -> None:
    """A model and its tokenizer as on the hub."""
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(500))]
    Path(folder, "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(Path(folder, "vocab.txt"))).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=setup.size(384, 32),
        num_hidden_layers=setup.size(6, 1),
        num_attention_heads=setup.size(12, 2),
        intermediate_size=setup.size(1536, 64),
    )
    transformers.BertModel(config).save_pretrained(folder)
    Path(folder, "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))


def loop(how: How, meter: Meter, setup: Setup) -> None:
    import sentence_transformers
    from sentence_transformers import models

    class Counted(sentence_transformers.SentenceTransformer):
        """Ticks outside of what is compiled."""

        def __call__(self, *given: Any, **named: Any) -> Any:
            found = super().__call__(*given, **named)
            meter.tick(found["sentence_embedding"])
            return found

    with tempfile.TemporaryDirectory() as folder:
        saved(folder, setup)
        inner = models.Transformer(folder)
    pooling = models.Pooling(setup.size(384, 32))
    model = Counted(modules=[inner, pooling], device=setup.device)
    how.module(model, dynamic=True)
    trace = random.Random(0)
    lengths = [min(250, 4 + int(trace.lognormvariate(3.0, 0.7))) for _ in range(meter.planned * 32)]
    if setup.tiny:
        lengths = [length % 12 + 4 for length in lengths]
    texts = [" ".join(f"w{trace.randrange(500)}" for _ in range(length)) for length in lengths]
    with torch.no_grad():
        model.encode(texts, batch_size=32, show_progress_bar=False)


PACKAGES = ("sentence_transformers", "transformers")
FRAMEWORK = Framework(PACKAGES, loop, warm=60, steps=120)
